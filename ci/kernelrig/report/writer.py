"""Writes a run's reports into its directory; each file appears complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from kernelrig.files.manifest import write_manifest
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Run
from kernelrig.report.github import publish
from kernelrig.report.junit import render_junit
from kernelrig.report.markdown import render_summary


def write_reports(run: Run, folder: Path) -> None:
    """Write junit.xml and summary.md, then the manifest over everything; publish them on GitHub."""
    write_atomic(folder / "junit.xml", render_junit(run))
    write_atomic(folder / "summary.md", render_summary(run))
    write_manifest(folder)
    publish(run, os.environ, Path(os.environ.get("GITHUB_WORKSPACE", ".")))
