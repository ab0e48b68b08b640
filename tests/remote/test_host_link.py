"""A host is reached over links that drop; nothing is sent twice, nothing that came back is lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import IncompleteError, ProtocolError, RemoteError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import EndedBy, Tool
from kernelrig.remote.archive import agent_archive
from kernelrig.remote.host_link import connect_host
from kernelrig.remote.job import TimeLimit
from kernelrig.remote.journal import read_journal
from kernelrig.remote.protocol import AgentSession, HostRefused
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import (
    PYTHON,
    Event,
    LocalChannel,
    LocalHost,
    LocalOpener,
    is_running,
    job,
    shell,
)

ARCHIVE_BYTES = len(agent_archive())


# starting the agent


def test_a_host_without_python_is_one_sentence(host: LocalHost) -> None:
    remote = type(host.remote)("host", "sm_90a", python="python-of-nobody")
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message == "host: there is no 'python-of-nobody' on the host"
    assert error.value.hint == (
        "install python 3.9 or newer there, or set 'python' of this remote to one"
    )


def test_an_old_python_is_named_with_its_version(host: LocalHost) -> None:
    script = "import sys; sys.version_info = (3, 6, 8); exec(sys.argv.pop(1))"
    old = host.file(
        "old/python", f"#!/bin/sh\nshift 2\nexec {PYTHON} -c '{script}' \"$@\"\n", 0o755
    )
    remote = type(host.remote)("host", "sm_90a", python=str(old))
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message == "host: kernelrig needs python 3.9 or newer, this is 3.6"


def test_a_python_that_fails_otherwise_is_quoted(host: LocalHost) -> None:
    broken = host.file("broken/python", "#!/bin/sh\necho 'libz.so: not found' >&2; exit 1\n", 0o755)
    remote = type(host.remote)("host", "sm_90a", python=str(broken))
    with pytest.raises(ProtocolError) as error:
        connect_host(host.opener, remote)
    said = f"host: '{broken}' did not start the agent (exit 1): libz.so: not found"
    assert error.value.message == said


def test_a_python_that_cannot_be_executed_is_named(host: LocalHost) -> None:
    text = host.file("text/python", "#!/bin/sh\n", 0o644)
    remote = type(host.remote)("host", "sm_90a", python=str(text))
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message.startswith(f"host: '{text}' cannot be executed on the host: ")
    assert error.value.message.endswith("Permission denied")


def test_what_a_login_shell_prints_first_is_passed_over(host: LocalHost) -> None:
    host.opener.before = "echo 'Welcome to the host'; printf 'no newline'; "
    assert host.link().facts.free_bytes


def test_a_login_shell_that_never_stops_printing_is_named(host: LocalHost) -> None:
    host.opener.before = "yes; "
    with pytest.raises(ProtocolError) as error:
        host.link()
    assert "and the agent did not start" in error.value.message


def test_a_workdir_that_cannot_be_is_one_sentence(host: LocalHost) -> None:
    host.workdir.write_text("a file\n")
    with pytest.raises(RemoteError) as error:
        host.link()
    hint = "name another `workdir` for this remote"
    said = f"host: the workdir is no folder: a file is in its place; {hint}"
    assert error.value.message == said


# facts

SANITIZER_HELP = """
  -h [ --help ]                         Produce this help message.
  --check-bulk-copy arg (=yes)          Enables checks related to the PTX cp.async.bulk
  --error-exitcode arg                  When this is set, it is returned
"""
SMI = """
case "$1" in
*,compute_cap,*) echo "NVIDIA H200, GPU-a5bd4633, 580.159.04, 9.0, 00000000:00:06.0, 345, 3201,\
 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0" ;;
--query-compute-apps=*) echo "4711, /usr/bin/other, 1024" ;;
--version) echo "NVIDIA-SMI version  : 580.159.04" ;;
esac
"""


def test_the_facts_of_a_gpu_host_are_gathered(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    version = "echo 'Version 2025.3.1.0 (build 36400806) (public-release)'"
    helping = f"cat <<'END'{SANITIZER_HELP}END"
    host.on_path("compute-sanitizer", f'if [ "$1" = --help ]; then\n{helping}\nelse {version}; fi')
    facts = host.link().facts
    assert facts.driver == "580.159.04"
    (gpu,) = facts.gpus
    assert gpu["name"] == "NVIDIA H200"
    assert gpu["compute_cap"] == "9.0"
    assert gpu["memory.total"] == "143771"
    assert facts.gpu_processes == ("4711, other, 1024",)
    assert facts.tools["compute-sanitizer"] == Tool(
        str(host.folder / "here/tools/compute-sanitizer"),
        "2025.3.1.0",
        ("--check-bulk-copy", "--error-exitcode", "--help"),
    )
    assert facts.free_bytes > 0


def test_a_probe_that_fails_is_a_problem_not_a_crash(host: LocalHost) -> None:
    host.on_path("nvidia-smi", "echo 'Failed to initialize NVML: Unknown Error'; exit 9")
    facts = host.link().facts
    assert facts.gpus == ()
    assert (
        "nvidia-smi does not list the GPUs (exit 9): Failed to initialize NVML: Unknown Error"
        in facts.problems
    )


# shipping


def shipment(host: LocalHost, **contents: bytes) -> dict[str, Path]:
    paths = [host.file(name, content) for name, content in contents.items()]
    return {sha256_file(path): path for path in paths}


def test_a_second_ship_sends_nothing(host: LocalHost) -> None:
    files = shipment(host, a=b"a" * 1000, b=b"b" * 2000)
    first, second = host.link().ship(files), host.link().ship(files)
    assert (first.blobs, first.blobs_sent, first.bytes_sent) == (2, 2, 3000)
    assert (second.blobs, second.blobs_sent, second.bytes_sent) == (2, 0, 0)


def test_a_corrupted_blob_is_noticed_and_sent_again(host: LocalHost) -> None:
    files = shipment(host, a=b"a" * 1000, b=b"b" * 2000)
    host.link().ship(files)
    blob = host.workdir / "blobs" / sha256_file(host.folder / "here/a")
    blob.chmod(0o644)
    blob.write_bytes(b"A" * 1000)
    again = host.link().ship(files)
    assert (again.blobs_sent, again.bytes_sent, again.resent) == (1, 1000, 1)
    assert blob.read_bytes() == b"a" * 1000


def test_a_torn_transfer_goes_on_where_it_was(host: LocalHost) -> None:
    files = shipment(host, a=b"a" * 100_000, b=b"b" * 100_000)
    host.opener.writes = [ARCHIVE_BYTES + 150_000]
    shipped = host.link().ship(files)
    assert host.opener.opened == 2
    assert (shipped.blobs_sent, shipped.bytes_sent) == (1, 100_000)
    assert sorted(p.name for p in (host.workdir / "blobs").iterdir()) == sorted(files)


def test_a_file_that_is_not_what_was_announced_is_refused(host: LocalHost) -> None:
    path = host.file("a", b"changed since")
    with pytest.raises(RemoteError) as error:
        host.link().ship({"0" * 64: path})
    assert error.value.message == "a: arrived with another SHA-256 than announced"
    assert list((host.workdir / "blobs").iterdir()) == []


def test_a_disk_without_room_for_the_workdir_is_one_sentence(small_host: LocalHost) -> None:
    disk = small_host.workdir
    subprocess.run(["mount", "-o", "remount,nr_inodes=2", disk], check=True)
    remote = replace(small_host.remote, workdir=str(disk / "new" / "kernelrig"))
    with pytest.raises(HostRefused) as error:
        connect_host(small_host.opener, remote)
    said = "host: the disk is full: no inode free under the workdir"
    assert error.value.message == said


def test_what_does_not_fit_is_refused_before_it_travels(small_host: LocalHost) -> None:
    path = small_host.file("a", bytes(8_000_000))
    with pytest.raises(HostRefused) as error:
        small_host.link().ship({"0" * 64: path})
    assert error.value.message.startswith("host: 8000000 bytes to ship, but only ")
    assert error.value.hint == "free space there, or run `invoke clean --remote host`"


def test_a_disk_that_fills_while_blobs_arrive_is_named_and_left_clean(
    small_host: LocalHost,
) -> None:
    """Other programs fill disks too: the check beforehand is not enough."""
    with AgentSession(small_host.opener, small_host.remote) as session:
        session.ask({"op": "hello", "workdir": str(small_host.workdir)})
        put = {"op": "put", "blobs": [{"sha256": "0" * 64, "bytes": 8_000_000}]}
        with pytest.raises(HostRefused) as error:
            session.ask(put, [bytes(8_000_000)])
        assert error.value.message.startswith("host: the disk is full: ")
        assert list((small_host.workdir / "blobs").iterdir()) == []
        assert session.ask({"op": "need", "blobs": {}})["missing"] == []


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(1 << 12)):
            pass


def test_a_host_whose_disk_is_full_is_still_reached_collected_and_cleaned(
    small_host: LocalHost,
) -> None:
    """The agent needs no room of its own: it is what makes some."""
    jobs = [job("smoke", shell("a", "echo kept"))]
    small_host.run(jobs)
    fill(small_host.workdir)
    again = small_host.folder / "again"
    link = small_host.link()
    assert link.collect("run-1", again, jobs) == Missing()
    assert (again / "stages/01-smoke/a.stdout.log").read_text() == "kept\n"
    with pytest.raises(HostRefused) as error:
        link.launch("run-2", [job("smoke")], {}, stop_at_first=False)
    assert error.value.message.startswith("host: the disk is full: ")
    age(small_host.workdir, 10)
    assert link.clean(5) > 100_000


# launching


def test_files_are_laid_out_with_their_modes_and_archives_unpacked(host: LocalHost) -> None:
    program = host.file("program", "#!/bin/sh\necho ran\n", 0o755)
    archive = host.folder / "tool.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(program, "bin/tool")
    files = {"build/program": program, "data/plain": host.file("x", "1"), "tools/": archive}
    both = "../../build/program; ../../tools/bin/tool; test ! -x ../../data/plain"
    ((result,), _) = host.run([job("smoke", shell("both", both))], files=files)
    assert result.commands[0].exit_code == 0
    assert (host.back / "stages/01-smoke/both.stdout.log").read_text() == "ran\nran\n"


def test_launch_ships_what_is_not_there(host: LocalHost) -> None:
    link = host.link()
    program = host.file("program", "#!/bin/sh\n", 0o755)
    link.launch("run-1", [job("smoke")], {"build/program": program}, stop_at_first=False)
    assert (host.workdir / "runs/run-1/build/program").read_text() == "#!/bin/sh\n"


def test_a_launch_whose_answer_was_lost_runs_once(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "echo ran >> ../../../../ran"))]
    host.link().launch("run-1", jobs, {}, stop_at_first=False)
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    link.follow("run-1", lambda _: None, ())
    assert (host.workdir / "ran").read_text() == "ran\n"


def test_a_launch_meets_one_of_the_same_run_that_is_still_under_way(host: LocalHost) -> None:
    """As after a connection that dropped while tools were being unpacked."""
    link = host.link()
    failures: list[Exception] = []

    def launch() -> None:
        try:
            link.launch("run-1", [job("smoke")], {}, stop_at_first=False)
        except RemoteError as e:
            failures.append(e)

    second = threading.Thread(target=launch)
    with (host.workdir / "lock").open("w+") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        first.write("run-1")
        first.flush()
        second.start()
        second.join(0.5)
        assert second.is_alive(), failures
    second.join()
    assert failures == []
    link.follow("run-1", lambda _: None, ())


def test_a_run_at_its_limit_ends_after_its_stage_although_no_client_is_there(
    host: LocalHost,
) -> None:
    jobs = [job("first", shell("a", "sleep 1.2; echo whole")), job("second", shell("a", "true"))]
    link, events = host.link(), list[dict[str, object]]()
    link.launch("run-1", jobs, {}, stop_at_first=False, limit=TimeLimit(0.5, left_s=1.0))
    link.close()
    host.link().follow("run-1", events.append, jobs)
    why = "the run has reached its limit of 0.5 min on this host"
    (refused,) = (e for e in events if e["event"] == "stage_not_run")
    assert (refused["stage"], refused["reason"], events[-1]["reason"]) == ("second", why, why)
    log = host.workdir / "runs/run-1/stages/01-first/a.stdout.log"
    assert log.read_text() == "whole\n"


def test_a_host_that_nobody_uses_ends_itself_and_one_with_a_run_does_not(host: LocalHost) -> None:
    link, ended, over = host.link(), host.workdir / "ended", host.workdir / "over"
    link.launch(
        "run-1", [job("smoke", shell("a", f"sleep 1; touch {over}"))], {}, stop_at_first=False
    )
    link.watch_idle(["sh", "-c", f"test -e {over}; echo $? > {ended}"], 0.2)
    link.close()
    try:
        assert await_text(ended) == "0\n"  # after the run, whose last command made `over`
        log = (host.workdir / "idle.log").read_text()
        assert " idle: ['sh', '-c', " in log
    finally:
        (host.workdir / "idle.json").unlink()


def await_text(path: Path) -> str:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"never written: {path}"
        time.sleep(0.01)
    return path.read_text()


def test_a_run_id_is_never_used_for_another_job(host: LocalHost) -> None:
    host.run([job("smoke")])
    with pytest.raises(RemoteError) as error:
        host.link().launch("run-1", [job("timing")], {}, stop_at_first=False)
    assert error.value.message == "host: run run-1 is already on this host, with another job"


def test_one_run_a_host_at_a_time_and_the_refusal_names_it(host: LocalHost) -> None:
    link = host.link()
    link.launch("run-1", [job("smoke", shell("a", "sleep 1000"))], {}, stop_at_first=False)
    with pytest.raises(HostRefused) as error:
        host.link().launch("run-2", [job("smoke")], {}, stop_at_first=False)
    assert error.value.message.startswith("host: run run-1 is using this host since 20")
    assert not (host.workdir / "runs/run-2").exists()
    assert link.cancel("run-1") is True
    link.launch("run-2", [job("smoke")], {}, stop_at_first=False)
    link.follow("run-2", lambda _: None, ())
    link.launch("run-3", [job("smoke")], {}, stop_at_first=False)


# following


def test_a_follow_over_links_that_drop_tells_every_event_once(host: LocalHost) -> None:
    commands = [shell(f"c{i}", ":") for i in range(6)]
    link = host.link()
    link.launch("run-1", [job("smoke", *commands)], {}, stop_at_first=False)
    link.close()
    host.opener.reads = [700, 900, 1100]
    opened = host.opener.opened
    events: list[Event] = []
    link.follow("run-1", events.append, ())
    assert host.opener.opened == opened + 4
    ended = [e["command"] for e in events if e["event"] == "command_ended"]
    assert ended == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert [e["event"] for e in events].count("finished") == 1


class GoneOpener(LocalOpener):
    """A host that can no longer be reached once `gone` is set."""

    gone = False

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> LocalChannel:
        if self.gone:
            raise LinkLost("host: connection refused")
        return super().open(argv, first=first)


class ClosedOpener(LocalOpener):
    """A host that lets us in for one link, and shows another host key from then on."""

    asked = 0

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> LocalChannel:
        self.asked += 1
        if self.asked > 1:
            raise RemoteError(
                "the host key of host changed", "this may be a man-in-the-middle attack"
            )
        return super().open(argv, first=first)


def test_a_link_that_is_refused_is_not_asked_for_again(host: LocalHost) -> None:
    host.opener = opener = ClosedOpener()
    link = host.link(give_up_s=1000.0)
    opener.channels[-1].process.kill()
    with pytest.raises(RemoteError) as error:
        link.ship({})
    assert error.value.message == "the host key of host changed"
    assert error.value.hint == "this may be a man-in-the-middle attack"
    assert opener.asked == 2


def test_a_python_that_is_gone_when_the_link_comes_back_is_told_at_once(host: LocalHost) -> None:
    link = host.link(give_up_s=1000.0)
    host.opener.before = "exit 127; "
    host.opener.channels[-1].process.kill()
    with pytest.raises(RemoteError) as error:
        link.ship({})
    assert error.value.message == f"host: there is no '{PYTHON}' on the host"
    assert host.opener.opened == 2


def test_a_link_that_stays_away_ends_in_the_command_that_goes_on(host: LocalHost) -> None:
    host.opener = opener = GoneOpener()
    link = host.link(give_up_s=0.05)
    link.launch("run-1", [job("smoke", shell("a", "sleep 1000"))], {}, stop_at_first=False)

    def leave(event: Event) -> None:
        if event["event"] == "command_started":
            opener.gone = True
            opener.channels[-1].process.kill()

    with pytest.raises(IncompleteError) as error:
        link.follow("run-1", leave, ())
    assert error.value.exit_code == 6
    opener.gone = False
    assert host.link().cancel("run-1") is True


def test_a_client_that_vanishes_loses_nothing(host: LocalHost) -> None:
    """The command ends only after the first link is gone; a second link brings everything."""
    wait = shell("a", "while [ ! -e ../../go ]; do sleep 0.01; done; echo done")
    jobs = [job("one", wait), job("two", shell("b", "exit 3"))]
    first = host.link()
    first.launch("run-1", jobs, {}, stop_at_first=False)
    first.close()
    (host.workdir / "runs/run-1/go").touch()
    second = host.link()
    second.follow("run-1", lambda _: None, ())
    assert second.collect("run-1", host.back, jobs) == Missing()
    one, _ = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    assert one.commands[0].ended_by is EndedBy.EXIT
    assert (host.back / "stages/01-one/a.stdout.log").read_text() == "done\n"


def test_an_unknown_run_is_named(host: LocalHost) -> None:
    with pytest.raises(RemoteError) as error:
        host.link().collect("run-9", host.back, [])
    assert error.value.message == "host: run run-9 is not under the workdir"


# collecting


def stamps(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*.log")}


def test_a_second_collect_brings_only_what_is_missing_or_altered(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "echo one"), shell("b", "echo two"))]
    host.run(jobs)
    folder = host.back / "stages/01-smoke"
    (folder / "a.stdout.log").unlink()
    (folder / "b.stderr.log").write_text("altered\n")
    before = stamps(folder)
    assert host.link().collect("run-1", host.back, jobs) == Missing()
    after = stamps(folder)
    assert {name for name in after if after[name] != before.get(name)} == {
        "a.stdout.log",
        "b.stderr.log",
    }
    assert (folder / "a.stdout.log").read_text() == "one\n"


def test_a_collect_over_a_link_that_drops_goes_on_with_the_next_file(host: LocalHost) -> None:
    script = "for i in 1 2 3 4; do head -c 50000 /dev/zero > $i; done"
    jobs = [job("smoke", shell("a", script))]
    host.run(jobs)
    again = host.folder / "again"
    host.opener.reads = [120_000]
    opened = host.opener.opened
    assert host.link().collect("run-1", again, jobs) == Missing()
    assert host.opener.opened == opened + 2
    assert [(again / f"stages/01-smoke/{i}").stat().st_size for i in range(1, 5)] == [50_000] * 4
    assert list(again.rglob("*.part")) == []


def test_a_run_that_is_still_going_can_be_collected_as_far_as_it_is(host: LocalHost) -> None:
    link = host.link()
    grow = shell("a", "echo begun; while :; do echo more; done", 60.0)
    jobs = [job("smoke", grow, output_bytes=1 << 40)]
    link.launch("run-1", jobs, {}, stop_at_first=False)
    log = host.workdir / "runs/run-1/stages/01-smoke/a.stdout.log"
    while not (log.is_file() and log.stat().st_size):
        os.sched_yield()
    assert link.collect("run-1", host.back, jobs) == Missing()
    assert link.cancel("run-1") is True
    assert (host.back / "stages/01-smoke/a.stdout.log").read_bytes().startswith(b"begun\nmore\n")


# cleaning


def age(folder: Path, days: float) -> None:
    then = time.time() - days * 86400
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)


def test_clean_removes_old_runs_and_blobs_that_no_kept_run_uses(host: LocalHost) -> None:
    old, new = host.file("old", b"o" * 100_000, 0o755), host.file("new", b"n" * 1000, 0o755)
    host.run([job("smoke")], run_id="run-1", files={"build/p": old})
    host.run([job("smoke")], run_id="run-2", files={"build/p": new})
    age(host.workdir, 10)
    age(host.workdir / "runs/run-2", 1)
    freed = host.link().clean(5)
    assert [p.name for p in (host.workdir / "runs").iterdir()] == ["run-2"]
    assert [p.name for p in (host.workdir / "blobs").iterdir()] == [sha256_file(new)]
    assert 100_000 <= freed < 1_000_000


def test_work_folders_of_single_gpus_are_listed_and_cleaned_and_no_link_is_followed(
    host: LocalHost, tmp_path: Path
) -> None:
    host.run([job("smoke")], run_id="run-1", files={"build/p": host.file("old", b"o", 0o755)})
    own, elsewhere = host.workdir / "gpus/GPU-1", tmp_path / "elsewhere"
    for name in ("runs", "blobs"):
        shutil.copytree(host.workdir / name, own / name)
        shutil.copytree(host.workdir / name, elsewhere / name)
    (own / "runs/run-1").rename(own / "runs/run-2")
    (host.workdir / "gpus/GPU-2").symlink_to(elsewhere)
    listed, count = host.link().runs(20)
    assert ({r.id for r in listed}, count) == ({"run-1", "run-2"}, 2)
    age(host.workdir, 10)
    age(elsewhere, 10)
    host.link().clean(5)
    left = [p.name for folder in ("runs", "blobs") for p in (own / folder).iterdir()]
    assert left == []
    assert (elsewhere / "runs/run-1").is_dir()


def test_clean_keeps_a_run_that_has_just_ended_for_whoever_collects_it(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "echo ran >> ../../../../ran"))]
    first = host.link()
    first.launch("run-1", jobs, {}, stop_at_first=False)
    first.follow("run-1", lambda _: None, ())
    assert first.clean(0) == 0
    # The reply to the launch was lost with its connection: the client asks again.
    host.link().launch("run-1", jobs, {}, stop_at_first=False)
    assert (host.workdir / "ran").read_text() == "ran\n"


def test_clean_leaves_a_run_that_goes_on_alone(host: LocalHost) -> None:
    link = host.link()
    link.launch("run-1", [job("smoke", shell("a", "sleep 1000"))], {}, stop_at_first=False)
    age(host.workdir, 10)
    link.clean(0)
    assert (host.workdir / "runs/run-1/job.json").is_file()
    pids: list[int] = []

    def stop(event: Event) -> None:
        if event["event"] == "command_started":
            pids.append(event["pid"])
            assert host.link().cancel("run-1") is True

    link.follow("run-1", stop, ())
    assert [is_running(pid) for pid in pids] == [False]
