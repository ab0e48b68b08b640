"""A program that computes only while it is checked, over a real SSH server: its run fails."""

from __future__ import annotations

import json

import pytest
from kernelrig.model import Outcome

from tests.e2e.project import read_junit, stage_of
from tests.e2e.test_baselines import FIRST, ONLY, SEED, Rig, built, rig
from tests.stages import bench, outputs

__all__ = ["built", "rig"]  # fixtures

SAMPLES = bench.timed_ms(*(1 + (i - 100) / 1e5 for i in range(200)))


def skips(rows: list[int], right: list[int]) -> list[int]:
    """Return what a launch leaves that was skipped: complements of what was right before it."""
    return [0xFFFF - bits for bits in right]


def returns_earlier(rows: list[int], right: list[int]) -> list[int]:
    return rows


@pytest.mark.parametrize("cheat", [skips, pytest.param(returns_earlier, marks=pytest.mark.long)])
def test_a_kernel_that_computes_only_while_it_is_checked_fails_the_run(
    rig: Rig, cheat: object
) -> None:
    assert callable(cheat)
    timed = bench.result("time", "random", FIRST, samples=SAMPLES) | {"label": ""}
    from kernelrig.reference.spot_check import spot_places

    count = bench.IMAGES * outputs.ROWS_PER_IMAGE * outputs.N
    for check in timed["spot_checks"]:
        earlier = outputs.right_bits("random", FIRST + check["set"], bench.IMAGES).ravel()
        places = spot_places(FIRST, check["sample"], count)
        check["bits"] = cheat([int(earlier[p]) for p in places], check["bits"])
    (rig.told / f"time-random-{FIRST}.json").write_text(json.dumps(timed))
    remote = ("--remote", "host", "--kernel", "told", "--build", str(rig.built))
    answer = rig.project.invoke("remote-test", *remote, *ONLY, *SEED)
    assert answer.exit_code == 1, answer.stdout
    assert stage_of(answer.run, "checksum").verdict.outcome is Outcome.PASS
    found = stage_of(answer.run, "timing").verdict
    assert found.outcome is Outcome.FAIL
    assert found.summary.startswith("in timed launches: sample ")
    assert "16 of 16 checked launches did not compute" in found.summary
    assert read_junit(answer.folder)["timing/time"].startswith("failure: in timed launches: ")
