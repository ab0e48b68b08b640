"""What was accepted is the measure: better is told, worse fails until it is accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ProtocolError
from kernelrig.model import AcceptedBuild, Outcome, Usage
from kernelrig.static.accepted_figures import accept_figures, check_accepted, load_accepted

from tests.static.builds import made_subject
from tests.toolchain_fixture import REPOSITORY

USAGE = Usage(210, 0, 0, 0, 0, 196708, 1)
THEN = AcceptedBuild("nvcc 13.0.88", USAGE, {"gemm": "c90ed14b1a9572c9"})


def test_what_is_written_is_read_again_and_others_stay(tmp_path: Path) -> None:
    assert load_accepted(tmp_path).builds == {}
    other = replace(THEN, usage=replace(USAGE, registers=88))
    accept_figures(tmp_path, {"demo-sm_100a-production": THEN, "demo-sm_90a-production": THEN})
    path = accept_figures(tmp_path, {"demo-sm_100a-production": other})
    assert load_accepted(tmp_path).builds == {
        "demo-sm_100a-production": other,
        "demo-sm_90a-production": THEN,
    }
    assert (path, json.loads(path.read_text())["schema"]) == (
        tmp_path / "kernel/accepted.json",
        1,
    )


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/accepted.json").write_text('{"schema": 1, "builds": {"a": 3}}')
    with pytest.raises(ProtocolError):
        load_accepted(tmp_path)


def test_the_same_figures_pass() -> None:
    check = check_accepted(made_subject(), THEN, THEN)
    assert (check.verdict.outcome, check.verdict.summary) == (Outcome.PASS, "as accepted")


def test_what_nobody_accepted_is_a_skip_that_says_how() -> None:
    check = check_accepted(made_subject(), THEN, None)
    assert check.verdict.outcome is Outcome.SKIP
    assert check.verdict.summary == (
        "no accepted figures of demo-sm_100a-production yet: "
        "look at it, then `invoke check --accept`"
    )


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"registers": 211}, "registers 210 -> 211"),
        ({"spill_bytes": 4}, "spill bytes 0 -> 4"),
        ({"shared_bytes": 196712}, "shared bytes 196708 -> 196712"),
        ({"ctas_per_sm": 0}, "ctas per sm 1 -> 0"),
        ({"shared_bytes": None}, "shared bytes 196708 -> unknown"),
    ],
)
def test_worse_fails_and_says_how_to_accept_it(now: dict[str, int], said: str) -> None:
    check = check_accepted(made_subject(), replace(THEN, usage=replace(USAGE, **now)), THEN)
    assert check.verdict.outcome is Outcome.FAIL
    assert check.verdict.summary == f"{said}; look at it, then `invoke check --accept`"
    assert [f.message for f in check.findings] == [said]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"registers": 200}, "registers 210 -> 200"),
        ({"ctas_per_sm": 2}, "ctas per sm 1 -> 2"),
        ({"registers": 200, "shared_bytes": 0}, "registers 210 -> 200; shared bytes 196708 -> 0"),
    ],
)
def test_better_passes_and_is_told(now: dict[str, int], said: str) -> None:
    check = check_accepted(made_subject(), replace(THEN, usage=replace(USAGE, **now)), THEN)
    assert (check.verdict.outcome, check.verdict.summary) == (Outcome.PASS, said)


def test_another_compiler_is_told() -> None:
    check = check_accepted(made_subject(), replace(THEN, toolchain="nvcc 13.1"), THEN)
    assert check.facts == {"toolchain": "nvcc 13.0.88 -> nvcc 13.1"}
    assert check.verdict.outcome is Outcome.PASS


def test_what_is_accepted_here_is_a_build_that_kernels_yaml_knows() -> None:
    known = {
        f"{k.name}-{arch}-{variant}"
        for k in config.load_kernels(REPOSITORY).values()
        for arch, budgets in k.budgets.items()
        for variant in budgets
    }
    assert load_accepted(REPOSITORY).builds.keys() == known
