"""Preflight: whether the host can run the plan, from its probe, before anything is shipped.

A check that does not pass is an error of the host or of the choice of host, never a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelrig.model import (
    Build,
    Check,
    DeviceKind,
    Host,
    Kernel,
    Plan,
    Profiling,
    RecordedRemote,
    StageKind,
    StageRecord,
    Verdict,
    broken,
    executor,
    join_checks,
    on_gpu,
    passed,
    skipped,
    stage_gpus,
)
from kernelrig.stages.preflight.gpu import gpu_checks
from kernelrig.stages.preflight.gpu_condition import condition_checks
from kernelrig.stages.preflight.gpu_speed import speed_checks
from kernelrig.stages.preflight.host_system import judge_clock, judge_machine, system_checks
from kernelrig.stages.preflight.needed_tools import tool_checks


def judge_preflight(
    kernel: Kernel,
    builds: Sequence[Build],
    host: Host,
    remote: RecordedRemote,
    plan: Plan,
    *,
    require_device: str = "",
    profiling: Profiling | None = None,
) -> StageRecord:
    """Compare the host with what the builds and the plan need: a check for each need.

    `require_device` is the device name that the GPU must have, whatever remotes.yaml says.
    `profiling` is what a profile stage measures.
    """
    stage = next((s for s in plan.stages if s.kind is StageKind.PREFLIGHT), None)
    device, machine = executor(kernel, remote.device, host)
    on_gpu = device is DeviceKind.GPU
    if on_gpu:
        checks = list(host_checks(builds, host, remote, plan, profiling=profiling))
    else:
        checks = list(system_checks(builds, host, remote, plan))
        reason = f"{kernel.name} is a CPU program (cuda: false)"
        if device is DeviceKind.EMULATOR:
            reason = "emulated: nothing is run on a GPU"
        checks += [Check(name, skipped(reason)) for name in ("GPU", "driver", "tools")]
    if device is DeviceKind.CPU:
        checks += judge_machine(host)
    if require_device:
        checks.append(Check("required device", _required(require_device, device, machine)))
    return StageRecord(
        name=stage.name if stage else "preflight",
        kind=StageKind.PREFLIGHT,
        device=device,
        machine=machine,
        verdict=join_checks(checks),
        checks=tuple(checks),
        notes=(
            *(f"{c.name}: {c.verdict.summary}: {c.warning}" for c in checks if c.warning),
            *(f"{t}: {v.path} {v.version}" for t, v in sorted(host.tools.items())),
        ),
    )


def host_checks(
    builds: Sequence[Build],
    host: Host,
    remote: RecordedRemote,
    plan: Plan,
    *,
    profiling: Profiling | None = None,
    wanted_driver: str = "",
) -> Iterator[Check]:
    """Judge everything that the probe saw of a host with a GPU.

    `wanted_driver` is the oldest that a build made now would run with; the builds say their own.
    """
    yield from (Check("probe", broken(problem)) for problem in host.problems)
    yield from system_checks(builds, host, remote, plan)
    yield judge_clock(host)
    yield from gpu_checks(builds, host, remote, plan, wanted_driver)
    yield from condition_checks(host)
    for uuid in stage_gpus(host, remote):
        if uuid != host.gpu.get("uuid"):
            others = condition_checks(on_gpu(host, uuid))
            yield from (replace(check, name=f"{check.name} of {uuid}") for check in others)
    yield from speed_checks(host)
    yield from tool_checks(plan, host, remote, profiling)
    yield from judge_machine(host)


def _required(wanted: str, device: DeviceKind, machine: str) -> Verdict:
    if device is DeviceKind.GPU and machine == wanted:
        return passed(f"the device is a {machine}")
    found = {DeviceKind.GPU: f"'{machine}'", DeviceKind.EMULATOR: "emulated"}.get(device, device)
    return broken(f"the device is {found}, --require-device asks for '{wanted}'")
