"""`python -m kernelrig.emu run LAUNCH.json`: one launch, in the emulator.

`split FINDINGS.json` takes a part of its findings; `program FOLDER` runs a whole program.

Exit 0: no error; 1: at least one finding of severity error; 2: bad input; 4: the emulator itself
failed, or the system ended it, in all schedules or in some.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernelrig.emu.launch.command_line import first_schedule, require_buffers
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.estimate import Watch
from kernelrig.emu.launch.execution import DEFAULT_STEPS
from kernelrig.emu.launch.exploration import ALL_OBSERVERS, Outcome, emulate, schedules_of
from kernelrig.emu.launch.file import is_sequence, read_launch
from kernelrig.emu.launch.finding_text import brief, shown
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.memory_need import require_memory
from kernelrig.emu.launch.severities import read_severities, table_text
from kernelrig.emu.launch.verdict_word import counted, verdict_word
from kernelrig.emu.machine.findings import OBSERVER_OF
from kernelrig.emu.observe.registry import OBSERVERS
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import strict_json
from kernelrig.model import Emulation, EmulatorEngine
from kernelrig.proc.workers import raised_at
from kernelrig.terminal.text import log_text

SCHEDULES = 4
MOST_SCHEDULES, MOST_JOBS = 10_000, 1024
SCHEMA = 3
"""Of findings.json; `run.lost` came without a new one. 3 added the engine and `instructions` to the
statistics. 2 added frames, related, rule, section, fix, cause, schedules, warps, ctas, objects and
examples; `source` became the innermost frame in the kernel's own sources."""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code; an error is one sentence on stderr."""
    try:
        return run_command(argv)
    except CiError as e:
        print(log_text(f"error: {e}"), file=sys.stderr)
        return e.exit_code
    except BrokenPipeError:  # who reads has left, as `head` does; the interpreter flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CiError.exit_code
    except Exception as e:  # an exit of 1 would read as a finding
        said = f"error: the emulator itself failed, {type(e).__name__} at {raised_at(e)}: {e}; "
        advice = "nothing was established: please report it with the launch file"
        print(log_text(said + advice), file=sys.stderr)
        return CiError.exit_code


def run_command(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    Raises ConfigError for input that cannot be read or emulated, CiError if memory runs out or a
    process dies.
    """
    words = sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    arguments = _parser().parse_args(words[:end])
    arguments.words = words[end + 1 :]
    if arguments.words and arguments.command is not _program:
        raise ConfigError("only `program` takes words behind --")
    try:
        code: int = arguments.command(arguments)
    except RecursionError as e:
        raise ConfigError("the module is nested too deeply") from e
    except MemoryError as e:
        raise CiError("out of memory", "emulate a smaller launch") from e
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kernelrig.emu", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a launch file")
    run.add_argument("launch", type=Path, metavar="LAUNCH.json")
    run.add_argument("--module", type=Path, metavar="FILE.ptx", help="the PTX, if not the launch's")
    run.add_argument(
        "--observe", default=",".join(ALL_OBSERVERS), help="of memory, races, init, sync"
    )
    run.add_argument("--schedules", type=int, default=SCHEDULES, help="how many (default 4)")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--max-steps", type=int, default=DEFAULT_STEPS)
    run.add_argument("--accumulate", choices=("fp32", "hardware"), default="fp32")
    run.add_argument(
        "--elect",
        choices=("first", "last", "hash"),
        default="",
        help="the lane that elect.sync takes (default: another by the schedule)",
    )
    run.add_argument(
        "--engine",
        choices=tuple(map(str, EmulatorEngine)),
        default=Emulation().engine.value,
        help="native, numpy, or auto: native where it can be built (default %(default)s)",
    )
    run.add_argument(
        "--large",
        action="store_true",
        help="accept buffers over a GiB, or 4 together, where that much memory is free",
    )
    run.add_argument("--jobs", type=int, default=0, help="processes; 0: one a processor")
    run.add_argument("--source", default="", help="the file whose lines findings name")
    _add_severities(run)
    run.add_argument("--dump", action="append", default=[], metavar="BUFFER=FILE.npy")
    run.add_argument("--json", type=Path, metavar="FILE", help="write findings and statistics")
    run.set_defaults(command=_run)
    program = commands.add_parser("program", help="run a program; behind -- are its arguments")
    program.add_argument("program", type=Path, metavar="FOLDER", help="program, program.json")
    program.add_argument("--arch", required=True)
    program.add_argument("--observe", default=",".join(ALL_OBSERVERS))
    program.add_argument("--schedules", type=int, default=SCHEDULES)
    program.add_argument("--seed", type=int, default=0)
    program.add_argument("--max-steps", type=int, default=DEFAULT_STEPS)
    program.add_argument(
        "--engine", choices=tuple(map(str, EmulatorEngine)), default=Emulation().engine.value
    )
    program.add_argument("--json", type=Path, required=True, metavar="FILE")
    program.set_defaults(command=_program)
    split = commands.add_parser("split", help="keep some observers' findings of a run")
    split.add_argument("findings", type=Path, metavar="FINDINGS.json")
    split.add_argument("--observe", required=True, help="of memory, races, init, sync")
    split.add_argument("--json", type=Path, required=True, metavar="FILE")
    _add_severities(split)  # those that the run was asked for: a part of another is refused
    split.set_defaults(command=_split)
    rules = commands.add_parser("rules", help="list the rules with their severities")
    rules.set_defaults(command=_rules)
    return parser


def _add_severities(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--severity",
        action="append",
        default=[],
        metavar="RULE=LEVEL",
        help="error, warning or off for a rule (`rules` lists them)",
    )
    parser.add_argument("--strict", action="store_true", help="every warning is an error")


def _rules(_: argparse.Namespace) -> int:
    print(table_text())
    return 0


def _program(arguments: argparse.Namespace) -> int:
    from kernelrig.emu.cudart.program_command import run_described  # a launch needs none of it

    observe = _observers(arguments.observe)
    if not 1 <= arguments.schedules <= MOST_SCHEDULES or arguments.max_steps < 1:
        raise ConfigError(f"--schedules is from 1 to {MOST_SCHEDULES}, --max-steps from 1")
    code, said = run_described(arguments, observe, _tell)
    _write(arguments.json, said)
    return code


def _run(arguments: argparse.Namespace) -> int:
    observe = _observers(arguments.observe)
    if arguments.schedules < 1 or arguments.max_steps < 1 or arguments.jobs < 0:
        raise ConfigError("--schedules and --max-steps start at 1, --jobs at 0")
    if arguments.schedules > MOST_SCHEDULES or arguments.jobs > MOST_JOBS:
        most = f"--schedules is at most {MOST_SCHEDULES}, --jobs {MOST_JOBS}"
        raise ConfigError(f"{most}, not {arguments.schedules} and {arguments.jobs}")
    dumps = _dumps(arguments.dump)
    if is_sequence(arguments.launch):
        from kernelrig.emu.cudart.replay_command import run_sequence  # one launch needs none of it

        done = run_sequence(arguments, observe, tuple(dumps), _tell)
        try:
            for name, path in dumps.items():
                np.save(path, done.buffers[name])
            if arguments.json:
                _write(arguments.json, done.document)
        except OSError as e:
            raise ConfigError(f"{e.filename}: cannot be written: {e.strerror}") from e
        print(log_text(done.text))
        return done.exit_code
    if arguments.large:
        jobs = min(arguments.jobs or len(os.sched_getaffinity(0)), arguments.schedules)
        needed = require_memory(read_launch(arguments.launch, large=True), observe, jobs)
        _tell(f"memory: {needed}")
    loaded = load(arguments.launch, arguments.module, arguments.source, large=arguments.large)
    asked_for = read_severities(arguments.severity, strict=arguments.strict)
    severities = asked_for.over(loaded.entry.severities)
    require_buffers(dumps, loaded.entry.buffers)
    engine = choose_engine(arguments.engine, _tell)
    first = first_schedule(arguments, engine.name)
    outcome = emulate(
        loaded,
        schedules_of(first, arguments.schedules),
        observe,
        tuple(dumps),
        arguments.jobs,
        Watch(_tell),
        spill=next((path.parent for path in dumps.values()), None),
        partial=True,
        severities=severities,
    )
    try:
        written = {name: _dump(name, path, outcome) for name, path in dumps.items()}
        if arguments.json:
            asked = {
                "observed": [name for name in observe if name in OBSERVERS],
                "schedules": arguments.schedules,
                "seed": arguments.seed,
                "accumulate": arguments.accumulate,
                "severities": dict(severities.by_rule),
                "strict": severities.strict,
                "engine": engine.name,
                "engine_note": engine.why,
                "module_sha256": loaded.module_sha256,
                "stopped": outcome.stopped,
                "lost": {number: str(error) for number, error in outcome.lost.items()},
                "dumps": written,
            }
            _write(arguments.json, {**report(outcome), "run": asked})
    except OSError as e:
        raise ConfigError(f"{e.filename}: cannot be written: {e.strerror}") from e
    errors = sum(f.severity == "error" for f in outcome.findings)
    code = 1 if outcome.failed else CiError.exit_code if outcome.lost else 0
    ran = f"{len(outcome.wall_s)} of " if outcome.lost else ""
    verdict = (
        f"{verdict_word(code)}: emulated: {ran}{counted(arguments.schedules, 'schedule')},"
        f" {counted(errors, 'error')}, {counted(len(outcome.findings) - errors, 'warning')},"
        f" {max(outcome.wall_s):.1f} s"
    )
    if outcome.findings or outcome.lost:
        print(verdict)
    for finding in outcome.findings:
        cause = None if finding.cause is None else outcome.findings[finding.cause]
        print(log_text(f"  follows from that: {brief(finding)}" if cause else shown(finding)))
    if severities.text:
        print(log_text(f"severities: {severities.text}"))
    print(f"{engine.name} engine: {speed(outcome)}")
    if outcome.lost:
        said = all_lost(tuple(map(str, outcome.lost.values())))
        print(f"lost: {log_text(said)}")  # among the results, as `invoke emulate --json` has them
        _tell(f"error: {said}")
    print(verdict)
    return code


def all_lost(sentences: Sequence[str]) -> str:
    """Return one sentence for all schedules that have no result."""
    first, *more = sentences
    return f"{first}; {len(more)} more schedules were lost" if more else first


def _tell(text: str) -> None:
    """Say something of the run while it goes on."""
    print(log_text(text), file=sys.stderr, flush=True)


def report(outcome: Outcome) -> dict[str, object]:
    """Return findings.json of an outcome."""
    stats = {
        "rows": outcome.rows,
        "unchecked_rows": list(outcome.unchecked),
        "counters": outcome.counters,
        "instructions": outcome.instructions,
        "steps": outcome.steps,
        "wall_s": [round(s, 3) for s in outcome.wall_s],
    }
    return {"schema": SCHEMA, "findings": [f.as_record() for f in outcome.findings], "stats": stats}


def speed(outcome: Outcome) -> str:
    """Return what was executed, and how fast."""
    count = f"{outcome.instructions:,} warp-instructions"
    return f"{count}, {outcome.rate:,.0f} a second in each process"


def _dump(name: str, path: Path, outcome: Outcome) -> list[str]:
    """Write a buffer as the schedules left it; return each schedule's file, "" of a lost one.

    Those that left the bits of the first one share its file, another's has its number in its name.
    """
    np.save(path, outcome.buffers[name])
    files = [path.name] * (len(outcome.wall_s) + len(outcome.lost))
    for number in outcome.lost:
        files[number] = ""
    for number, buffers in outcome.others.items():
        if name in buffers:
            files[number] = f"{path.stem}.{number}.npy"
            np.save(path.with_name(files[number]), buffers[name])
    return files


def _split(arguments: argparse.Namespace) -> int:
    """Keep the findings of some observers, of a run that had them all; exit as that run would."""
    from kernelrig.emu.cudart.program_verdict import SCHEMA as PROGRAM_SCHEMA

    observe = _observers(arguments.observe)
    path: Path = arguments.findings
    try:
        found = strict_json.load(path)
        made_by = PROGRAM_SCHEMA if "launches" in found else SCHEMA
        if found["schema"] != made_by or not set(observe) <= set(found["run"]["observed"]):
            raise ConfigError(f"{path.name}: was not made with {', '.join(observe)} observed")
        if "launches" in found:
            return _split_program(found, observe, arguments.json)
        asked = read_severities(arguments.severity, strict=arguments.strict)
        had = (found["run"]["severities"], found["run"]["strict"])
        if had != (dict(asked.by_rule), asked.strict):
            raise ConfigError(f"{path.name}: was made with other severities")
        kept, others = _kept(found["findings"], observe)
        errors = sum(f["severity"] == "error" for f in kept)
        lost = [str(said) for said in found["run"].get("lost", {}).values()]
        _write(arguments.json, {**found, "findings": kept, "others": others, "split": observe})
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{path.name}: is no file of findings: {e!r}") from e
    except OSError as e:
        raise ConfigError(f"{path.name}: {e.strerror}") from e
    print(f"emulated: {', '.join(observe)}: {errors} errors, {len(kept) - errors} warnings")
    if lost and not errors:
        raise CiError(all_lost(lost))
    return 1 if errors else 0


def _split_program(found: dict[str, Any], observe: tuple[str, ...], path: Path) -> int:
    """Keep the findings of some observers in each launch; exit 1 for errors of theirs."""
    launches, errors = [], 0
    for launch in found["launches"]:
        kept, others = _kept(launch["findings"], observe)
        errors += sum(f["severity"] == "error" for f in kept)
        launches.append({**launch, "findings": kept, "others": others})
    _write(path, {**found, "launches": launches, "split": observe})
    print(f"emulated: {', '.join(observe)}: {errors} errors in {len(launches)} launches")
    return 1 if errors else 0


def _kept(
    findings: list[dict[str, Any]], observe: tuple[str, ...]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the findings of some observers, and the others, which causes may be among.

    `cause` is then an index into both lists, one after the other.
    """
    kept = [n for n, f in enumerate(findings) if OBSERVER_OF[f["kind"]] in observe]
    numbers = [*kept, *sorted(set(range(len(findings))) - set(kept))]
    place = {number: position for position, number in enumerate(numbers)}
    moved = [{**findings[n], "cause": place.get(findings[n]["cause"])} for n in numbers]
    return moved[: len(kept)], moved[len(kept) :]


def _write(path: Path, value: object) -> None:
    """Write JSON whole or not at all: half a file of findings would be too few of them."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    part.replace(path)


def _observers(text: str) -> tuple[str, ...]:
    observe = tuple(filter(None, text.split(",")))
    if not observe:
        raise ConfigError(f"--observe names no observer; known: {', '.join(ALL_OBSERVERS)}")
    for name in observe:
        if name not in ALL_OBSERVERS:
            raise ConfigError(f"unknown observer {name!r}; known: {', '.join(ALL_OBSERVERS)}")
    return observe


def _dumps(wanted: list[str]) -> dict[str, Path]:
    dumps = {}
    for text in wanted:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ConfigError(f"--dump takes BUFFER=FILE.npy, not {text!r}")
        dumps[name] = Path(path)
    return dumps


if __name__ == "__main__":
    sys.exit(main())
