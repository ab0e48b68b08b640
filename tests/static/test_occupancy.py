"""How many CTAs fit on an SM, by whichever thing runs out first."""

from __future__ import annotations

import pytest
from kernelrig.static.occupancy import ctas_per_sm, limits_of


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "fitting"),
    [
        # The stand-in: 128 registers would still be two, 129 are one.
        (256, 128, 65536, {"CTAs": 32, "threads": 8, "registers": 2, "shared memory": 3}),
        (256, 129, 65536, {"CTAs": 32, "threads": 8, "registers": 1, "shared memory": 3}),
        # The megakernel: a CTA has almost all of the shared memory.
        (192, 236, 198656, {"CTAs": 32, "threads": 10, "registers": 1, "shared memory": 1}),
        # All that a CTA may have, with the KB that the system takes for itself.
        (32, 16, 232448, {"CTAs": 32, "threads": 64, "registers": 128, "shared memory": 1}),
        (32, 255, 0, {"CTAs": 32, "threads": 64, "registers": 8, "shared memory": 228}),
        (1024, 255, 0, {"CTAs": 32, "threads": 2, "registers": 0, "shared memory": 228}),
        (33, 64, 116736, {"CTAs": 32, "threads": 32, "registers": 16, "shared memory": 1}),
    ],
)
def test_ctas_that_fit(
    threads: int, registers: int, shared_bytes: int, fitting: dict[str, int]
) -> None:
    limits = limits_of("sm_100a")
    assert limits
    assert ctas_per_sm(limits, threads, registers, shared_bytes) == fitting


def test_an_arch_whose_limits_are_not_known_is_not_guessed() -> None:
    assert limits_of("sm_90a") == limits_of("sm_100f") == limits_of("sm_100a")
    assert limits_of("sm_120a") is None
