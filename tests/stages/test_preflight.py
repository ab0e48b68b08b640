from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kernelrig.model import (
    Check,
    Outcome,
    Plan,
    ProfilePlan,
    Profiling,
    RecordedRemote,
    Stage,
    StageKind,
    StageRecord,
    Tool,
    Verdict,
    broken,
    passed,
    visible_gpu,
)
from kernelrig.stages import judge_preflight, merge_plans
from kernelrig.stages.preflight.host_system import version_tuple

from tests.stages import bench

RUN = Plan(
    "default",
    (
        Stage("preflight", StageKind.PREFLIGHT),
        Stage("checksum", StageKind.CHECKSUM, case="full"),
        Stage("memcheck", StageKind.SANITIZER, case="sanitizer", tool="memcheck"),
    ),
)
PROFILE = Plan("profile", (Stage("profile", StageKind.PROFILE, case="full"),))
GPU = bench.HOST.gpus[0]


def check(
    *,
    remote: RecordedRemote = bench.H200,
    plan: Plan = RUN,
    gpu: dict[str, str] | None = None,
    **host: Any,  # noqa: ANN401 - any field of a host
) -> StageRecord:
    changes = host | ({"gpus": (GPU | gpu,)} if gpu else {})
    builds = (bench.build(), bench.SELFTEST)
    return judge_preflight(bench.KERNEL, builds, replace(bench.HOST, **changes), remote, plan)


def named(record: StageRecord, name: str) -> Check:
    (found,) = (c for c in record.checks if c.name == name)
    return found


def test_a_good_host_passes_every_check() -> None:
    record = check()
    assert record.verdict.outcome is Outcome.PASS
    assert {c.verdict.outcome for c in record.checks} == {Outcome.PASS}
    assert record.machine == "NVIDIA H200"
    assert [c.name for c in record.checks] == [
        "python",
        "glibc",
        "disk",
        "clock",
        "GPU",
        "GPU name",
        "compute capability for sm_90a",
        "driver",
        "MIG",
        "lease",
        "GPU users",
        "ECC",
        "Xid errors",
        "throttle reasons",
        "clocks",
        "power limit",
        "temperature",
        "compute-sanitizer",
        "instruction set",
    ]


def test_what_runs_on_a_gpu_that_is_not_leased_is_nobodys_business() -> None:
    other = GPU | {"uuid": "GPU-11111111-2222"}
    busy: dict[str, Any] = {
        "gpus": (GPU, other),
        "gpu_processes": (f"{other['uuid']}, 17, train, 900",),
    }
    both = (GPU["uuid"], other["uuid"])
    alone = named(check(**busy, leased=both[:1]), "GPU users")
    assert alone.verdict.outcome is Outcome.PASS
    shared = named(check(**busy, leased=both), "GPU users")
    assert shared.verdict == broken(
        "another GPU of this run is in use by another process: train (process 17, 900 MiB);"
        " wait, or end it"
    )


def test_who_uses_a_gpu_that_is_to_be_idle_keeps_nothing_from_being_run_but_what_is_measured() -> (
    None
):
    other = GPU | {"uuid": "GPU-11111111-2222"}
    busy: dict[str, Any] = {
        "gpus": (GPU, other),
        "gpu_processes": tuple(f"{other['uuid']}, {pid}, train, 900" for pid in range(17, 21)),
        "leased": (GPU["uuid"], other["uuid"]),
        "kept_idle": (other["uuid"],),
    }
    found = named(check(**busy), "GPU users")
    assert found.verdict == passed("no other process on the GPU")
    assert found.warning == "another GPU of the host is in use: what is to be measured is not run"
    nothing_else = named(check(**busy, plan=PROFILE), "GPU users")
    assert nothing_else.verdict == broken(
        "another GPU of the host, which shares its power, is in use by another process:"
        " train (process 17, 900 MiB), train (process 18, 900 MiB), train (process 19, 900 MiB)"
        " and 1 more; wait, or end it, or set `shared_power: true` for this remote: times are then"
        " measured all the same, and say so"
    )
    own = named(check(**busy | {"kept_idle": ()}, plan=PROFILE), "GPU users")
    assert own.verdict.summary.startswith("another GPU of this run is in use")


@pytest.mark.parametrize("name", ["[No data]", "[Not Found]", "-"])
def test_a_process_that_the_driver_does_not_name_is_a_sentence(name: str) -> None:
    found = named(check(gpu_processes=(f"{GPU['uuid']}, 17, {name}, [N/A]",)), "GPU users")
    assert found.verdict == broken(
        "the GPU is in use by another process: process 17, which the driver does not name"
        " (memory not known); wait, or end it"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"python": ""},
            "no python3 on host-17: the agent needs 3.9 or newer; install it there",
        ),
        (
            {"python": "3.8.10"},
            "python 3.8.10 on host-17, the agent needs 3.9 or newer;"
            " name a newer one as `python` in remotes.yaml",
        ),
        (
            {"glibc": "2.31"},
            "glibc 2.31 on host-17, the build needs 2.34;"
            " build on an older distribution, or rent a newer image",
        ),
        ({"glibc": ""}, "the glibc of host-17 is not known, the build needs 2.34"),
        (
            {"free_bytes": 1 << 20},
            "0.0 GB free in the workdir of h200, 2.1 GB needed;"
            " run `invoke clean --remote h200`, or name another `workdir` in remotes.yaml",
        ),
        ({"gpus": ()}, "no GPU on host-17: nvidia-smi lists none; choose another remote"),
        (
            {"gpu": {"name": "NVIDIA H100 80GB HBM3"}},
            "the GPU is 'NVIDIA H100 80GB HBM3', remotes.yaml asks for 'H200';"
            " rent that one, or change `gpu`",
        ),
        (
            {"gpu": {"compute_cap": "10.0"}},
            "sm_90a code runs on compute capability 9.0 only, NVIDIA H200 has 10.0;"
            " build for sm_100a (`arch` in remotes.yaml)",
        ),
        (
            {"gpu": {"compute_cap": "8.9"}},
            "sm_90a code runs on compute capability 9.0 only, NVIDIA H200 has 8.9;"
            " choose another remote",
        ),
        (
            {"gpu": {"compute_cap": ""}},
            "sm_90a code runs on compute capability 9.0 only, NVIDIA H200 has an unknown one;"
            " choose another remote",
        ),
        (
            {"driver": "570.133.20"},
            "driver 570.133.20 on host-17, the build needs 580.65.06; rent an image with a newer"
            " driver, install cuda-compat, or build with an older toolkit through CUDA_HOME",
        ),
        ({"driver": ""}, "the driver of host-17 is not known, the build needs 580.65.06"),
        (
            {"gpu": {"mig.mode.current": "Enabled"}},
            "MIG is on for NVIDIA H200: a slice is not the GPU;"
            " switch it off with `nvidia-smi -mig 0`",
        ),
        (
            {"gpu_processes": ("4711, python, 1024",)},
            "the GPU is in use by another process: python (process 4711, 1024 MiB);"
            " wait, or end it",
        ),
        ({"tools": {}}, "no compute-sanitizer on host-17; set `tools: ship` for this remote"),
        ({"problems": ("nvidia-smi hangs",)}, "nvidia-smi hangs"),
        (
            {"machine": "aarch64"},
            "host-17 is aarch64, and the programs are built for x86_64; choose another remote",
        ),
        (
            {"gpu": {"clocks_event_reasons.active": "0x0000000000000048"}},
            "the GPU is slowed down: hardware slowdown, thermal slowdown by hardware;"
            " wait until it has cooled, or choose another host",
        ),
        (
            {"gpu": {"ecc.errors.uncorrected.volatile.total": "3"}},
            "3 uncorrected ECC errors since its driver was loaded; reset the GPU, or choose"
            " another host",
        ),
        (
            {"gpu": {"remapped_rows.pending": "Yes"}},
            "rows of its memory wait to be remapped; reset the GPU (`nvidia-smi --gpu-reset`),"
            " or choose another host",
        ),
        (
            {"gpu": {"remapped_rows.failure": "1"}},
            "rows of its memory could not be remapped: it is worn out; choose another host",
        ),
        (
            {"xid_errors": ({"bus": "0000:00:06", "xid": "79", "text": "fallen off"},)},
            "Xid 79 since boot: GPU has fallen off the bus; reboot the host, or choose another",
        ),
    ],
)
def test_each_thing_that_is_wrong_with_a_host_is_one_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    record = check(**changes)
    assert record.verdict.outcome is Outcome.ERROR
    assert [c.verdict.summary for c in record.checks if c.verdict.outcome is Outcome.ERROR] == [
        sentence
    ]


@pytest.mark.parametrize(
    ("changes", "name", "summary"),
    [
        ({"clock_ahead_s": -90.0}, "clock", "the clock of host-17 is 90 s behind ours"),
        (
            {"gpu": {"clocks_event_reasons.active": "0x0000000000000003"}},
            "throttle reasons",
            "the clocks are held: application clocks",
        ),
        (
            {"gpu": {"power.limit": "500.00", "power.default_limit": "700.00"}},
            "power limit",
            "500 W, 700 W by default: it is slower under load",
        ),
        ({"gpu": {"temperature.gpu": "84"}}, "temperature", "84 C"),
        (
            {"gpu": {"ecc.mode.current": "Disabled", "ecc.errors.uncorrected.volatile.total": ""}},
            "ECC",
            "ECC is off: an error of its memory is a wrong result that nothing reports",
        ),
        (
            {"gpu": {"memory.used": "40000", "utilization.gpu": "0"}},
            "GPU users",
            "no process is listed, and 40000 MiB and 0% of the GPU are in use",
        ),
        (
            {"xid_errors": ({"bus": "0000:00:06", "xid": "94", "text": "contained"},)},
            "Xid errors",
            "Xid 94 since boot: contained",
        ),
    ],
)
def test_what_a_person_should_know_of_a_host_passes_with_a_warning(
    changes: dict[str, Any], name: str, summary: str
) -> None:
    record = check(**changes)
    assert record.verdict.outcome is Outcome.PASS
    (warned,) = (c for c in record.checks if c.warning)
    assert (warned.name, warned.verdict.summary) == (name, summary)
    assert record.notes[0] == f"{name}: {summary}: {warned.warning}"


def test_what_concerns_another_gpu_of_the_host_is_nothing_against_this_one() -> None:
    others = (GPU | {"uuid": "GPU-99", "pci.bus_id": "00000000:18:00.0"},)
    record = check(
        gpus=(GPU, *others),
        gpu_processes=("GPU-99, 4711, python, 1024",),
        xid_errors=({"bus": "0000:18:00", "xid": "79", "text": "fallen off"},),
    )
    assert record.verdict.outcome is Outcome.PASS
    assert not [c for c in record.checks if c.warning]


@pytest.mark.parametrize("number", ["13", "31", "43", "45"])
def test_the_fault_of_a_program_is_nothing_against_its_gpu(number: str) -> None:
    record = check(xid_errors=({"bus": "?", "xid": number, "text": "pid=1"},))
    assert record.verdict.outcome is Outcome.PASS
    found = named(record, "Xid errors")
    assert (found.verdict.summary, found.warning) == (
        f"Xid {number} since boot, which are faults of programs",
        "",
    )


@pytest.mark.parametrize("said", ["", "[N/A]", "9" * 400, "-1", "nan", "0x1; rm"])
def test_a_figure_that_is_none_is_unknown_and_nothing_passes_for_it(said: str) -> None:
    fields = ("clocks.max.sm", "power.limit", "temperature.gpu", "clocks_event_reasons.active")
    record = check(gpu=dict.fromkeys((*fields, "ecc.errors.uncorrected.volatile.total"), said))
    unknown = [c.name for c in record.checks if c.verdict.outcome is Outcome.SKIP]
    assert unknown == ["ECC", "throttle reasons", "clocks", "power limit", "temperature"]


@pytest.mark.parametrize(
    ("arch", "capability", "outcome"),
    [
        ("sm_90a", "9.0", Outcome.PASS),
        ("sm_100a", "10.0", Outcome.PASS),
        ("sm_100a", "10.3", Outcome.ERROR),
        ("sm_100a", "9.0", Outcome.ERROR),
        ("sm_77a", "7.7", Outcome.ERROR),
    ],
)
def test_a_code_runs_on_its_own_compute_capability_alone(
    arch: str, capability: str, outcome: Outcome
) -> None:
    host = replace(bench.HOST, gpus=(GPU | {"compute_cap": capability},))
    record = judge_preflight(bench.KERNEL, [bench.build(arch=arch)], host, bench.H200, RUN)
    assert record.verdict.outcome is outcome


@pytest.mark.parametrize(
    ("asked", "found", "outcome"),
    [
        ("H200", "NVIDIA H200", Outcome.PASS),
        ("NVIDIA H200", "NVIDIA H200", Outcome.PASS),
        ("H100", "NVIDIA H100 80GB HBM3", Outcome.PASS),
        ("B200", "NVIDIA GB200", Outcome.ERROR),
        ("H20", "NVIDIA H200", Outcome.ERROR),
        ("h200", "NVIDIA H200", Outcome.ERROR),
        ("H200", "", Outcome.ERROR),
    ],
)
def test_no_other_gpu_passes_for_the_one_asked_for(
    asked: str, found: str, outcome: Outcome
) -> None:
    record = check(remote=replace(bench.H200, gpu=asked), gpu={"name": found})
    assert named(record, "GPU name").verdict.outcome is outcome


def test_a_remote_that_names_no_gpu_takes_any() -> None:
    record = check(remote=replace(bench.H200, gpu=""))
    assert record.verdict.outcome is Outcome.PASS
    assert named(record, "GPU name").verdict.outcome is Outcome.SKIP


def test_the_shipped_sanitizer_needs_none_on_the_host() -> None:
    record = check(remote=replace(bench.H200, tools="ship"), tools={})
    assert record.verdict.outcome is Outcome.PASS
    assert named(record, "compute-sanitizer").verdict.summary == (
        "compute-sanitizer 2026.4.0.0 (ship)"
    )


def test_a_plan_without_sanitizers_needs_no_sanitizer() -> None:
    plan = Plan("only", RUN.stages[:2])
    assert check(plan=plan, tools={}).verdict.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("admin_only", "admin", "outcome"),
    [
        (False, False, Outcome.PASS),
        (True, False, Outcome.ERROR),
        (True, True, Outcome.PASS),
        (None, False, Outcome.PASS),
    ],
)
def test_a_profile_needs_counters_that_this_user_may_read(
    admin_only: bool | None, admin: bool, outcome: Outcome
) -> None:
    record = check(plan=PROFILE, gpu_counters_admin_only=admin_only, admin=admin)
    assert record.verdict.outcome is outcome


def test_a_profile_needs_ncu_and_no_other_plan_does() -> None:
    record = check(plan=PROFILE, tools={})
    assert record.verdict.summary == "no ncu on host-17; install Nsight Compute there"
    assert check(gpu_counters_admin_only=True).verdict.outcome is Outcome.PASS


def test_a_cpu_program_needs_no_gpu_and_its_checks_are_skipped() -> None:
    host = replace(bench.HOST, gpus=(), driver="", tools={}, problems=("no nvidia-smi",))
    build = bench.build("cpu_program", "cpu_program", min_driver="")
    record = judge_preflight(bench.CPU_KERNEL, [build], host, bench.H200, RUN)
    assert record.verdict.outcome is Outcome.PASS
    skips = [c.verdict.summary for c in record.checks if c.verdict.outcome is Outcome.SKIP]
    assert skips == ["cpu_program is a CPU program (cuda: false)"] * 3


def test_a_build_that_does_not_say_its_driver_is_an_error() -> None:
    record = judge_preflight(
        bench.KERNEL, [bench.build(min_driver="")], bench.HOST, bench.H200, RUN
    )
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("580.159.04", (580, 159, 4)),
        ("2.34", (2, 34)),
        ("3.13.0rc1", (3, 13, 0)),
        ("GLIBC", ()),
        ("", ()),
    ],
)
def test_versions_compare_as_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version_tuple(text) == numbers


TWO = (GPU | {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-11aa"}, GPU | {"uuid": "GPU-22bb"})


@pytest.mark.parametrize(
    ("visible", "machine"),
    [
        (None, "NVIDIA H100 80GB HBM3"),
        ("0", "NVIDIA H100 80GB HBM3"),
        ("1", "NVIDIA H200"),
        ("1,0", "NVIDIA H200"),
        ("GPU-22bb", "NVIDIA H200"),
        ("GPU-22", "NVIDIA H200"),
    ],
)
def test_of_several_gpus_the_one_that_a_program_takes_is_judged(
    visible: str | None, machine: str
) -> None:
    record = check(gpus=TWO, gpu_index=visible_gpu(TWO, visible))
    assert record.machine == machine
    good = machine == "NVIDIA H200"
    assert record.verdict.outcome is (Outcome.PASS if good else Outcome.ERROR)


@pytest.mark.parametrize("visible", ["2", "", "-1", "GPU-", "GPU-33", "NoDevFiles"])
def test_a_choice_that_names_no_gpu_of_the_host_is_an_error(visible: str) -> None:
    record = check(gpus=TWO, gpu_index=visible_gpu(TWO, visible))
    assert named(record, "GPU").verdict.summary == (
        "CUDA_VISIBLE_DEVICES of remote 'h200' names none of its 2 GPUs: see its `env`"
    )
    assert record.machine == ""


def test_an_ncu_of_another_version_is_named_and_one_without_an_option_is_refused() -> None:
    plans = (ProfilePlan("own", "?", "?", ("x.sum",), options={"pm-sampling-interval": 1}),)
    profiling = Profiling("gh100", "2025.3.1", plans, merge_plans(plans, "gh100"))

    def ncu(version: str, *options: str) -> Verdict:
        tools = {**bench.HOST.tools, "ncu": Tool("/usr/bin/ncu", version, options)}
        host = replace(bench.HOST, tools=tools)
        builds = (bench.build(), bench.SELFTEST)
        record = judge_preflight(
            bench.KERNEL, builds, host, bench.H200, PROFILE, profiling=profiling
        )
        (check,) = (c for c in record.checks if c.name == "ncu")
        return check.verdict

    assert ncu("2025.3.1.0", "--pm-sampling-interval").summary == "ncu 2025.3.1.0"
    assert ncu("2024.1.0.0", "--pm-sampling-interval").summary == (
        "ncu 2024.1.0.0; the plans were checked against 2025.3.1"
    )
    refused = ncu("2022.1.0.0", "--metrics")
    assert refused.outcome is Outcome.ERROR
    assert refused.summary == (
        "ncu 2022.1.0.0 there has no option --pm-sampling-interval, which a plan gives"
    )
