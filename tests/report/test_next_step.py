"""The step after a run follows from its verdict; it is not the same command again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.model import Check, DeviceKind, Fault, Plan, Run, Stage, StageKind
from kernelrig.report.next_step import next_command, next_step

from tests.report import runs

H200 = "--remote h200 --kernel patch_embed"
EMULATE = replace(
    runs.EMULATED,
    remote=None,
    plan=Plan("emulate", (Stage("checksum", StageKind.CHECKSUM, case="images=2,ctas=2"),)),
    jobs=(),
    arch="sm_100a",
)
MISMATCH = Check(
    "integer", runs.failed("wrong"), findings=(runs.OUT_OF_BOUNDS,), facts={"pattern": "integer"}
)
WRONG = replace(
    EMULATE, stages=(replace(EMULATE.stages[0], verdict=runs.failed("x"), checks=(MISMATCH,)),)
)


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (runs.PASS, f"ci/invoke profile {H200}"),
        (
            replace(runs.PASS, kernel=replace(runs.PASS.kernel, cuda=False)),
            "change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed --remote h200",
        ),
        (
            runs.run(runs.stage("profile", StageKind.PROFILE, verdict=runs.passed())),
            "change the kernel, then ci/invoke bench patch_embed@HEAD patch_embed --remote h200",
        ),
        (
            runs.run(runs.stage("profile", StageKind.PROFILE, verdict=runs.failed("NaN"))),
            f"fix what profile found, then ci/invoke profile {H200}",
        ),
        (
            runs.FAIL,
            "fix kernel/cuda_patch_embed_fp8.cu:123, then"
            f" ci/invoke remote-test {H200} --only memcheck",
        ),
        (runs.ERROR, f"repair what preflight names, then ci/invoke remote-test {H200}"),
        (
            replace(runs.FAIL, plan=replace(runs.FAIL.plan, name="blackwell"), variant="debug"),
            "fix kernel/cuda_patch_embed_fp8.cu:123, then"
            f" ci/invoke remote-test {H200} --variant debug --plan blackwell --only memcheck",
        ),
        (
            replace(runs.PASS, plan=replace(runs.PASS.plan, name="blackwell")),
            f"ci/invoke profile {H200}",
        ),
        (
            replace(
                runs.PASS,
                remote=replace(runs.H200, device=DeviceKind.EMULATOR),
            ),
            "choose a GPU of remotes.yaml, then"
            " ci/invoke remote-test --kernel patch_embed --remote NAME",
        ),
        (EMULATE, "ci/invoke remote-test --kernel patch_embed"),
        (
            WRONG,
            "fix kernel/cuda_patch_embed_fp8.cu:123, then ci/invoke emulate --kernel patch_embed"
            " --arch sm_100a --case images=2,ctas=2 --pattern integer",
        ),
        (runs.CHECKED, "ci/invoke emulate --kernel patch_embed"),
        (
            runs.SPILLING,
            "fix kernel/sm100a_patch_embed_fp8.cu:415, then ci/invoke check --kernel patch_embed"
            " --variant production",
        ),
        (runs.NOTHING, "ci/invoke doctor"),
        (runs.INCOMPLETE, "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef"),
        (
            replace(runs.FAIL, state="launched"),
            "ci/invoke collect 20261121T120000Z-patch_embed-h200-beef",
        ),
    ],
)
def test_the_next_step_goes_on_from_where_the_run_ended(run: Run, step: str) -> None:
    assert next_step(run).text == step
    assert step.endswith(next_command(run))


def test_a_fault_that_is_missed_is_looked_for_in_more_schedules() -> None:
    plan = Plan("fault", (Stage("fault", StageKind.FAULT),))
    stage = replace(EMULATE.stages[0], name="fault", kind=StageKind.FAULT, checks=())
    fault = Fault("swapped-rows", "rows swapped", ("mismatch",))
    caught = replace(EMULATE, plan=plan, stages=(stage,), fault=fault)
    assert next_step(caught).text == "ci/invoke emulate --kernel patch_embed --arch sm_100a"
    missed = replace(stage, verdict=runs.failed("missed in 4 schedules"))
    assert next_step(replace(caught, stages=(missed,))).text == (
        "ci/invoke emulate --kernel patch_embed --arch sm_100a --only-fault swapped-rows"
        " --schedules 16"
    )
