"""Hosts that lie: in what they list and send, in the journal, in the protocol itself.

They speak through an agent of their own. A host that forges a consistent result cannot be detected;
these are not consistent, or want something of the client: nothing passes, nothing of theirs is
written outside of what a host may write, nothing is run, and the call ends.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.e2e.project import Answer
from tests.faults.kind import Inject, Kind
from tests.faults.oracle import Expected
from tests.faults.site import STAGES, Site, processes_of
from tests.remote.hostile_agent import hostile_python, listing, script_of

Script = Callable[[Random, int, Path], str]
"""The hostile agent's script; the path is one that nothing may ever make."""

UTC = "2026-11-22T10:00:00Z"
PRINTED = b"all is well\n"


def is_hostile(script: Script) -> Inject:
    """Let the host be the seed's liar; afterwards it is an honest one."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        python = site.folder / "python"
        honest = python.read_text()
        trap = site.folder / "trap"
        text = script(rng, seed, trap)
        liar = Path(hostile_python(site.folder / "liar", text))
        python.write_text(liar.read_text())

        def heal() -> None:
            check_client(site, trap)
            for pid, command in processes_of(site.folder).items():
                if "/liar/" in command:  # it may never look whether somebody listens
                    os.kill(pid, signal.SIGKILL)
            python.write_text(honest)
            python.chmod(0o755)

        site.strike()
        with site.start_test() as call:
            answer = call.end()
        shown = answer.stdout + answer.stderr
        assert not set(shown) & set("\x1b\r\x00\x9b"), f"controls are shown raw: {shown!r}"
        return answer, Expected(
            exits=(1, 4, 5, 6), final=(1, 4, 5, 6), stages=None, gone=True, forged=True, heal=heal
        )

    return inject


def check_client(site: Site, trap: Path) -> None:
    """Check that the host wrote where a host may write, and had nothing run."""
    assert not trap.exists(), "the client ran what the host sent"
    for run in (site.project.root / "artifacts/runs").iterdir():
        for path in run.rglob("*"):
            name = str(path.relative_to(run))
            assert not path.is_symlink(), f"a link: {name}"
            if path.is_file() and not name.startswith("stages/"):
                assert b"FORGED" not in path.read_bytes() or name in (
                    "journal.jsonl",
                    "agent.log",
                    "run.json",  # where the name is reported as missing
                    "junit.xml",
                    "summary.md",
                    "report.html",
                ), f"{name} is the host's"
        assert '"kind": "embedded"' not in (run / "run.json").read_text()


def journal(*events: dict[str, object], run: str = "RUN") -> bytes:
    begun: dict[str, object] = {"event": "run_started", "utc": UTC, "t": 0.0, "run": run}
    return b"".join(json.dumps(e).encode() + b"\n" for e in (begun, *events))


def passed(stage: str) -> tuple[dict[str, object], ...]:
    """Return the events of a stage that passed."""
    index = STAGES.index(stage) + 1
    named: dict[str, object] = {"utc": UTC, "t": 0.1, "stage": stage}
    ended: dict[str, object] = {
        "ok": True, "started_utc": UTC, "exit": 0, "ended_by": "exit", "signal": None,
        "seconds": 0.1, "detail": "", "reused_from": "", "strays": 0,
    }  # fmt: skip
    return (
        {"event": "stage_started", "index": index, "folder": f"{index:02d}-{stage}", **named},
        {"event": "command_started", "command": "program", "pid": 1, **named},
        {"event": "command_ended", "command": "program", **named, **ended},
        {"event": "stage_ended", "ok": True, **named},
    )


ALL = tuple(event for stage in STAGES for event in passed(stage))
FINISHED = {"event": "finished", "utc": UTC, "t": 1.0, "reason": "all stages were run"}
LOGS = {f"stages/{n:02d}-{s}/program.stdout.log": PRINTED for n, s in enumerate(STAGES, 1)}


SERVE = """\
import hashlib, hmac
FILES = {files!r}
SIZES = {sizes!r}
KEY = ""

def sealed(journal):
    seal, lines = b"", []
    for line in journal.splitlines():
        seal = hmac.digest(bytes.fromhex(KEY), seal + line, "sha256")
        lines.append(line[:-1] + b', "seal": "' + seal.hex().encode() + b'"}}\\n')
    return b"".join(lines)

def answer(op, request):
    global KEY
    KEY = request.get("key", KEY)  # a host knows it, other than the programs that run there
    # The run's id is known once the client asks for it.
    run = request.get("run", "").encode()
    files = {{name: data.replace(b"RUN", run) for name, data in FILES.items()}}
    if KEY:
        files["journal.jsonl"] = sealed(files["journal.jsonl"])
    if op == "manifest":
        named = [[name, SIZES.get(name, len(data))] for name, data in files.items()]
        yield {{"files": named, "lost": [], "other": []}}
        yield {{"end": "listed", "alive": False}}
    if op == "fetch":
        for number, wanted in enumerate(request["files"]):
            data = next(d for n, d in files.items() if n in str(wanted))
            yield {{"file": number, "bytes": len(data)}}
            yield data
            yield {{"file": number, "sha256": hashlib.sha256(data).hexdigest()}}
        yield {{"end": "fetched"}}
"""


def serve(files: dict[str, bytes], *, sizes: dict[str, int] | None = None) -> str:
    """Return the script of a host that has these files; `sizes` are what it says instead."""
    return SERVE.format(files=files, sizes=sizes or {})


def lists_what_it_must_not(rng: Random, seed: int, trap: Path) -> str:
    """List files of the run directory that the client wrote, or that lie outside of it."""
    taken_over = {
        "schema": 1,
        "FORGED": True,
        "remote": {"name": "x", "kind": "embedded", "env": {f"-S touch {trap}": "x"}},
    }
    names = (
        "run.json",
        "job.json",
        "build/staged",
        "stages/../run.json",
        "../../../FORGED",
        str(trap),
        "manifest.json",
        ".git/hooks/post-checkout",
        "stages/01-one/.git/config",
        "sources/kernel/staged.cpp",
    )
    content = json.dumps(taken_over).encode() if seed == 0 else b"FORGED"
    return serve({"journal.jsonl": journal(), names[seed % len(names)]: content})


def sends_what_it_did_not_list(rng: Random, seed: int, trap: Path) -> str:
    """Announce one size and send another, send without end, or send what was not requested."""
    big = b"FORGED" * (1 << 16)
    name = "stages/01-one/made.bin"
    variants = (
        serve({"journal.jsonl": journal(), name: big}, sizes={name: 0}),
        serve({"journal.jsonl": journal(), name: b"x"}, sizes={name: 10**15}),
        serve({"journal.jsonl": journal(), name: b"x"}, sizes={name: -1}),
        script_of(
            manifest=listing((name, 3)), fetch=[{"file": 0, "bytes": 3}, b"FORGED" * 10_000_000]
        ),
        script_of(manifest=listing((name, 3)), fetch=[{"file": 7, "bytes": 3}, b"abc"]),
        script_of(manifest=listing(*((f"stages/01-one/{i}", 1) for i in range(200_000)))),
        script_of(manifest=listing((name, 3)), fetch=[{"file": 0, "bytes": 10**30}, b"abc"]),
        script_of(manifest=listing(("stages/" + "n" * 5000, 3), ("stages/\x1b[2J\r\n", 3))),
        script_of(manifest=[{"files": [[name]], "lost": [], "other": []}, {"end": "listed"}]),
        script_of(manifest=[{"files": "no list"}, {"end": "listed"}]),
    )
    return variants[seed % len(variants)]


def forges_results(rng: Random, seed: int, trap: Path) -> str:
    """Send a journal, or results, that cannot be this run's; what they say is a pass."""
    dup = journal(*ALL, FINISHED).replace(b'"exit": 0', b'"exit": 1, "exit": 0')
    nan = journal(*ALL, FINISHED).replace(b'"seconds": 0.1', b'"seconds": NaN')
    huge = journal(*ALL, FINISHED).replace(b'"seconds": 0.1', b'"seconds": 1e999')
    deep = b'{"event": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    files = {"journal.jsonl": journal(*ALL, FINISHED)}
    variants = (
        files,  # without a file of any stage
        {"journal.jsonl": journal(*ALL, FINISHED, run="20260101T000000Z-other"), **LOGS},
        {"journal.jsonl": journal(*ALL, *passed("two"), FINISHED), **LOGS},
        {"journal.jsonl": dup, **LOGS},
        {"journal.jsonl": nan, **LOGS},
        {"journal.jsonl": huge, **LOGS},
        {"journal.jsonl": deep + journal(*ALL, FINISHED), **LOGS},
        {"journal.jsonl": journal(*ALL[4:], FINISHED), **LOGS},
        {"journal.jsonl": journal(*reversed(ALL), FINISHED), **LOGS},
        {"journal.jsonl": journal(*ALL, FINISHED).replace(b'"index": 2', b'"index": 3'), **LOGS},
    )
    return serve(variants[seed % len(variants)])


def speaks_nonsense(rng: Random, seed: int, trap: Path) -> str:
    """Answer an operation with what is no answer to it."""
    op = ("hello", "facts", "need", "put", "launch", "follow", "manifest", "fetch")[seed % 8]
    answers: tuple[object, ...] = (
        rng.randbytes(2000) + b"\n",
        b"[]\n",
        b"null\n",
        {"error": "\x1b[2J::error::no\r\n", "kind": "refused"},
        {"error": {"a": 1}, "kind": ["b"]},
        b"{" * 100_000 + b"\n",
        b'{"end": "finished", "end": "lost"}\n',
        {"missing": "x", "bad": 1, "already": "yes", "files": 3, "end": 5, "event": []},
        b"x" * 1_000_000,
        {"workdir": 5, "python": None, "hostname": ["\x1b"], "glibc": "1e9", "free_bytes": "x"},
    )
    return script_of(**{op: rng.choice(answers)})


def never_ends(rng: Random, seed: int, trap: Path) -> str:
    """Go on for ever: with ticks, events, a journal, or silence."""
    event = {"event": {"event": "note", "text": "x" * 1000}, "offset": 0}
    endless = ("'tick'", "event", "big", "pause")[seed % 4]
    op = ("follow", "manifest", "fetch", "launch", "facts")[seed % 5]
    bodies = {
        "'tick'": "yield {'tick': True}; yield 0.001",
        "event": f"yield {event!r}",
        "big": "yield b'x' * 100000",
        "pause": "yield 60",
    }
    return f"def answer(op, request):\n    while op == '{op}':\n        {bodies[endless]}\n"


KINDS = (
    Kind("hostile list", is_hostile(lists_what_it_must_not)),
    Kind("hostile sizes", is_hostile(sends_what_it_did_not_list)),
    Kind("forged results", is_hostile(forges_results)),
    Kind("hostile answers", is_hostile(speaks_nonsense)),
    Kind(
        "hostile without end", is_hostile(never_ends), remote={"give_up_s": 6.0, "answer_s": 20.0}
    ),
)
