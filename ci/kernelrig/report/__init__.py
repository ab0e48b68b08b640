"""Reports of a Run: JUnit, Markdown, GitHub, the terminal, the exit code. Reads records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.report.bench import render_bench
    from kernelrig.report.checks import render_checks, render_sets
    from kernelrig.report.console import describe_error, render_plan
    from kernelrig.report.explained_launch import render_explain_file, render_explanation
    from kernelrig.report.follow import Follower
    from kernelrig.report.junit import render_junit
    from kernelrig.report.markdown import render_summary
    from kernelrig.report.moved_counters import render_comparison
    from kernelrig.report.next_step import command_again, next_command
    from kernelrig.report.outcome import describe_devices, exit_code, run_outcome, run_word
    from kernelrig.report.page import (
        PAGE,
        Content,
        TimedSamples,
        charts_of,
        draw_charts,
        render_page,
    )
    from kernelrig.report.phase_budget import render_phases
    from kernelrig.report.screen import render_attempt, render_run
    from kernelrig.report.source_budget import render_source
    from kernelrig.report.source_graph import render_graph
    from kernelrig.report.trace_events import render_timeline
    from kernelrig.report.writer import write_reports
    from kernelrig.terminal.text import render_rows

__all__ = [
    "PAGE",
    "Content",
    "Follower",
    "TimedSamples",
    "charts_of",
    "command_again",
    "describe_devices",
    "describe_error",
    "draw_charts",
    "exit_code",
    "next_command",
    "render_attempt",
    "render_bench",
    "render_checks",
    "render_comparison",
    "render_explain_file",
    "render_explanation",
    "render_graph",
    "render_junit",
    "render_page",
    "render_phases",
    "render_plan",
    "render_rows",
    "render_run",
    "render_sets",
    "render_source",
    "render_summary",
    "render_timeline",
    "run_outcome",
    "run_word",
    "write_reports",
]

__getattr__ = lazy_exports(__name__)
