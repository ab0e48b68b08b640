"""Client and program draw the same spot checks: which launches, which outputs, which inputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kernelrig.proc import run_process
from kernelrig.reference.spot_check import (
    CHECKS,
    PLACES,
    spot_checked_samples,
    spot_places,
    spot_seed,
)

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/inputs/print_spot_checks.cpp"
FULL = 928256 * 768


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("spots") / "print_spot_checks")


@pytest.mark.parametrize("seed", [0, 213066405942496, 2**64 - 1])
@pytest.mark.parametrize(
    ("samples", "outputs"), [(200, FULL), (6020, 1053696), (17, 255), (3, 1792), (2, 1), (1, 64)]
)
def test_both_draw_the_same(program: Path, seed: int, samples: int, outputs: int) -> None:
    done = run_process([program, str(seed), str(samples), str(outputs)])
    assert done.exit_code == 0
    drawn = [
        [sample, spot_seed(seed, sample), *spot_places(seed, sample, outputs).tolist()]
        for sample in spot_checked_samples(seed, samples)
    ]
    assert json.loads(done.stdout) == drawn


@pytest.mark.parametrize("samples", [1, 2, 16, 17, 18, 200])
def test_checked_samples_are_distinct_and_leave_out_the_last(samples: int) -> None:
    for seed in range(50):
        drawn = spot_checked_samples(seed, samples)
        assert len(set(drawn)) == len(drawn) == min(CHECKS, samples - 1)
        assert all(0 <= s < samples - 1 for s in drawn)


def test_every_sample_but_the_last_is_checked_under_some_seed() -> None:
    seen = {s for seed in range(2000) for s in spot_checked_samples(seed, 40)}
    assert seen == set(range(39))


def test_places_are_distinct_and_spread_over_all_outputs() -> None:
    places = spot_places(7, 3, FULL)
    assert np.unique(places).size == PLACES
    assert (places * PLACES // FULL).tolist() == list(range(PLACES))


def test_places_and_inputs_of_two_samples_have_nothing_in_common() -> None:
    first, second = spot_places(7, 3, FULL), spot_places(7, 4, FULL)
    assert np.intersect1d(first, second).size == 0
    assert len({spot_seed(7, sample) for sample in range(200)}) == 200
