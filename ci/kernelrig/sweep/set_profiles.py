"""What the profiles of two sets differ in, where runs of `invoke profile` had their device code."""

from __future__ import annotations

from pathlib import Path

from kernelrig import build, report
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files import rundir
from kernelrig.files.manifest import is_unchanged
from kernelrig.files.serialization import from_json
from kernelrig.model import Build, Outcome, Run, StageKind
from kernelrig.run.profile_comparison import compare_measurements
from kernelrig.run.store import RUNS
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line


def profile_lines(root: Path, first: Build, second: Build) -> list[str]:
    """Return what moved from the one's last profile to the other's, or how to make what is missing.

    A profile is a build's if the cubin that was profiled is its own, byte for byte: of whatever
    variant it was built.
    """
    runs = [last_profile(root, b) for b in (first, second)]
    missing = [
        f"no profile of {name}: `{COMMAND} profile --build {b.folder} --remote REMOTE` makes one"
        for name, b, run in zip("AB", (first, second), runs, strict=True)
        if not run
    ]
    if missing:
        return missing
    a, b = runs
    try:
        moved = report.render_comparison(compare_measurements(root, a, b))
    except CiError as e:
        return [one_line(f"profiles {a} and {b} are not compared: {e.message}")]
    return [f"profiles {a} and {b}", *moved.splitlines()]


def last_profile(root: Path, built: Build) -> str:
    """Return the last run whose profile of this cubin passed, empty if there is none.

    A run that is not as it was when it ended has none.
    """
    cubin = _cubin(built)
    for path in sorted((root / RUNS).glob("*/run.json"), reverse=True) if cubin else ():
        try:
            if b'"profile"' not in path.read_bytes() or not is_unchanged(path.parent, path.name):
                continue
            run = from_json(Run, path)
            passed = [s for s in run.stages if s.verdict.outcome is Outcome.PASS]
            profiled = next((s for s in passed if s.kind is StageKind.PROFILE), None)
            if profiled is None:
                continue
            place = "" if profiled.variant in ("", run.variant) else profiled.variant
            record = f"{rundir.build_folder(Path(), place)}/build.json"
            if not is_unchanged(path.parent, record):
                continue
            if _cubin(build.load_build(rundir.build_folder(path.parent, place))) == cubin:
                return run.id
        except (CiError, ProtocolError, OSError):
            continue
    return ""


def _cubin(built: Build) -> str:
    """Return the SHA-256 of a build's device code, empty for a program without any."""
    return next((sha for name, sha in built.files.items() if name.endswith(".cubin")), "")
