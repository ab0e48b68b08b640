"""Whether the tools that a plan needs are on the host, with their options, and may count."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.model import (
    Check,
    Host,
    Plan,
    Profiling,
    RecordedRemote,
    StageKind,
    Tool,
    Verdict,
    broken,
    passed,
    skipped,
)
from kernelrig.stages.sanitizer.command import TOOL as SANITIZER
from kernelrig.stages.sanitizer.command import WANTED_OPTIONS, sanitizer_tool


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


def tool_checks(
    plan: Plan, host: Host, remote: RecordedRemote, profiling: Profiling | None
) -> Iterator[Check]:
    """Judge the sanitizer and ncu, where the plan has stages that use them."""
    kinds = {s.kind for s in plan.stages}
    if StageKind.SANITIZER in kinds:
        tool = sanitizer_tool(host, remote)
        if remote.tools == "host" and SANITIZER not in host.tools:
            absent = f"no {SANITIZER} on {host.hostname}; set `tools: ship` for this remote"
            yield Check(SANITIZER, broken(absent))
        else:
            yield _sanitizer(tool, remote)
    if StageKind.PROFILE not in kinds:
        return
    ncu = host.tools.get("ncu")
    if ncu is None:
        absent = f"no ncu on {host.hostname}; install Nsight Compute there"
        yield Check("ncu", broken(absent))
    else:
        yield Check("ncu", _ncu(ncu, profiling))
    yield Check("counters", _counters(host))


def _sanitizer(tool: Tool, remote: RecordedRemote) -> Check:
    """Say which tool it is, and which of its useful options it lacks."""
    listed = {option.lstrip("-") for option in tool.options}
    lacking = [name for _, name, _ in WANTED_OPTIONS if name.lstrip("-") not in listed]
    says = f"it has no {', '.join(lacking)}: `tools: ship` brings one that has" if lacking else ""
    return Check(SANITIZER, passed(f"{SANITIZER} {tool.version} ({remote.tools})", says))


def _counters(host: Host) -> Verdict:
    if host.gpu_counters_admin_only is None:
        return skipped("whether the GPU counters are allowed is not known; ncu will say")
    if host.gpu_counters_admin_only and not host.admin:
        return broken(
            f"the GPU counters of {host.hostname} are for administrators only"
            " (RmProfilingAdminOnly: 1); log in as root, rent a host that allows them, or let"
            " its administrator set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module"
        )
    return passed("GPU counters are allowed for this user")
