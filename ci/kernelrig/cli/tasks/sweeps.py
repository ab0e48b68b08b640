"""The task that tries sets of tunables."""

from __future__ import annotations

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import name_list, optional_number, optional_whole_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply


@command(
    iterable=["set", "fix"],
    help={
        "arch": "sm_100a, sm_90a ...; default: the remote's, or the kernel's first",
        "set": "K=V,V: values to try of a tunable, or K for those of kernels.yaml; may be given"
        " several times, and then only these vary; default: all of kernels.yaml",
        "fix": "K=V: hold a tunable at a value; may be given several times",
        "only": "regular expression: try the sets whose name it finds, as in DEPTH=3 WARPS=5",
        "sample": "try so many of them, always the same ones",
        "budget": "minutes on the host; a sweep that is called again has them again",
        "remote": "where the sets are timed; default: nowhere, they are emulated alone",
        "case": "case of kernel/kernels.yaml that is timed; default: full",
        "explain": "A,B: what differs between two sets of the last sweep: ranks, ids or names",
        "exhaustive": "measure every set in seven rounds, once the race is over: what racing saves",
        "samples": "timed launches in a slot; default: 860",
        "dry_run": "list the sets and the minutes; compile nothing, connect to no host",
    },
)
def sweep(
    set: list[str],
    fix: list[str],
    kernel: str = "",
    arch: str = "",
    only: str = "",
    sample: str = "",
    budget: str = "",
    remote: str = "",
    on: str = "local",
    case: str = "",
    explain: str = "",
    exhaustive: bool = False,
    samples: str = "",
    system_cuda: bool = False,
    dry_run: bool = False,
) -> Reply:
    """Try sets of tunables: emulated here, then raced on a host; the best one as a patch."""
    from kernelrig.sweep import SweepRequest, describe_sweep, explain_sets, render_sweep, run_sweep

    request = SweepRequest(
        kernel=kernel,
        arch=arch,
        remote=remote,
        sets=tuple(set),
        fixed=tuple(fix),
        only=only,
        sample=optional_whole_number("sample", sample),
        budget_minutes=optional_number("budget", budget),
        on=on,
        case=case,
        system_cuda=system_cuda,
        exhaustive=exhaustive,
        samples=optional_whole_number("samples", samples),
    )
    if explain:
        return Reply(explain_sets(project_root(), request, name_list("explain", explain)))
    if dry_run:
        return Reply(describe_sweep(project_root(), request))
    result = run_sweep(project_root(), request)
    return Reply(render_sweep(result), result.exit_code, sweep=result)
