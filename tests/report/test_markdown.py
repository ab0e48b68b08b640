from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Run, StageKind
from kernelrig.report.markdown import next_command, render_summary

from tests.report import runs

DATA = Path(__file__).parents[1] / "data" / "report"


@pytest.mark.parametrize("name", ["pass", "accepted", "fail", "error", "incomplete", "emulated"])
def test_the_summary_is_the_one_that_was_reviewed(name: str) -> None:
    assert render_summary(runs.ALL[name]) == (DATA / f"{name}.summary.md").read_text()


@pytest.mark.parametrize("run", runs.ALL.values(), ids=runs.ALL)
def test_every_summary_has_ten_lines_whatever_the_tools_said(run: Run) -> None:
    text = render_summary(run)
    assert len(text.splitlines()) == 10
    assert text.endswith("`\n")


@pytest.mark.parametrize(
    "name", sorted(set(runs.ALL) - {"pass", "accepted", "emulated", "checked"})
)
def test_nothing_but_a_pass_is_called_one(name: str) -> None:
    assert not render_summary(runs.ALL[name]).startswith("# pass")


def test_an_emulated_time_is_never_called_measured() -> None:
    timing = render_summary(runs.EMULATED).splitlines()[6]
    assert "(emulated, not measured)" in timing
    assert "B200" not in render_summary(runs.EMULATED)


def test_the_kernels_label_stands_beside_its_time() -> None:
    timing = render_summary(runs.PASS).splitlines()[6]
    assert "median 5.300 ms" in timing
    assert timing.endswith("stand-in on plain CUDA cores; its time is not the project's")


def test_the_label_is_that_of_the_arch_that_ran() -> None:
    for label, end in (({"sm_90a": "a stand-in"}, "; a stand-in"), ({"sm_100a": "it"}, ")")):
        run = replace(runs.PASS, kernel=replace(runs.PASS.kernel, label=label))
        assert render_summary(run).splitlines()[6].endswith(end)


def test_a_stage_of_another_variant_than_the_runs_says_so() -> None:
    guard = replace(runs.CHECKSUM, name="tmem-guard", variant="guard")
    own = replace(runs.CHECKSUM, variant="production")
    line = render_summary(runs.run(runs.PREFLIGHT, own, guard)).splitlines()[3]
    assert line == "- **stages**: preflight pass, checksum pass, tmem-guard (guard) pass"


def test_the_label_in_the_binary_counts_where_kernels_yaml_has_none() -> None:
    (check,) = runs.TIMING.checks
    told = replace(check, facts={**check.facts, "label": "stand-in, says the binary"})
    run = runs.run(runs.CHECKSUM, replace(runs.TIMING, checks=(told,)))
    unlabelled = replace(run, kernel=replace(run.kernel, label=""))
    assert render_summary(unlabelled).splitlines()[6].endswith("; stand-in, says the binary")


def test_a_time_that_does_not_count_has_no_figures() -> None:
    skipped = replace(runs.TIMING, verdict=runs.skipped("not counted"), checks=())
    timing = render_summary(runs.run(runs.CHECKSUM, skipped)).splitlines()[6]
    assert timing == "- **timing**: skip: not counted"


@pytest.mark.parametrize(
    ("run", "command"),
    [
        (runs.PASS, "ci/invoke profile --remote h200 --kernel patch_embed"),
        (
            replace(runs.PASS, kernel=replace(runs.PASS.kernel, cuda=False)),
            "ci/invoke remote-test --remote h200 --kernel patch_embed",
        ),
        (
            runs.run(runs.stage("profile", StageKind.PROFILE, verdict=runs.passed())),
            "ci/invoke remote-test --remote h200 --kernel patch_embed",
        ),
        (
            runs.run(runs.stage("profile", StageKind.PROFILE, verdict=runs.failed("NaN"))),
            "ci/invoke profile --remote h200 --kernel patch_embed",
        ),
        (runs.FAIL, "ci/invoke remote-test --remote h200 --kernel patch_embed --only memcheck"),
        (runs.ERROR, "ci/invoke remote-test --remote h200 --kernel patch_embed"),
        (
            replace(runs.FAIL, plan=replace(runs.FAIL.plan, name="blackwell"), variant="debug"),
            "ci/invoke remote-test --remote h200 --kernel patch_embed --variant debug"
            " --plan blackwell --only memcheck",
        ),
        (
            replace(runs.PASS, plan=replace(runs.PASS.plan, name="blackwell")),
            "ci/invoke profile --remote h200 --kernel patch_embed",
        ),
        (runs.NOTHING, "ci/invoke doctor"),
        (runs.INCOMPLETE, "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef"),
        (
            replace(runs.FAIL, state="launched"),
            "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef",
        ),
    ],
)
def test_the_next_command_goes_on_from_where_the_run_ended(run: Run, command: str) -> None:
    assert next_command(run) == command
