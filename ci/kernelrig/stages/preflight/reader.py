"""Preflight: whether the host can run the plan, from its probe, before anything is shipped.

A check that does not pass is an error of the host or of the choice of host, never a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
    Tool,
    Verdict,
    broken,
    executor,
    join_checks,
    passed,
    skipped,
)
from kernelrig.stages.harness.result import COMPUTE_CAPABILITIES
from kernelrig.stages.sanitizer.command import TOOL as SANITIZER
from kernelrig.stages.sanitizer.command import sanitizer_tool

MIN_PYTHON = (3, 9)
MACHINE = "x86_64"
MIN_FREE_BYTES = 1 << 30
"""Besides the largest stage's own disk limit: blobs, logs, a core dump."""
DIGITS = 9
"""More than any number of a version of Python, glibc or a driver has."""


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
    checks = [Check("probe", broken(problem)) for problem in host.problems if on_gpu]
    checks += [
        Check("python", _python(host)),
        Check("glibc", _glibc(builds, host)),
        Check("disk", _disk(plan, host, remote)),
    ]
    if on_gpu:
        checks += [Check(name, verdict) for name, verdict in _gpu(builds, host, remote)]
        checks += [Check(name, verdict) for name, verdict in _tools(plan, host, remote, profiling)]
    else:
        reason = f"{kernel.name} is a CPU program (cuda: false)"
        if device is DeviceKind.EMULATOR:
            reason = "emulated: nothing is run on a GPU"
        checks += [Check(name, skipped(reason)) for name in ("GPU", "driver", "tools")]
    if host.machine and device is not DeviceKind.EMULATOR:  # old records do not say
        checks.append(Check("instruction set", _machine(host)))
    if require_device:
        checks.append(Check("required device", _required(require_device, device, machine)))
    return StageRecord(
        name=stage.name if stage else "preflight",
        kind=StageKind.PREFLIGHT,
        device=device,
        machine=machine,
        verdict=join_checks(checks),
        checks=tuple(checks),
        notes=tuple(f"{t}: {v.path} {v.version}" for t, v in sorted(host.tools.items())),
    )


def _required(wanted: str, device: DeviceKind, machine: str) -> Verdict:
    if device is DeviceKind.GPU and machine == wanted:
        return passed(f"the device is a {machine}")
    found = {DeviceKind.GPU: f"'{machine}'", DeviceKind.EMULATOR: "emulated"}.get(device, device)
    return broken(f"the device is {found}, --require-device asks for '{wanted}'")


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `580.159.04` gives (580, 159, 4).

    It is () without a number, and for one that no version has: it would be newer than any.
    """
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        if len(digits) > DIGITS:
            return ()
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _python(host: Host) -> Verdict:
    found = version_tuple(host.python)
    if not found:
        return broken(
            f"no python3 on {host.hostname}: the agent needs 3.9 or newer; install it there"
        )
    if found < MIN_PYTHON:
        return broken(
            f"python {host.python} on {host.hostname}, the agent needs 3.9 or newer;"
            " name a newer one as `python` in remotes.yaml"
        )
    return passed(f"python {host.python}")


def _machine(host: Host) -> Verdict:
    if host.machine == MACHINE:
        return passed(host.machine)
    return broken(
        f"{host.hostname} is {host.machine}, and the programs are built for {MACHINE};"
        " choose another remote"
    )


def _glibc(builds: Sequence[Build], host: Host) -> Verdict:
    needed = max((b.glibc for b in builds), key=version_tuple, default="")
    if not version_tuple(needed):
        return passed("the builds need no glibc symbol version")
    found = version_tuple(host.glibc)
    if not found:
        return broken(f"the glibc of {host.hostname} is not known, the build needs {needed}")
    if found < version_tuple(needed):
        return broken(
            f"glibc {host.glibc} on {host.hostname}, the build needs {needed};"
            " build on an older distribution, or rent a newer image"
        )
    return passed(f"glibc {host.glibc}, needed {needed}")


def _disk(plan: Plan, host: Host, remote: RecordedRemote) -> Verdict:
    needed = max((s.disk_mb << 20 for s in plan.on_host), default=0) + MIN_FREE_BYTES
    if host.free_bytes < needed:
        return broken(
            f"{host.free_bytes / 1e9:.1f} GB free in the workdir of {remote.name},"
            f" {needed / 1e9:.1f} GB needed;"
            f" run `invoke clean --remote {remote.name}`, or name another `workdir` in remotes.yaml"
        )
    return passed(f"{host.free_bytes / 1e9:.1f} GB free in the workdir")


def _gpu(
    builds: Sequence[Build], host: Host, remote: RecordedRemote
) -> Iterator[tuple[str, Verdict]]:
    """Judge the GPU that a program uses there: the first that CUDA_VISIBLE_DEVICES shows."""
    if not host.gpus:
        yield (
            "GPU",
            broken(f"no GPU on {host.hostname}: nvidia-smi lists none; choose another remote"),
        )
        return
    gpu = host.gpu
    if not gpu:
        yield (
            "GPU",
            broken(
                f"CUDA_VISIBLE_DEVICES of remote '{remote.name}' names none of its"
                f" {len(host.gpus)} GPUs: see its `env`"
            ),
        )
        return
    name = gpu.get("name", "")
    yield "GPU", passed(f"{name}, {gpu.get('uuid', 'no UUID')}")
    if not remote.gpu:
        yield "GPU name", skipped("remotes.yaml names no `gpu` for this remote")
    elif re.search(rf"(?<!\w){re.escape(remote.gpu)}(?!\w)", name):  # no GB200 passes for a B200
        yield "GPU name", passed(f"{name} is the {remote.gpu} that was asked for")
    else:
        yield (
            "GPU name",
            broken(
                f"the GPU is '{name}', remotes.yaml asks for '{remote.gpu}';"
                " rent that one, or change `gpu`"
            ),
        )
    found = gpu.get("compute_cap", "")
    for arch in sorted({b.arch for b in builds}):
        yield f"compute capability for {arch}", _capability(arch, found, name)
    yield "driver", _driver(builds, host)
    mig = gpu.get("mig.mode.current", "")
    yield (
        "MIG",
        broken(
            f"MIG is on for {name}: a slice is not the GPU; switch it off with `nvidia-smi -mig 0`"
        )
        if mig.lower() == "enabled"
        else passed(f"MIG {mig or 'not supported'}"),
    )
    busy = host.gpu_processes
    yield (
        "GPU not in use",
        broken(f"the GPU is in use by another process: {', '.join(busy[:3])}; wait, or end it")
        if busy
        else passed("no other process on the GPU"),
    )


def _capability(arch: str, found: str, name: str) -> Verdict:
    wanted = COMPUTE_CAPABILITIES.get(arch)
    if wanted is None:
        known = ", ".join(COMPUTE_CAPABILITIES)
        return broken(f"no compute capability is known for arch {arch}; known: {known}")
    if found == wanted:
        return passed(f"compute capability {found} runs {arch}")
    fits = next((a for a, c in COMPUTE_CAPABILITIES.items() if c == found), "")
    hint = f"build for {fits} (`arch` in remotes.yaml)" if fits else "choose another remote"
    return broken(
        f"{arch} code runs on compute capability {wanted} only,"
        f" {name} has {found or 'an unknown one'}; {hint}"
    )


def _driver(builds: Sequence[Build], host: Host) -> Verdict:
    needed = max((b.min_driver for b in builds), key=version_tuple, default="")
    found = version_tuple(host.driver)
    if not version_tuple(needed):
        return broken("the build does not say which driver it needs; build it again")
    if not found:
        return broken(f"the driver of {host.hostname} is not known, the build needs {needed}")
    if found < version_tuple(needed):
        return broken(
            f"driver {host.driver} on {host.hostname}, the build needs {needed}; rent an image with"
            " a newer driver, install cuda-compat, or build with an older toolkit through CUDA_HOME"
        )
    return passed(f"driver {host.driver}, needed {needed}")


def _ncu(tool: Tool, profiling: Profiling | None) -> Verdict:
    """Judge whether the host's ncu has the options that the profile needs, and is the one known."""
    asked = [f"--{name}" for run in (profiling.runs if profiling else ()) for name in run.options]
    if absent := [name for name in asked if tool.options and name not in tool.options]:
        return broken(f"ncu {tool.version} there has no option {absent[0]}, which a plan gives")
    if profiling is None or tool.version.split(".")[:3] == profiling.ncu.split(".")[:3]:
        return passed(f"ncu {tool.version}")
    return passed(
        f"ncu {tool.version}; the plans were checked against {profiling.ncu}",
        "a metric that it lacks is named by the reports; `invoke ncu-catalogue --remote R` makes"
        " its catalogue",
    )


def _tools(
    plan: Plan, host: Host, remote: RecordedRemote, profiling: Profiling | None
) -> Iterator[tuple[str, Verdict]]:
    kinds = {s.kind for s in plan.stages}
    if StageKind.SANITIZER in kinds:
        tool = sanitizer_tool(host, remote)
        if remote.tools == "host" and SANITIZER not in host.tools:
            yield (
                SANITIZER,
                broken(f"no {SANITIZER} on {host.hostname}; set `tools: ship` for this remote"),
            )
        else:
            yield SANITIZER, passed(f"{SANITIZER} {tool.version} ({remote.tools})")
    if StageKind.PROFILE not in kinds:
        return
    ncu = host.tools.get("ncu")
    if ncu is None:
        yield (
            "ncu",
            broken(f"no ncu on {host.hostname}; install Nsight Compute there"),
        )
    else:
        yield "ncu", _ncu(ncu, profiling)
    if host.gpu_counters_admin_only is None:
        yield "counters", skipped("whether the GPU counters are allowed is not known; ncu will say")
    elif host.gpu_counters_admin_only and not host.admin:
        yield (
            "counters",
            broken(
                f"the GPU counters of {host.hostname} are for administrators only"
                " (RmProfilingAdminOnly: 1); log in as root, rent a host that allows them, or let"
                " its administrator set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module"
            ),
        )
    else:
        yield "counters", passed("GPU counters are allowed for this user")
