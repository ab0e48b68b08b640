"""Probe this host: tools, GPUs, driver, disk; a probe that fails is listed in `problems`."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

from .disk import free_bytes
from .distribution import system_facts
from .kept import Kept
from .probe import Probe
from .process_table import run_tool
from .refusal import Json
from .tools import (
    PROBE_S,
    SLOW_TOOL,
    TOOL_VERSIONS,
    describe_slow_tool,
    describe_tool,
    find_tool,
)

GPU_CORE_FIELDS = ("name", "uuid", "driver_version")
GPU_FIELDS = (
    *GPU_CORE_FIELDS,
    "compute_cap",
    "pci.bus_id",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "clocks_event_reasons.active",
    "mig.mode.current",
    "memory.used",
    "memory.total",
    "ecc.errors.uncorrected.volatile.total",
)
CONDITION_FIELDS = (
    "uuid",
    "power.default_limit",
    "utilization.gpu",
    "ecc.mode.current",
    "remapped_rows.pending",
    "remapped_rows.failure",
)
"""Asked apart, as an older nvidia-smi that rejects one of them must still list the others."""


def query_gpus(smi: str, problems: list[str]) -> list[dict[str, str]]:
    """Return nvidia-smi's fields of each GPU; fewer where an old nvidia-smi rejects one of them."""
    for fields in (GPU_FIELDS, GPU_CORE_FIELDS):
        argv = [smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        code, output = run_tool(argv, PROBE_S)
        rows = parse_rows(fields, output)
        if code == 0 and rows:
            return rows
        first = output.strip().splitlines()[0] if output.strip() else "no output"
        problems.append(f"nvidia-smi does not list the GPUs (exit {code}): {first}")
        if code is None:
            break
    return []


def parse_rows(fields: tuple[str, ...], output: str) -> list[dict[str, str]]:
    """Return the fields of each row; none if one row has another number of them."""
    rows = [[v.strip() for v in line.split(",")] for line in output.splitlines() if line.strip()]
    if any(len(row) != len(fields) for row in rows):
        return []
    return [dict(zip(fields, row)) for row in rows]


def query_condition(smi: str) -> dict[str, dict[str, str]]:
    """Return what else nvidia-smi says of each GPU by its UUID; nothing where it cannot."""
    argv = [smi, f"--query-gpu={','.join(CONDITION_FIELDS)}", "--format=csv,noheader,nounits"]
    code, output = run_tool(argv, PROBE_S)
    rows = parse_rows(CONDITION_FIELDS, output) if code == 0 else []
    return {row["uuid"]: row for row in rows}


def query_gpu_processes(smi: str, problems: list[str]) -> list[str]:
    """Return a line for each process that uses a GPU: its UUID, pid, name, memory in MiB.

    Where an old nvidia-smi does not give the UUID, a line counts for each GPU.
    """
    for fields in ("gpu_uuid,pid,process_name,used_memory", "pid,process_name,used_memory"):
        argv = [smi, f"--query-compute-apps={fields}", "--format=csv,noheader,nounits"]
        code, output = run_tool(argv, PROBE_S)
        if code == 0:
            return [line.strip() for line in output.splitlines() if line.strip()]
        if code is None:
            break
    problems.append(f"nvidia-smi does not list the processes on the GPU (exit {code})")
    return []


def driver_version(gpus: list[dict[str, str]]) -> str:
    """Return the driver's version, empty without one; /proc has it where nvidia-smi fails."""
    if gpus:
        return gpus[0]["driver_version"]
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        found = re.search(r"Kernel Module\D*?(\d+\.[\d.]+)", text)
        return found.group(1) if found else ""
    return ""


def counters_admin_only() -> bool | None:
    """Return whether only root may read GPU performance counters (ncu); None if unknown."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/params").read_text()
        found = re.search(r"RmProfilingAdminOnly: (\d)", text)
        return found.group(1) != "0" if found else None
    return None


def libc_version() -> str:
    """`2.39` on glibc; empty on another libc, on which no glibc binary runs."""
    with contextlib.suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return version if name == "glibc" else ""
    return ""


def gather_facts(workdir: Path) -> Json:
    """Return the fields of kernelrig.model.Host; the probes run in parallel."""
    problems: list[str] = []
    if os.statvfs(workdir).f_flag & os.ST_NOEXEC:
        problems.append("programs cannot be run from the workdir: it is mounted noexec")
    paths = {name: path for name in TOOL_VERSIONS for path in [find_tool(name)] if path}
    kept = Kept(workdir)
    tools = {n: Probe(describe_tool, n, p, problems) for n, p in paths.items() if n != SLOW_TOOL}
    if path := paths.get(SLOW_TOOL):
        tools[SLOW_TOOL] = Probe(describe_slow_tool, SLOW_TOOL, path, problems, kept)
    found: Json = {"gpus": [], "gpu_processes": [], "xid_errors": None}
    if "nvidia-smi" in paths:
        found = gpu_facts(paths["nvidia-smi"], problems, kept)
    return {
        **system_facts(),
        "hostname": os.uname().nodename,
        "python": sys.version.split()[0],
        "machine": os.uname().machine,
        "glibc": libc_version(),
        "free_bytes": free_bytes(workdir),
        "driver": driver_version(found["gpus"]),
        **found,
        "gpu_counters_admin_only": counters_admin_only(),
        "tools": {name: tool.result() for name, tool in tools.items()},
        "problems": sorted(problems),
        "admin": os.geteuid() == 0,
    }


def gpu_facts(smi: str, problems: list[str], kept: Kept) -> Json:
    """Return what is known of the GPUs, and what uses them."""
    from .gpu_figures import FiguresOfBoot, with_figures  # nothing of it without a GPU
    from .kernel_log import xid_errors
    from .lease import holder_of

    known = FiguresOfBoot(kept)
    asked = Probe(query_gpus, smi, problems), Probe(known.prepare), Probe(query_condition, smi)
    users, xids = Probe(query_gpu_processes, smi, problems), Probe(xid_errors)
    listed, _, condition = (probe.result() for probe in asked)
    gpus = with_figures(listed, known.figures(listed)) if listed else []
    gpus = [{**condition.get(g["uuid"], {}), **g, "lease": holder_of(g["uuid"])} for g in gpus]
    return {"gpus": gpus, "gpu_processes": users.result(), "xid_errors": xids.result()}
