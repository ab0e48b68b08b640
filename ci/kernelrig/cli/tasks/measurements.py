"""Tasks that say what a measurement means: of a file, of standard input, or of a run."""

from __future__ import annotations

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import named_values, optional_number, optional_whole_number
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


@command(
    help={
        "source": "run, ncu report, its source page as CSV, - for stdin, or a build's folder",
        "kernel": "regular expression of the kernel's name, where the page has several",
        "predict": "counts to compare: STG=tiles*16*4*2,UTCQMMA=24*tiles; also warps, ctas",
        "tiles": "tiles of the launch; default: as many as its matrix instructions say",
        "top": "instructions with the most samples to show; default: 15",
        "layout": "also show each basic block: address, bytes, role, loops, where it goes",
        "graph": "write the control-flow graph with samples and roles to this file (DOT)",
    }
)
def analyze_source(
    source: str,
    kernel: str = "",
    predict: str = "",
    tiles: str = "",
    top: str = "",
    layout: bool = False,
    graph: str = "",
) -> Reply:
    """Say what counters by instruction mean: stalls, roles, waits, conflicts, counts."""
    from kernelrig.report import render_source
    from kernelrig.run.analyses import analyse_counters, write_graph

    found = analyse_counters(
        project_root(),
        source,
        named_values("predict", predict),
        kernel=kernel,
        tiles=optional_whole_number("tiles", tiles) or 0,
        top=optional_whole_number("top", top),
    )
    if graph:
        write_graph(found, graph)
    return Reply(render_source(found, layout=layout), counters=found)


@command(
    help={
        "a": "run, ncu report, page of ncu as CSV, or what a timing build printed",
        "b": "the other one, which is compared with A",
        "kernel": "regular expression of the kernel's name, where a side has several",
        "force": "name what moved even if GPU, driver, host or SM clock differ",
        "gate": "exit 1 if a counter moved the wrong way",
    }
)
def compare(a: str, b: str, kernel: str = "", force: bool = False, gate: bool = False) -> Reply:
    """Name each counter, phase and source line that moved by more than its noise from A to B."""
    from kernelrig.report import render_comparison
    from kernelrig.run.profile_comparison import compare_measurements

    found = compare_measurements(project_root(), a, b, kernel=kernel, force=force, gate=gate)
    failed = gate and bool(found.worse)
    return Reply(render_comparison(found), exit_code=1 if failed else 0, compared=found)


@command(
    help={
        "source": "run whose profile passed, or ncu report",
        "kernel": "regular expression of the kernel's name, where the report has several",
        "timing": "run with a timing stage of the same build, for power and joules",
        "markdown": "also write it to this file, such as explain.md",
    }
)
def explain(source: str, kernel: str = "", timing: str = "", markdown: str = "") -> Reply:
    """Say what a profiled launch is bound by, what costs it time, and what is worth trying."""
    from kernelrig.report import render_explanation
    from kernelrig.run import explanations

    found = explanations.explain(project_root(), source, kernel=kernel, timing=timing)
    if markdown:
        explanations.write_explanation(markdown, found)
    return Reply(render_explanation(found), explanation=found)
