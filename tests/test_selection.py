"""What is refused before anybody pays for a box."""

from __future__ import annotations

import pytest

from ci.errors import ConfigError
from ci.model import Case, Kernel, Pattern, Plan, Stage, StageKind
from ci.selection import narrow, require_sense

KERNEL = Kernel("gemm", {"sm_90a": "gemm.cu"}, {}, cases={"full": Case("full", 7)})
PROGRAM = Kernel("program", {"sm_90a": "program.cu"}, {}, level=0)
PREFLIGHT = Stage("preflight", StageKind.PREFLIGHT)
CHECKSUM = Stage("checksum", StageKind.CHECKSUM, patterns=(Pattern.INTEGER,))
MEMCHECK = Stage("memcheck", StageKind.SANITIZER, tool="memcheck")
TIMING = Stage("timing", StageKind.TIMING, needs=("checksum",))
PLAN = Plan("default", (PREFLIGHT, MEMCHECK, CHECKSUM, TIMING))


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ((), ["preflight", "memcheck", "checksum", "timing"]),
        (("timing", "checksum"), ["preflight", "checksum", "timing"]),
        (("memcheck",), ["preflight", "memcheck"]),
        (("preflight",), ["preflight"]),
    ],
)
def test_a_plan_keeps_its_order_and_its_preflight(only: tuple[str, ...], names: list[str]) -> None:
    plan = narrow(PLAN, only)
    require_sense(KERNEL, plan)
    assert [s.name for s in plan.stages] == names


@pytest.mark.parametrize("only", [("timing",), ("timing", "memcheck"), ("timing", "preflight")])
def test_a_time_without_a_checksum_is_refused(only: tuple[str, ...]) -> None:
    plan = narrow(PLAN, only)
    with pytest.raises(ConfigError) as error:
        require_sense(KERNEL, plan)
    assert str(error.value) == (
        "stage timing of plan default would not count: a time needs a checksum stage in the same"
        " run; add one to --only"
    )
    require_sense(PROGRAM, plan)


def test_a_checksum_without_patterns_is_refused() -> None:
    plan = Plan("default", (Stage("checksum", StageKind.CHECKSUM),))
    with pytest.raises(ConfigError) as error:
        require_sense(KERNEL, plan)
    assert str(error.value) == (
        "stage checksum of plan default has no patterns: it would check nothing;"
        " patterns: constant, integer, random"
    )
    require_sense(PROGRAM, plan)


@pytest.mark.parametrize(("case", "wrong"), [("", "full"), ("smoke", "smoke")])
def test_a_case_that_the_kernel_has_not_got_is_refused(case: str, wrong: str) -> None:
    kernel = Kernel("gemm", {}, {}, cases={"seven": Case("seven", 7)})
    plan = Plan("default", (Stage("memcheck", StageKind.SANITIZER, case, tool="memcheck"),))
    with pytest.raises(ConfigError) as error:
        require_sense(kernel, plan)
    assert error.value.message == (f"unknown case of gemm (stage memcheck) '{wrong}'; known: seven")
