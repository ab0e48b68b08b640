"""What a run needs is sent once and laid out; a job is started once, whatever its link does."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import RemoteError
from kernelrig.files.rundir import sha256_file
from kernelrig.remote.archive import agent_archive
from kernelrig.remote.host_link import connect_host
from kernelrig.remote.job import TimeLimit
from kernelrig.remote.protocol import AgentSession, HostRefused
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import (
    LocalHost,
    age,
    job,
    shell,
)

ARCHIVE_BYTES = len(agent_archive())


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
