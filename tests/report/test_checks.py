"""What the terminal shows of checks: every rule, what it was judged by, and how to fix it."""

from __future__ import annotations

from kernelrig.model import Check, Outcome, Verdict
from kernelrig.report import exit_code, render_checks, render_run, render_sets, render_summary
from kernelrig.report.github import error_commands

from tests.report import runs
from tests.toolchain_fixture import REPOSITORY


def test_verbose_shows_a_row_a_rule_and_the_notes() -> None:
    assert render_checks(runs.CHECKED, verbose=True) == (
        "sm_100a-production\n"
        "code  rule       verdict  found\n"
        "R001  registers  pass     registers: 210, budget: 236\n"
        "R008  accepted   skip     nothing is accepted yet\n"
        "note: most live registers: 207 at sm100a_patch_embed_fp8.cu:505\n"
    )


def test_a_rule_that_fails_shows_figures_places_and_the_way_out() -> None:
    assert render_checks(runs.SPILLING, verbose=True) == (
        "sm_100a-production\n"
        "code  rule          verdict  found\n"
        "R001  registers     pass     registers: 210, budget: 236\n"
        "R004  local-memory  fail     1 local instructions, the budget is at most 0\n"
        "        local_instructions: 1\n"
        "        budget: 0\n"
        "        kernel/sm100a_patch_embed_fp8.cu:415: STL at 0x1230\n"
        "        suggested fix: unroll\n"
        "note: most live registers: 207 at sm100a_patch_embed_fp8.cu:505\n"
    )


def test_by_default_a_build_is_one_line_and_what_does_not_pass() -> None:
    assert render_checks(runs.CHECKED) == (
        "sm_100a-production: 1 of 2 rules pass, 1 not applicable\n"
    )
    assert render_checks(runs.SPILLING) == (
        "sm_100a-production: 1 of 2 rules pass, 1 fail (R004)\n"
    )


def test_a_run_of_static_checks_alone_is_labelled_and_passes() -> None:
    assert exit_code(runs.CHECKED) == 0
    assert render_run(runs.CHECKED).splitlines()[0] == (
        "pass: 20261121T120000Z-patch_embed-check-c0de (static)"
    )
    lines = render_summary(runs.CHECKED).splitlines()
    assert lines[0] == "# pass: patch_embed, sm_100a, production"
    assert lines[2] == (
        "- **ran on**: no device: the builds were read, nothing was run; "
        "2026-11-21T12:00:00Z to 2026-11-21T12:00:09Z"
    )
    assert lines[-1] == "- **next**: `ci/invoke emulate --kernel patch_embed`"


def test_a_place_that_breaks_a_rule_is_an_annotation_on_its_line() -> None:
    assert exit_code(runs.SPILLING) == 1
    (command,) = error_commands(runs.SPILLING, REPOSITORY)
    assert command.startswith(
        "::error file=kernel/sm100a_patch_embed_fp8.cu,line=415,"
        "title=sm_100a-production / R004 local-memory (static)::"
    )


def test_of_sets_the_counts_are_shown_and_only_those_that_fail() -> None:
    good = Check("T001 defaults", Verdict(Outcome.PASS, "210 registers"))
    bad = Check("T001 WIDTH=4", Verdict(Outcome.FAIL, "12 bytes spilled"))
    run = runs.static_run(good, bad, name="sm_100a-tunables")
    assert render_sets(run) == (
        "sm_100a-tunables\n"
        "  most live registers: 207 at sm100a_patch_embed_fp8.cu:505\n"
        "  fail  T001 WIDTH=4: 12 bytes spilled\n"
    )
