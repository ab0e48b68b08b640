"""The JSON Schema of the answer; `python -m kernelrig.cli.answer_schema` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelrig.cli.answer import Answer
from kernelrig.cli.answer_comparison import COMPARISON
from kernelrig.cli.answer_counters import COUNTERS
from kernelrig.cli.answer_explanation import EXPLANATION
from kernelrig.cli.answer_phases import PHASES
from kernelrig.cli.answer_program import PROGRAM
from kernelrig.cli.answer_session import SESSION
from kernelrig.cli.answer_sweep import SWEEP
from kernelrig.config.schema import SCHEMAS, record_schema
from kernelrig.files.rundir import write_json

FILE = "answer.schema.json"
_STAGE = {
    "name": "Name of the stage in its plan.",
    "kind": "What the stage does: check, preflight, checksum, sanitizer, timing, profile, bench.",
    "device": "What executed it: gpu, emulator, cpu, or static (the build was read, nothing ran).",
    "machine": "The device's own name.",
    "verdict": "Verdict of the stage and all of its checks.",
    "summary": "The verdict in one sentence.",
    "evidence": "Lines that the verdict rests on.",
    "seconds": "Seconds that the stage took.",
    "checks": "The checks of the stage.",
}
_BUILD = {
    "kernel": "Kernel of kernel/kernels.yaml.",
    "arch": "Arch it is compiled for, as sm_100a.",
    "variant": "Variant of the kernel.",
}
_SERIES = {
    "case": "Case of kernel/kernels.yaml.",
    "regime": "Conditions of the measurement, which must be equal in a comparison.",
    "host_class": "Class of hosts whose times may be compared; empty for figures of a build.",
}

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "Answer": {
        "task": "The task that was called; empty where the command line was not understood.",
        "exit_code": "0 pass, 1 a verdict failed, 2 configuration or usage, 3 build, 4 remote or "
        "other infrastructure, 5 unreadable tool output, 6 incomplete and resumable.",
        "verdict": "How the task ended.",
        "run": "The run that the task made; null for a task that makes none.",
        "stages": "Stages of the run with their verdicts, in order.",
        "findings": "Every finding of the run, and every error of an emulated program.",
        "builds": "Builds that the task made or found unchanged.",
        "baselines": "Reviewed baselines.",
        "tools": "What `doctor` looked at.",
        "runs": "Recorded runs: those that `runs` lists, or what is left of one that was removed.",
        "on_host": "Runs that lie on a host, as it tells of them: `runs --remote`.",
        "trends": "A metric over commits, as `history` shows it.",
        "experiments": "Experiments: those that are listed, or the one that was written.",
        "tasks": "The tasks of `--list`.",
        "phases": "What the phases of a timing build mean; null for a task that reads none.",
        "counters": "What counters by instruction mean; null for a task that reads none.",
        "compared": "What moved between two measurements; null for a task that compares none.",
        "explanation": "What a profile means; null for a task that explains none.",
        "program": "How the program of `run` or `record` ran; null elsewhere.",
        "sweep": "The sets of tunables that `sweep` tried; null elsewhere.",
        "session": "The entries of a `session`; null elsewhere.",
        "text": "What the task prints for people without --json.",
        "error": "What ended the task before it had a result; null if nothing did.",
        "next_step": "The command that follows from the verdict; empty where none does.",
        "schema": "Version of this format.",
    },
    "RunAnswer": {
        "id": "Run id.",
        "folder": "The run directory, relative to the project.",
        **_BUILD,
        "remote": "Remote it ran on; empty if it needed none.",
        "missing": "What did not come back from the host.",
        "only": "Stages that --only left of its plan; empty if it was not given.",
        "word": "First word of its reports, as `pass, of smoke only`.",
        "not_established": "Why a run without any fault is an error; empty otherwise.",
    },
    "StageAnswer": _STAGE,
    "CheckAnswer": {
        "name": "Name of the check.",
        "verdict": "Its verdict.",
        "summary": "The verdict in one sentence.",
        "evidence": "Lines that the verdict rests on.",
        "facts": "What was measured or read, label -> value.",
    },
    "FoundBy": {
        "stage": "Stage that reported it; of an emulated program `launch 1`.",
        "check": "Check of the stage; of an emulated program the kernel.",
        "finding": "The finding.",
    },
    "Finding": {
        "tool": "Tool that reported it.",
        "kind": "Kind of fault, as the tool names it.",
        "message": "The fault in one sentence.",
        "kernel": "Kernel function.",
        "file": "Source file, relative to the repository.",
        "line": "Line in it, from 1; 0 = unknown.",
        "threads": "Threads that it was seen in.",
        "count": "How often it was seen.",
        "fingerprint": "Identifies the fault in reruns and after lines have moved.",
        "accepted": "The reviewed reason for which it is no failure; empty = it is one.",
        "frames": "The inlined chain of the instruction, innermost first.",
        "related": "Other lines that take part, such as the other access of a race.",
        "source_line": "Text of the line.",
        "fix": "Suggested fix.",
        "rule": "Number of the static rule.",
        "section": "Section of the PTX ISA that states the rule.",
        "objects": "Barriers and buffers that it is about, by name.",
        "schedules": "In how many schedules it was seen; 0 = not counted.",
        "warps": "In how many warps it was seen; 0 = not counted.",
        "ctas": "In how many CTAs it was seen; 0 = not counted.",
        "explained_by": "Fingerprint of the finding that caused this one.",
    },
    "Frame": {
        "file": "Source file.",
        "line": "Line in it, from 1.",
        "function": "Function, as the binary names it.",
    },
    "BuildAnswer": {
        **_BUILD,
        "folder": "Folder of the build.",
        "key": "Hash of its command and inputs.",
        "reused": "true: nothing had changed, no compiler was started.",
        "compile_s": "Seconds that the compiler took; 0 if reused.",
        "registers": "Registers per thread; null for a CPU program.",
        "spill_bytes": "Bytes of spill stores and loads per thread, of the kernel and its callees.",
        "shared_bytes": "Static bytes of shared memory per CTA.",
    },
    "BaselineAnswer": {
        "host_class": "Class of hosts whose times may be compared.",
        **_BUILD,
        "case": "Case of kernel/kernels.yaml.",
        "regime": "Conditions of the measurement, which must be equal in a comparison.",
        "build": "Key of the build.",
        "median_ms": "Median time of each run in milliseconds.",
        "runs": "Ids of the runs.",
    },
    "ToolAnswer": {
        "name": "What was looked at.",
        "ok": "false: it is missing or unusable.",
        "text": "What was found.",
        "fix": "What to do where it is not ok.",
        "level": "ok, missing; of a remote ok, warn, fail or unknown.",
    },
    "RunEntry": {
        "id": "Run id.",
        "started_utc": "When it started.",
        "finished_utc": "When its last verdict was reached; empty if it was not.",
        "task": "The task that made it.",
        **_BUILD,
        "remote": "Remote it ran on; empty if it needed none.",
        "plan": "Its plan.",
        "devices": "What its stages ran on.",
        "state": "prepared, launched, collected, incomplete, finished, or damaged.",
        "outcome": "pass, fail, error or skip; empty before a stage was judged.",
        "word": "First word of its reports, as `pass, of smoke only`.",
        "commit": "Commit of the tree; empty without one.",
        "dirty": "true: the tree had changes on top of its commit.",
        "problem": "Why its record says nothing that counts; empty if it does.",
        "observed": "Its figures; a list of runs leaves them out.",
    },
    "HostRun": {
        "id": "Run id.",
        "alive": "true: its agent lives on the host.",
        "quiet_s": "Seconds since the heartbeat of a living agent.",
        "owner": "Login on the host that owns its folder.",
        "since_utc": "When its agent started, as its journal says.",
        "until_utc": "When its journal was written last; empty while its agent lives.",
        "ended_stages": "How many of its stages have ended.",
        "stage": "The stage under way; empty between two, and after the last.",
        "ended": "Why the run is over, as its journal says; empty if it does not.",
        "here": "State of its record in this project; empty: it has none here.",
        "waits": "Why its job waits in a cluster's queue; empty: it does not.",
    },
    "Observed": {
        "metric": "Name of the figure.",
        "value": "The figure; the median of `samples`.",
        "low": "Least value seen with it.",
        "high": "Largest value seen with it.",
        "unit": "Its unit, where the name has none.",
        "samples": "How many samples it is the median of; 0: it is no statistic.",
        "stage": "Stage that observed it.",
        "subject": "Candidate of a bench; empty for the run's own build.",
        **_BUILD,
        **_SERIES,
        "card": "UUID of the GPU.",
        "commit": "Commit of the build.",
        "dirty": "true: the build had changes on top of its commit.",
        "build": "Key of the build.",
    },
    "Experiment": {
        "name": "Name of its file.",
        "schema": "Version of the file's format.",
        "title": "The change in a few words.",
        **_BUILD,
        "case": "Case of kernel/kernels.yaml; empty: the one that the runs have.",
        "state": "open, parked or closed.",
        "rank": "How soon it is worth its effort.",
        "hypothesis": "What is expected to happen, and why.",
        "metric": "What should move.",
        "expected_percent": "By how much, estimated before: from least to most.",
        "rule": "Condition over figures of the result, and of the baseline (`baseline.`): go.",
        "effort": "low, medium or high.",
        "risk": "low, medium or high.",
        "opened": "Date on which it was written down.",
        "closed": "Date of its verdict.",
        "reopen": "Condition over the figures of a run that opens a parked one again.",
        "why_parked": "Why it was put off.",
        "baseline": "Run that the result is compared with; empty where a bench has both.",
        "result": "Run that has the figures.",
        "commit": "Commit of the result's build.",
        "source": "Where figures are from that no run of the notebook has.",
        "observed": "The figures that the verdict follows from: a number, or the least and most.",
        "verdict": "go, no-go or inconclusive; null until it is closed.",
    },
    "Trend": {
        "metric": "Name of the figure.",
        "unit": "Its unit, where the name has none.",
        **_BUILD,
        **_SERIES,
        "points": "Its values by commit, in the order of their time.",
    },
    "TrendPoint": {
        "commit": "Commit of the builds; empty without one.",
        "dirty": "true: there were changes on top of it.",
        "build": "Key of the build, where the commit does not say what was built.",
        "started_utc": "Start of the first run.",
        "value": "Median of the runs' values.",
        "low": "Least of the runs' values; of one run, of what it observed.",
        "high": "Largest of them.",
        "runs": "Ids of the runs.",
        "cards": "How many GPUs they ran on.",
    },
    "TaskAnswer": {"name": "Name of the task.", "summary": "What it does."},
    **PHASES,
    **COUNTERS,
    **COMPARISON,
    **EXPLANATION,
    **PROGRAM,
    **SWEEP,
    **SESSION,
    "ErrorAnswer": {
        "message": "What is wrong, in one sentence.",
        "hint": "What to do next; may be empty.",
        "details": "What the compiler printed, for a build that failed.",
        "folder": "The run directory, relative to the project; empty where no run was begun.",
    },
}


def answer_schema() -> dict[str, Any]:
    """Return the schema of what we write: every key is always there."""
    schema = record_schema(Answer, DESCRIPTIONS, named_by_key=False)
    for definition in (schema, *schema["$defs"].values()):
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
    return schema


def write_answer_schema(folder: Path = SCHEMAS) -> None:
    write_json(folder / FILE, answer_schema())


if __name__ == "__main__":
    write_answer_schema()
