"""What is refused before anybody pays for a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.config.selection import (
    at_arch_of,
    checked_targets,
    choose_builds,
    choose_remote,
    choose_targets,
    narrow,
    require_sense,
    stage_variants,
    stages_named,
)
from kernelrig.errors import ConfigError
from kernelrig.model import (
    Budget,
    Build,
    Case,
    DeviceKind,
    Kernel,
    Pattern,
    Plan,
    ProgramCase,
    Remote,
    Stage,
    StageKind,
    Variant,
)

from tests.stages import bench

KERNEL = Kernel("gemm", {"sm_90a": "gemm.cu"}, {}, cases={"full": Case("full", 7)})
PROGRAM = Kernel("program", {"sm_90a": "program.cu"}, {}, level=0)
PREFLIGHT = Stage("preflight", StageKind.PREFLIGHT)
CHECKSUM = Stage("checksum", StageKind.CHECKSUM, patterns=(Pattern.INTEGER,))
MEMCHECK = Stage("memcheck", StageKind.SANITIZER, tool="memcheck")
TIMING = Stage("timing", StageKind.TIMING, needs=("checksum",))
PLAN = Plan("default", (PREFLIGHT, MEMCHECK, CHECKSUM, TIMING))


def test_a_run_that_names_no_remote_takes_the_default_where_there_is_one() -> None:
    emulator, host = Remote("emulator", "sm_100a"), Remote("host", "sm_90a")
    remotes = {"emulator": emulator, "host": host}
    assert choose_remote(remotes, "", "emulator") == emulator
    assert choose_remote(remotes, "host", "emulator") == host
    for known, default in ((remotes, ""), ({"host": host}, "emulator")):
        with pytest.raises(ConfigError) as error:
            choose_remote(known, "", default)
        said = f"no remote was named; remotes: {', '.join(sorted(known))}"
        assert error.value.message.startswith(said)


def test_a_kernel_without_production_is_built_in_its_only_variant_or_says_what_to_type() -> None:
    one = replace(KERNEL, variants={"gemm": Variant("gemm", "gemm")})
    assert choose_targets(one, "", "") == (("sm_90a", "gemm"),)
    two = replace(
        KERNEL, variants={"product": Variant("product", "gemm"), "bias": Variant("bias", "bias")}
    )
    with pytest.raises(ConfigError) as error:
        choose_targets(two, "sm_90a", "")
    assert "gemm has no variant production, which is the default" in error.value.message
    assert error.value.hint == "name one, as --variant product"


def test_an_emulator_is_the_gpu_that_the_kernel_is_for_and_a_host_is_its_own() -> None:
    emulator = Remote("emulator", "sm_100a", device=DeviceKind.EMULATOR)
    assert at_arch_of(emulator, KERNEL) == replace(emulator, arch="sm_90a")
    hopper = replace(emulator, arch="sm_90a")
    assert at_arch_of(hopper, KERNEL) is hopper
    said = "gemm has no source for sm_100a, which remote 'b200' is; it has sm_90a; name another"
    with pytest.raises(ConfigError, match=said):
        at_arch_of(Remote("b200", "sm_100a"), KERNEL)


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


@pytest.mark.parametrize("name", ["checksum", "exit status", "exit-status", "exit_status"])
def test_a_stage_is_named_as_the_plan_or_as_reports_of_its_kernel_name_it(name: str) -> None:
    stages = (Stage("smoke", StageKind.CHECKSUM), Stage("checksum", StageKind.CHECKSUM))
    plan = Plan("default", (*stages, Stage("memcheck", StageKind.SANITIZER)))
    assert stages_named(plan, PROGRAM, ("memcheck", name)) == ("checksum", "memcheck")
    assert stages_named(plan, PROGRAM, ("smoke (exit status)",)) == ("smoke",)
    if name != "checksum":
        with pytest.raises(ConfigError) as error:  # a harness program has no such stage
            stages_named(plan, KERNEL, (name,))
        assert str(error.value) == (
            f"unknown stage '{name}' of plan default; known: checksum, memcheck, smoke"
        )
    with pytest.raises(ConfigError, match=r"known: exit status, memcheck, smoke \(exit status\)"):
        stages_named(plan, PROGRAM, ("time",))


def test_the_check_is_left_out_where_it_is_not_named() -> None:
    plan = replace(PLAN, stages=(Stage("check", StageKind.CHECK), *PLAN.stages))
    assert [s.name for s in narrow(plan, ("memcheck",)).stages] == ["preflight", "memcheck"]
    assert [s.name for s in narrow(plan, ("check",)).stages] == ["check", "preflight"]


def test_a_check_means_production_and_what_has_a_budget() -> None:
    ways = {
        "production": Variant("production", "p"),
        "timing": Variant("timing", "t"),
        "guard": Variant("guard", "g", archs=("sm_100a",)),
        "debug": Variant("debug", "d"),
    }
    limits = {"timing": Budget(), "guard": Budget()}
    kernel = Kernel(
        "gemm",
        {"sm_100a": "a.cu", "sm_90a": "b.cu"},
        ways,
        budgets={"sm_100a": limits, "sm_90a": limits},
    )
    assert checked_targets(kernel, "", "") == (
        ("sm_100a", "production"),
        ("sm_100a", "timing"),
        ("sm_100a", "guard"),
        ("sm_90a", "production"),
        ("sm_90a", "timing"),
    )
    assert checked_targets(kernel, "sm_90a", "debug") == (("sm_90a", "debug"),)


@pytest.mark.parametrize("only", [("timing",), ("timing", "memcheck"), ("timing", "preflight")])
def test_a_time_without_a_checksum_is_refused(only: tuple[str, ...]) -> None:
    plan = narrow(PLAN, only)
    with pytest.raises(ConfigError) as error:
        require_sense(KERNEL, plan)
    assert str(error.value) == (
        "stage timing of plan default needs a checksum stage in the same run: "
        "the time of a wrong result means nothing; add one to --only"
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
    assert error.value.message == (f"unknown case '{wrong}' of gemm (stage memcheck); known: seven")


GUARDED = Kernel(
    "gemm",
    {"sm_100a": "b.cu", "sm_90a": "h.cu"},
    {
        "production": Variant("production", "gemm"),
        "guard": Variant("guard", "gemm_guard", archs=("sm_100a",)),
    },
    cases={"full": Case("full", 7)},
)
GUARD = Stage("guard", StageKind.CHECKSUM, patterns=(Pattern.INTEGER,), variant="guard")


@pytest.mark.parametrize(
    ("arch", "variant", "everything", "targets"),
    [
        ("", "", False, [("sm_100a", "production"), ("sm_90a", "production")]),
        ("", "guard", False, [("sm_100a", "guard")]),
        ("sm_90a", "", True, [("sm_90a", "production")]),
        ("", "", True, [("sm_100a", "production"), ("sm_100a", "guard"), ("sm_90a", "production")]),
    ],
)
def test_a_variant_of_one_arch_is_a_target_of_that_arch_alone(
    arch: str, variant: str, everything: bool, targets: list[tuple[str, str]]
) -> None:
    assert choose_targets(GUARDED, arch, variant, everything=everything) == tuple(targets)


def test_a_variant_that_an_arch_has_not_got_is_refused_with_the_archs_that_have_it() -> None:
    with pytest.raises(ConfigError) as error:
        choose_targets(GUARDED, "sm_90a", "guard")
    assert str(error.value) == "gemm has no variant guard for sm_90a; it is for sm_100a"


def test_a_stages_variant_is_built_where_the_arch_has_it() -> None:
    plan = Plan("blackwell", (PREFLIGHT, CHECKSUM, GUARD, GUARD))
    require_sense(GUARDED, plan)
    assert stage_variants(GUARDED, plan, "sm_100a") == ("guard",)
    assert stage_variants(GUARDED, plan, "sm_90a") == ()


@pytest.mark.parametrize("kernel", [KERNEL, PROGRAM])
def test_a_stage_of_a_variant_that_the_kernel_does_not_know_is_refused(kernel: Kernel) -> None:
    known = replace(kernel, variants={"production": Variant("production", "gemm")})
    with pytest.raises(ConfigError) as error:
        require_sense(known, Plan("blackwell", (CHECKSUM, GUARD)))
    assert error.value.message == (
        f"unknown variant 'guard' of {kernel.name} (stage guard of plan blackwell);"
        " known: production"
    )


@pytest.mark.parametrize(
    ("stages", "stage_of"),
    [
        ((GUARD, TIMING), "of the run's own variant"),
        ((CHECKSUM, replace(TIMING, variant="guard")), "of variant guard"),
    ],
)
def test_a_time_needs_a_checksum_of_its_own_variant(
    stages: tuple[Stage, ...], stage_of: str
) -> None:
    with pytest.raises(ConfigError) as error:
        require_sense(GUARDED, Plan("p", stages))
    assert error.value.message == (
        f"stage timing of plan p needs a checksum stage {stage_of} in the same run: "
        "the time of a wrong result means nothing"
    )
    require_sense(GUARDED, Plan("p", (CHECKSUM, GUARD, *stages)))


def given(name: str) -> Build:
    kernel, arch, variant = name.split("-")
    return bench.build(kernel, arch=arch, variant=variant, folder=Path(name))


def test_given_builds_go_to_the_run_and_to_the_stages_that_name_their_variant() -> None:
    names = [
        "gemm-sm_100a-guard",
        "gemm-sm_90a-guard",
        "gemm-sm_100a-production",
        "sanitizer_selftest-sm_100a-production",
    ]
    builds = [given(name) for name in names]
    assert choose_builds(builds, "gemm", "sm_100a", ["guard"]) == {
        ("gemm", "guard"): builds[0],
        ("gemm", ""): builds[2],
        ("sanitizer_selftest", ""): builds[3],
    }
    assert choose_builds(builds[:1], "gemm", "sm_100a", []) == {("gemm", ""): builds[0]}


@pytest.mark.parametrize(
    ("names", "named", "told"),
    [
        (
            ["gemm-sm_100a-guard", "gemm-sm_100a-production"],
            [],
            "gives 2 builds of gemm for sm_100a, the remote's arch:"
            " gemm-sm_100a-guard, gemm-sm_100a-production",
        ),
        (
            ["gemm-sm_100a-guard", "gemm-sm_100a-guard"],
            ["guard"],
            "gives 2 builds of gemm for sm_100a, the remote's arch:"
            " gemm-sm_100a-guard, gemm-sm_100a-guard",
        ),
        (
            ["gemm-sm_90a-guard"],
            ["guard"],
            "gives no build of gemm for sm_100a, the remote's arch: gemm-sm_90a-guard",
        ),
        (["other-sm_100a-guard"], ["guard"], "gives a build of other, the run is of gemm"),
    ],
)
def test_a_given_build_that_nobody_would_run_is_refused(
    names: list[str], named: list[str], told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        choose_builds([given(name) for name in names], "gemm", "sm_100a", named)
    assert error.value.message == f"--build {told}"


def test_a_case_that_a_plain_program_lacks_is_named_unless_every_plan_has_it() -> None:
    kernel = Kernel(
        "p",
        {"sm_90a": "p.cu"},
        {"production": Variant("production", "p")},
        level=0,
        program_cases={"small": ProgramCase("small")},
    )
    for case in ("", "smoke", "full", "small"):
        require_sense(kernel, Plan("own", (Stage("s", StageKind.CHECKSUM, case),)))
    with pytest.raises(ConfigError) as caught:
        require_sense(kernel, Plan("own", (Stage("s", StageKind.CHECKSUM, "smal"),)))
    assert str(caught.value) == (
        "unknown case 'smal' of p (stage s); known: small; did you mean 'small'?"
    )


def test_several_remotes_where_one_is_meant_are_said_to_be_several() -> None:
    remotes = {name: Remote(name, "sm_90a", host="h") for name in "ab"}
    with pytest.raises(ConfigError) as caught:
        choose_remote(remotes, "a,b")
    assert str(caught.value) == (
        "'a,b' are several remotes, and this is for one; name one; `invoke session FILE --remote"
        " a,b` spreads entries over several"
    )
    with pytest.raises(ConfigError, match=r"^unknown remote 'a,c'; remotes: a, b"):
        choose_remote(remotes, "a,c")
