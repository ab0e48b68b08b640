"""A Run on paper: JUnit, Markdown, GitHub, the terminal, the exit code. Reads records only."""

from ci.report.bench import render_bench
from ci.report.checks import render_checks, render_sets
from ci.report.console import describe_error, render_plan, render_table
from ci.report.files import write_reports
from ci.report.junit import render_junit
from ci.report.markdown import render_summary
from ci.report.progress import progress
from ci.report.text import render_rows
from ci.report.verdict import exit_code, run_word

__all__ = [
    "describe_error",
    "exit_code",
    "progress",
    "render_bench",
    "render_checks",
    "render_junit",
    "render_plan",
    "render_rows",
    "render_sets",
    "render_summary",
    "render_table",
    "run_word",
    "write_reports",
]
