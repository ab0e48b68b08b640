"""Results come file by file: what cannot come is named with its reason, and costs no other file."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import Command, CommandResult, EndedBy, StageJob, StageKind
from kernelrig.remote.host_files import Limits
from kernelrig.remote.journal import read_journal
from kernelrig.remote.protocol import HostRefused
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import PYTHON, LocalHost, job, shell
from tests.small_disk import SmallDisk

STAGE = "stages/01-smoke"


def python(script: str, time_s: float = 60.0, **limits: int) -> list[StageJob]:
    """Return the jobs of one stage, whose program is this Python."""
    return [job("smoke", Command("a", (PYTHON, "-c", script), time_s), **limits)]


def run_there(host: LocalHost, jobs: list[StageJob]) -> None:
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    link.follow("run-1", lambda _: None, ())


def collect(host: LocalHost, jobs: list[StageJob], limits: Limits = Limits()) -> Missing:  # noqa: B008 - frozen
    return host.link().collect("run-1", host.back, jobs, limits)


def came(host: LocalHost) -> set[str]:
    """Return the names in the stage's folder here, without the logs of the command."""
    folder = host.back / STAGE
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return names - {"a.command", "a.stdout.log", "a.stderr.log"}


# what cannot come


def test_a_name_that_is_too_long_here_is_missing(host: LocalHost) -> None:
    """245 bytes are a name here too, also while the file is written; 250 with a `:` are not."""
    jobs = python(r"for n in ('n' * 244 + '\n', ':' * 86, 'good'): open(n, 'w').write(n)")
    run_there(host, jobs)
    (said,) = collect(host, jobs).names
    assert said.startswith(f"{STAGE}/%3A%3A")
    assert said.endswith(": its name has 258 bytes as it is written here, 255 are possible")
    assert came(host) == {"n" * 244 + "%0A", "good"}


def obey_modes(host: LocalHost) -> None:
    """Let the host's agent obey the modes of files, which root need not."""
    if os.geteuid() == 0:
        dropped = "--bounding-set=-dac_override,-dac_read_search"
        script = f'#!/bin/sh\nexec setpriv {dropped} {PYTHON} "$@"\n'
        host.python = str(host.file("obeying/python", script, 0o755))


def test_what_may_not_be_read_is_missing(host: LocalHost) -> None:
    obey_modes(host)
    script = """
import os
os.makedirs("closed/inner"); open("closed/inner/x", "w"); os.chmod("closed", 0)
open("mode-000", "w").write("x"); os.chmod("mode-000", 0)
open("good", "w").write("x")
"""
    jobs = python(script)
    run_there(host, jobs)
    missing = collect(host, jobs)
    (host.workdir / "runs/run-1" / STAGE / "closed").chmod(0o755)
    assert missing == Missing(
        (
            f"{STAGE}/closed: the host cannot read it: Permission denied",
            f"{STAGE}/mode-000: the host cannot read it: Permission denied",
        )
    )
    assert came(host) == {"good"}


def test_what_is_no_regular_file_is_left_and_said(
    host: LocalHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of them is opened: the pipe has no writer, the link leads to a password file."""
    script = """
import os, socket
os.mkfifo("pipe"); os.symlink("/etc/passwd", "link"); os.symlink("/etc", "folder")
socket.socket(socket.AF_UNIX).bind("socket"); open("good", "w")
"""
    jobs = python(script)
    run_there(host, jobs)
    assert collect(host, jobs) == Missing()
    assert came(host) == {"good"}
    assert (
        f"left on the host, as only regular files are fetched: {STAGE}/folder (symbolic link),"
        f" {STAGE}/link (symbolic link), {STAGE}/pipe (pipe), {STAGE}/socket (special file)\n"
    ) in capsys.readouterr().err


def test_a_stage_whose_folder_became_a_link_brings_nothing_of_elsewhere(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", ":")), job("next", shell("b", ":"))]
    run_there(host, jobs)
    folder = host.workdir / "runs/run-1" / STAGE
    folder.rename(host.folder / "moved")
    (host.folder / "moved/secret").write_text("secret")
    folder.symlink_to(host.folder / "moved")
    assert collect(host, jobs) == Missing()
    assert [p.name for p in (host.back / "stages").iterdir()] == ["02-next"]


def test_more_files_than_can_be_listed_are_missing(host: LocalHost) -> None:
    """What lies near the top comes first, and each stage has its own limit."""
    script = "import os; os.mkdir('many'); [open(f'many/{i}', 'w') for i in range(20)]"
    many = Command("a", (PYTHON, "-c", script), 60.0)
    jobs = [job("smoke", many), job("next", shell("b", "echo > kept"))]
    run_there(host, jobs)
    missing = collect(host, jobs, Limits(files=8))
    assert missing == Missing(
        (f"{STAGE}: the host cannot read it: more than 8 files: the others are not listed",)
    )
    assert len(came(host)) == 5
    assert (host.back / "stages/02-next/kept").is_file()


# limits


@pytest.mark.limit(60)
@pytest.mark.parametrize("then", ["time.sleep(1000)", "sys.exit(0)"])
def test_a_sparse_file_is_as_large_as_it_says(host: LocalHost, then: str) -> None:
    """It takes no room there, and all of it here: the limit ends it, also when it is quick."""
    script = f"import sys, time; open('sparse', 'wb').truncate(2 << 30); {then}"
    jobs = python(script, 10.0, disk_bytes=100 << 20)
    run_there(host, jobs)
    (command,) = _journaled(host, jobs)
    assert (command.ended_by, command.detail) == (
        EndedBy.DISK_LIMIT,
        f"more than {100 << 20} bytes of files",
    )
    (said,) = collect(host, jobs).names
    assert said.startswith(f"{STAGE}/sparse: with its {2 << 30} bytes its stage has more than the ")
    assert came(host) == set()


def test_output_beyond_the_limit_of_a_quick_command_is_no_good_end(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "head -c 100000 /dev/zero"), output_bytes=10_000)]
    run_there(host, jobs)
    (command,) = _journaled(host, jobs)
    assert command.ended_by is EndedBy.OUTPUT_LIMIT


def _journaled(host: LocalHost, jobs: list[StageJob]) -> tuple[CommandResult, ...]:
    (result,) = read_journal(host.workdir / "runs/run-1/journal.jsonl", jobs, "run-1")
    return result.commands


# this side


@pytest.fixture
def small_here(host: LocalHost) -> Iterator[SmallDisk]:
    """The folder to collect into, on a disk of 5 MB."""
    host.back.mkdir()
    disk = SmallDisk(host.back)
    disk.mount("size=5m")
    yield disk
    disk.unmount()


def test_a_small_disk_here_gets_what_fits_and_the_rest_later(
    host: LocalHost, small_here: SmallDisk
) -> None:
    """The large file is named first: the small ones come all the same, and the journal."""
    script = "open('a-large', 'wb').write(bytes(8 << 20)); open('small', 'w').write('x')"
    jobs = python(script)
    run_there(host, jobs)
    missing = collect(host, jobs)
    (said,) = missing.names
    assert said.startswith(f"{STAGE}/a-large: it has {8 << 20} bytes, and ")
    assert missing.may_come
    assert came(host) == {"small"}
    assert list(host.back.glob(".*.part")) == []
    small_here.mount("size=20m")
    assert collect(host, jobs) == Missing()
    assert came(host) == {"small", "a-large"}


def test_a_disk_here_without_inodes_names_what_it_refuses(
    host: LocalHost, small_here: SmallDisk
) -> None:
    jobs = python("[open(str(i), 'w').write('x') for i in range(20)]")
    run_there(host, jobs)
    small_here.mount("nr_inodes=12")
    missing = collect(host, jobs)
    assert {name.split(": ", 1)[1] for name in missing.names} == {
        "it cannot be written here: No space left on device"
    }
    assert missing.may_come
    assert (host.back / "journal.jsonl").is_file()
    small_here.mount("nr_inodes=100")
    assert collect(host, jobs) == Missing()
    assert len(came(host)) == 20


def test_what_a_killed_client_left_half_written_is_removed(host: LocalHost) -> None:
    """What a client that lives is writing stays."""
    jobs = python("open('good', 'w')")
    run_there(host, jobs)
    host.back.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        gone = subprocess.Popen(["true"])
        gone.wait()
        for pid in (gone.pid, alive.pid):
            (host.back / f".{pid}.0123abcd.part").write_text("half")
        assert collect(host, jobs) == Missing()
        assert [p.name for p in host.back.glob(".*.part")] == [f".{alive.pid}.0123abcd.part"]
        alive.kill()


KILLED = """
import os, sys
from pathlib import Path
from kernelrig.files.incoming import Incoming, Part
with Incoming(Path(sys.argv[1])) as folder, Part(folder) as part:
    part.write(b"half of it")
    os.kill(os.getpid(), 9)
"""


def test_a_client_killed_while_it_writes_leaves_nothing_behind(host: LocalHost) -> None:
    jobs = python("open('good', 'w')")
    run_there(host, jobs)
    subprocess.run([sys.executable, "-c", KILLED, str(host.back)], check=False)
    assert [p.read_bytes() for p in host.back.glob(".*.part")] == [b"half of it"]
    assert collect(host, jobs) == Missing()
    assert list(host.back.glob(".*.part")) == []


# the journal


def test_a_damaged_journal_costs_the_verdicts_and_no_file(host: LocalHost) -> None:
    jobs = python("open('good', 'w').write('x')")
    run_there(host, jobs)
    journal = host.workdir / "runs/run-1/journal.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b'"command_started"', b'"comm\xffnd_started"'))
    told: list[str] = []
    missing = host.link().bring_back(
        "run-1", host.back, jobs, lambda event: told.append(event["event"])
    )
    assert missing == Missing()
    assert told == [
        "run_started",
        "stage_started",
        "note",
        "command_ended",
        "stage_ended",
        "finished",
    ]
    assert came(host) == {"good"}
    with pytest.raises(ProtocolError):
        read_journal(host.back / "journal.jsonl", jobs, "run-1")


@pytest.mark.parametrize("become", ["pipe", "link", "folder", "nothing"])
def test_a_journal_that_is_no_file_any_more_costs_no_file(host: LocalHost, become: str) -> None:
    jobs = python("open('good', 'w').write('x')")
    run_there(host, jobs)
    journal = host.workdir / "runs/run-1/journal.jsonl"
    journal.unlink()
    if become == "pipe":
        os.mkfifo(journal)
    elif become == "link":
        journal.symlink_to("/etc/passwd")
    elif become == "folder":
        journal.mkdir()
    assert host.link().bring_back("run-1", host.back, jobs, lambda _: None) == Missing()
    assert came(host) == {"good"}
    assert not (host.back / "journal.jsonl").exists()


def test_a_run_that_is_being_started_is_not_taken_for_one_that_never_was(host: LocalHost) -> None:
    """Its client is gone, and the agent that starts it still unpacks what it needs."""
    link = host.link()
    (host.workdir / "runs/run-1").mkdir()
    lock = os.open(host.workdir / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, b"run-1")
    with pytest.raises(HostRefused) as error:
        link.bring_back("run-1", host.back, [], lambda _: None)
    assert error.value.message == "host: run run-1 is being started"
    os.close(lock)
    missing = link.bring_back("run-1", host.back, [], lambda _: None)
    assert missing.names[0].endswith("never started there, or pruned since")
    assert not missing.may_come


# many files


def test_many_files_come_in_one_stream(host: LocalHost) -> None:
    """One request for the list, one for all files: no round trip for each of them."""
    script = """
import os
for d in range(10):
    os.mkdir(str(d))
    for i in range(200):
        open(f"{d}/{i}", "w").write(str(i) * 50)
"""
    jobs = python(script)
    run_there(host, jobs)
    link = host.link()
    channel = host.opener.channels[-1]
    channel.written.clear()
    assert link.collect("run-1", host.back, jobs) == Missing()
    assert len(came(host)) == 2000
    assert [line.split(b",")[0] for line in channel.written] == [
        b'{"op": "manifest"',
        b'{"op": "fetch"',
    ]


@pytest.mark.parametrize(("then", "comes"), [(StageKind.CHECKSUM, True), (StageKind.TIMING, False)])
def test_results_of_a_stage_come_back_while_the_next_one_runs_unless_it_measures(
    host: LocalHost, then: StageKind, comes: bool
) -> None:
    """The second stage looks for the client's copy: both are on this machine."""
    copy = host.back / "stages/01-one/made"
    waits = f"i=0; while [ ! -e {copy} ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done"
    looks = f"{waits}; test -e {copy}" if comes else f"sleep 0.2; test ! -e {copy}"
    jobs = (
        job("one", shell("make", "echo first >made")),
        StageJob("two", then, (shell("look", f"echo second >made; {looks}"),)),
    )
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    assert link.bring_back("run-1", host.back, jobs, lambda _: None) == Missing()
    one, two = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    assert [c.exit_code for c in (*one.commands, *two.commands)] == [0, 0]
    assert copy.read_text() == "first\n"
    assert (host.back / "stages/02-two/made").read_text() == "second\n"


# what comes with the list of a run that is over


def follow_and_collect(host: LocalHost, script: str) -> tuple[Missing, list[bytes]]:
    """Bring a run back; return what is missing, and the operations that were asked for."""
    jobs = python(script)
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    missing = link.bring_back("run-1", host.back, jobs, lambda _: None)
    return missing, [line.split(b",")[0] for line in host.opener.channels[-1].written]


def test_small_files_come_with_the_end_of_the_run(host: LocalHost) -> None:
    """Nobody asks for them: a round trip less while the host is held."""
    missing, asked = follow_and_collect(host, "open('small', 'wb').write(bytes(range(256)) * 9)")
    assert missing == Missing()
    assert (host.back / STAGE / "small").read_bytes() == bytes(range(256)) * 9
    assert [op for op in asked if b"manifest" in op or b"fetch" in op] == []


def test_what_is_not_small_is_asked_for_alone(host: LocalHost) -> None:
    missing, _ = follow_and_collect(
        host, "open('small', 'w').write('few'); open('large', 'w').write('many ' * 20_000)"
    )
    assert missing == Missing()
    assert (host.back / STAGE / "small").read_text() == "few"
    assert (host.back / STAGE / "large").read_text() == "many " * 20_000
    (fetch,) = (line for line in host.opener.channels[-1].written if b'"fetch"' in line)
    assert [file["path"] for file in json.loads(fetch)["files"]] == [f"{STAGE}/large"]


def test_more_small_files_than_go_with_the_list_are_asked_for(host: LocalHost) -> None:
    missing, asked = follow_and_collect(
        host, "for n in range(20): open(f'{n}', 'w').write(f'{n:05}' * 6000)"
    )
    assert missing == Missing()
    assert {(host.back / STAGE / f"{n}").read_text() for n in range(20)} == {
        f"{n:05}" * 6000 for n in range(20)
    }
    assert asked.count(b'{"op": "fetch"') == 1


# what came, and is there no more


def test_what_a_program_removed_after_an_early_look_is_no_file_of_its_stage(
    host: LocalHost,
) -> None:
    """The same verdict, whether a client looked in between or not; a folder that is gone is not."""
    removes = "echo > early; echo > kept; touch ../../early-is-there; "
    removes += "until [ -e ../../go ]; do sleep 0.01; done; rm early"
    jobs = [job("smoke", shell("a", removes))]
    link, run = host.link(), host.workdir / "runs/run-1"
    link.launch("run-1", jobs, {}, stop_at_first=False)
    while not (run / "early-is-there").exists():
        pass
    assert collect(host, jobs) == Missing()
    assert came(host) == {"early", "kept"}
    (run / "go").touch()
    link.follow("run-1", lambda _: None, jobs)
    assert collect(host, jobs) == Missing()
    assert came(host) == {"kept"}
    shutil.rmtree(run / STAGE)
    collect(host, jobs)
    assert came(host) == {"kept"}
