"""A host that forges results gains nothing by it here: no file of ours, no command, no pass."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project, read_junit, read_run
from tests.remote.hostile_agent import hostile_python

STAGE = "stages/01-program"

# The host believes the job that it was given, says that all went well, and sends FILES, too.
FORGING = """
import hashlib, hmac, json
FILES = {files!r}
UTC = "2026-11-22T12:00:00Z"
def journal(job):
    (stage,) = job["stages"]
    yield dict(event="run_started", run=job["run"])
    yield dict(event="stage_started", stage=stage["name"], index=1)
    for command in stage["commands"]:
        named = dict(stage=stage["name"], command=command["name"])
        yield dict(event="command_started", utc=UTC, pid=1, **named)
        yield dict(event="command_ended", ok=True, started_utc=UTC, ended_by="exit", exit=0,
                   signal=None, seconds=0.1, detail="", reused_from="", strays=0, **named)
    yield dict(event="stage_ended", stage=stage["name"], ok=True)
    yield dict(event="finished", reason="all stages were run")
def sealed(lines, key):  # a host knows the key, other than the programs that run there
    seal = b""
    for line in lines:
        seal = hmac.digest(bytes.fromhex(key), seal + line, "sha256")
        yield line[:-1] + b', "seal": "' + seal.hex().encode() + b'"}}\\n'
def answer(op, request):
    if op == "launch":
        lines = [json.dumps(e).encode().replace(*{damage!r}) for e in journal(request["job"])]
        FILES["journal.jsonl"] = b"".join(sealed(lines, request["key"]))
    if op == "manifest":
        listed = [[name, len(data)] for name, data in FILES.items()]
        yield dict(files=listed, lost={lost!r}, other=[])
        yield dict(end="listed", alive=False)
    if op == "fetch":
        for number, file in enumerate(request["files"]):
            data = FILES[file["path"]]
            yield dict(file=number, bytes=len(data))
            yield data
            yield dict(file=number, sha256=hashlib.sha256(data).hexdigest())
        yield dict(end="fetched")
"""


def forge(
    make: MakeProject,
    host: LoopbackHost,
    folder: Path,
    files: dict[str, bytes],
    *,
    lost: tuple[tuple[str, str], ...] = (),
    damage: tuple[bytes, bytes] = (b"", b""),
) -> tuple[Project, Answer]:
    """Run a kernel on a host that sends these files beside a journal, `damage` replaced in it."""
    script = FORGING.format(files=files, lost=[list(entry) for entry in lost], damage=damage)
    project = make(host.remote(python=hostile_python(folder / "hostile", script)))
    return project, project.test("waits", "brief")


def test_a_host_that_sends_a_run_record_gets_no_command_executed(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    """With it, `collect` would start an embedded host, and env(1) the command."""
    marker = tmp_path / "executed"
    record = b'{"remote": {"kind": "embedded", "env": {"-S sh -c \\"touch %s\\"": "x"}}}' % bytes(
        marker
    )
    files = {
        "run.json": record,
        "build/cpu_program": b"#!/bin/sh\ntouch executed\n",
        ".git/config": b"[core]\n  fsmonitor = touch executed\n",
        f"{STAGE}/program.stdout.log": b"before\nafter\n",
        f"{STAGE}/../../run.json": record,
    }
    project, answer = forge(make, host, tmp_path, files)
    assert (answer.exit_code, answer.sentences) == (4, [])
    run = read_run(answer.folder)
    assert (run.state, run.id) == ("finished", answer.folder.name)
    assert sorted(name.split(":")[0] for name in run.missing) == [
        ".git/config",
        "build/cpu_program",
        "run.json",
        f"{STAGE}/.%2E/.%2E/run.json",
    ]
    assert (answer.folder / "build/cpu_program").read_bytes().startswith(b"\x7fELF")
    assert not (answer.folder / ".git").exists()
    again = project.invoke("collect", answer.folder.name)
    assert again.sentences == []
    said = "what is missing of this run (4) never comes: there is nothing to collect"
    assert again.progress[0] == said
    assert not marker.exists()


def test_a_file_that_never_comes_is_an_error_and_the_run_is_over(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    lost = ((f"{STAGE}/x", "Permission denied"),)
    log = {f"{STAGE}/program.stdout.log": b"before\nafter\n"}
    _, answer = forge(make, host, tmp_path, log, lost=lost)
    assert (answer.exit_code, answer.sentences) == (4, [])
    why = f"{STAGE}/x: the host cannot read it: Permission denied"
    assert (answer.run.state, answer.run.missing) == ("finished", (why,))
    assert answer.shows(f"missing: {why}")
    assert read_junit(answer.folder)["collect/missing 1"] == f"error: {why}"
    assert read_junit(answer.folder)["program/cpu_program runs"] == "pass"


def test_a_damaged_byte_of_the_journal_is_unreadable_and_the_run_is_over(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    log = {f"{STAGE}/program.stdout.log": b"before\nafter\n"}
    damage = (b'"command_ended"', b'"comma\xffd_ended"')
    project, answer = forge(make, host, tmp_path, log, damage=damage)
    assert (answer.exit_code, answer.sentences) == (5, [])
    assert answer.run.state == "finished"
    assert (answer.folder / f"{STAGE}/program.stdout.log").read_bytes() == b"before\nafter\n"
    assert project.invoke("collect", answer.folder.name).exit_code == 5
