"""Which sets a sweep tries, and what it refuses."""

from __future__ import annotations

import pytest
from kernelrig.errors import ConfigError
from kernelrig.model import Kernel, Tunable, Variant
from kernelrig.sweep.set_choice import SweepRequest, select_sets
from kernelrig.sweep.set_variants import with_sets

KERNEL = Kernel(
    "gemm",
    {"sm_90a": "gemm.cu"},
    {"production": Variant("production", "gemm", defines={"WARPS": 8, "KERNELRIG_X": 1})},
    tunables={
        "sm_90a": {
            "DEPTH": Tunable(4, (3, 4, 5), structural=True),
            "WARPS": Tunable(4, (4, 8)),
            "REGS": Tunable(0, (0, 192), flag="--maxrregcount={}", without=0),
        }
    },
)


def names(**asked: object) -> list[str]:
    request = SweepRequest(**asked)  # type: ignore[arg-type]
    return [s.name for s in select_sets(KERNEL, "sm_90a", request)]


def test_below_500_combinations_all_are_tried_the_variants_own_values_first() -> None:
    found = select_sets(KERNEL, "sm_90a", SweepRequest())
    assert len(found) == len({s.id for s in found}) == 12
    assert found[0].name == "defaults"
    assert found[0].values == {"DEPTH": 4, "WARPS": 8, "REGS": 0}
    many = {f"T{i}": Tunable(0, (0, 1)) for i in range(9)}
    whole = Kernel("k", KERNEL.sources, KERNEL.variants, tunables={"sm_90a": many})
    assert 9 < len(select_sets(whole, "sm_90a", SweepRequest())) < 40  # of 512


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"sets": ("DEPTH=3,7",)}, ["defaults", "DEPTH=3", "DEPTH=7"]),
        ({"sets": ("REGS",), "fixed": ("DEPTH=5",)}, ["defaults", "REGS=192"]),
        (
            {"fixed": ("DEPTH=5", "REGS=0")},
            ["defaults", "WARPS=4"],
        ),
        ({"only": "DEPTH=3$"}, ["defaults", "DEPTH=3"]),
        ({"sample": 1}, None),
    ],
)
def test_flags_narrow_it(asked: dict[str, object], wanted: list[str] | None) -> None:
    assert names(**asked) == (wanted or names(**asked))
    assert names(**asked)[0] == "defaults"
    assert len(names(**asked)) == len(wanted or ["defaults", "one"])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"sets": ("DEPT=3",)}, "unknown tunable 'DEPT'; known: DEPTH, REGS, WARPS; did you mean"),
        ({"sets": ("DEPTH=3,x",)}, "--set 'DEPTH=3,x' has a value that is no whole number"),
        ({"sets": ("DEPTH=3", "DEPTH=4")}, "--set names DEPTH twice"),
        ({"fixed": ("DEPTH=3,4",)}, "--fix DEPTH has 2 values"),
        ({"sets": ("DEPTH",), "fixed": ("DEPTH=3",)}, "--fix DEPTH is in --set too"),
        ({"only": "("}, "--only is not a regular expression"),
        ({"only": "nothing"}, "no set is left to try beside the defaults"),
        ({"sample": 0}, "--sample must be 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        names(**asked)
    assert caught.value.message.startswith(sentence)


def test_a_set_is_a_variant_like_production_with_its_values() -> None:
    one = select_sets(KERNEL, "sm_90a", SweepRequest(sets=("DEPTH=3",)))[1]
    made = with_sets(KERNEL, [one])
    assert list(made.variants) == [one.id]
    assert made.variants[one.id].defines == {"KERNELRIG_X": 1, "DEPTH": 3, "WARPS": 8, "REGS": 0}
    assert made.tuned("sm_90a", one.id) == one.values
