"""Find the tools of CUDA and its driver on this host: paths, versions, options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from .kept import Kept
from .probe import Probe
from .process_table import run_tool
from .refusal import Json

PROBE_S = 10.0
TOOL_VERSIONS = {
    "compute-sanitizer": r"Version (\d[\w.]*)",
    "ncu": r"Version (\d[\w.]*)",
    "cuda-gdb": r"(?:cuda-gdb|CUDA Debugger)\s+(\d[\w.]*)",
    "nvidia-smi": r"NVIDIA-SMI version\s*:\s*(\d[\w.]*)",
}
TOOLS_WITH_OPTIONS = ("compute-sanitizer", "ncu")
SLOW_TOOL = "cuda-gdb"
"""It takes 0.15 to 0.25 s to say its version, and is of one package with what it starts."""


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Sort by the numbers in the paths, so that cuda-13.0 comes before cuda-9.2."""
    return sorted(paths, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], reverse=True)


def find_tool(name: str) -> str | None:
    """Return the path of a tool: from PATH, else from where CUDA and Nsight Compute install it."""
    folders = [Path(f) for f in os.environ.get("PATH", "").split(":") if f.startswith("/")]
    folders += [Path("/usr/local/cuda/bin"), *newest_first(Path("/usr/local").glob("cuda-*/bin"))]
    folders += newest_first(Path("/opt/nvidia/nsight-compute").glob("*"))
    for folder in folders:
        path = str(folder / name)  # in a folder that may be unreadable, or no path at all
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def describe_slow_tool(name: str, path: str, problems: list[str], kept: Kept) -> Json:
    """Return what a tool says that takes long to start, as it was said before of the same file."""
    whole = os.path.realpath(path)
    seen = os.stat(whole)
    key = f"{path} {whole} {seen.st_size} {seen.st_mtime_ns} {seen.st_ino}"
    known = kept.get(key)
    if isinstance(known, str) and re.fullmatch(r"[\w.]{1,40}", known):
        return {"path": path, "version": known, "options": []}
    found = describe_tool(name, path, problems)
    if found["version"]:
        kept.put(key, found["version"])
    return found


def describe_tool(name: str, path: str, problems: list[str]) -> Json:
    """Return path, version and, of tools whose options differ by version, the options."""
    listed = Probe(run_tool, [path, "--help"], PROBE_S) if name in TOOLS_WITH_OPTIONS else None
    code, output = run_tool([path, "--version"], PROBE_S)
    found = re.search(TOOL_VERSIONS[name], output)
    if found is None:
        problems.append(f"{path} --version prints no version (exit {code})")
    options: list[str] = []
    if listed is not None:
        code, output = listed.result()
        options = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", output)))
        if not options:
            problems.append(f"{path} --help lists no options (exit {code})")
    return {"path": path, "version": found.group(1) if found else "", "options": options}
