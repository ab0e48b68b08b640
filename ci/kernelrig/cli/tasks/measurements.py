"""Tasks that say what a measurement means: of a file, of standard input, or of a run."""

from __future__ import annotations

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import optional_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply


@command(
    help={
        "source": "what a timing build printed, its result file, - for standard input, or a run",
        "what_if": "changes of phases, in cycles or per cent: phase1=-200,kloop=-10%",
        "production_ms": "time of the build without clocks, to compare with",
        "stage": "which timing stage of the run; default: the only one with phases",
    }
)
def analyze_timing(
    source: str, what_if: str = "", production_ms: str = "", stage: str = ""
) -> Reply:
    """Say what clock64 phases mean: budgets, which role is slower, ceilings, contention."""
    from kernelrig.report import render_phases
    from kernelrig.run.analyses import analyse_timing

    production = optional_number("production-ms", production_ms) or 0.0
    found = analyse_timing(project_root(), source, what_if, production, stage)
    return Reply(render_phases(found), phases=found)
