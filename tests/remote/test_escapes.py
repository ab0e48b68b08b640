"""Programs that try to outlive their command, or to take what the agent needs: none succeeds."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import CommandResult, EndedBy

from tests.remote.local_host import LocalHost, is_running, job, shell

# A process that is gone when its name is read: it forks, exits and goes on in its child, in a
# session of its own and without the run's marker. It stops by itself after 20 s.
HOPPER = """
#include <time.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
  if (count == 1) {
    char *const next[] = {words[0], (char *)"on", 0}, *const none[] = {0};
    if (fork() == 0)
      return execve(words[0], next, none);
    return 0;
  }
  const time_t end = time(0) + 20;
  while (time(0) < end) {
    setsid();
    if (fork())
      _exit(0);
  }
}
"""


def only(results: tuple[CommandResult, ...]) -> CommandResult:
    assert len(results) == 1
    return results[0]


def processes(name: str) -> list[str]:
    """Return the processes of this machine whose program has that name, of many looks."""
    found = []
    for _ in range(50):
        for comm in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                found += [comm.parent.name] if comm.read_text().strip() == name else []
    return found


def test_a_process_that_forks_and_exits_all_the_time_is_ended(host: LocalHost) -> None:
    source, name = host.file("hopper.c", HOPPER), f"hops{os.getpid()}"
    subprocess.run(["gcc", "-O2", "-o", host.folder / name, source], check=True)
    hopper = replace(shell("hopper", ""), argv=(str(host.folder / name),))
    (one, two), _ = host.run([job("one", hopper), job("two", shell("b", ":"))])
    assert (only(one.commands).exit_code, one.changed) == (0, "")
    assert only(two.commands).exit_code == 0
    assert processes(name) == []


def test_a_program_that_ends_its_agent_is_an_error_and_leaves_nothing(host: LocalHost) -> None:
    noted = "until grep -q command_started ../../journal.jsonl; do sleep 0.01; done"
    script = f"{noted}; sleep 1000 & echo $! > pid; kill -KILL $PPID; sleep 1000"
    (one, two), events = host.run([job("one", shell("a", script)), job("two", shell("b", ":"))])
    assert only(one.commands).ended_by is EndedBy.LOST
    assert two.not_run == "the agent on the host was lost before it ran this"
    assert events[-1]["event"] == "agent_lost"
    assert not is_running(int((host.back / "stages/01-one/pid").read_text()))
    (again,), _ = host.run([job("one", shell("a", ":"))], run_id="run-2")
    assert only(again.commands).exit_code == 0


def test_a_disk_without_inodes_ends_the_run(host: LocalHost) -> None:
    host.workdir.mkdir()
    options = ["-t", "tmpfs", "-o", "size=50m,nr_inodes=300", "tmpfs", str(host.workdir)]
    if subprocess.run(["mount", *options], check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        fill = "i=0; while touch file$i 2> why; do i=$((i + 1)); done; exit 1"
        (one, two), events = host.run(
            [job("one", shell("fill", fill)), job("two", shell("b", ":"))]
        )
    finally:
        host.close()
        subprocess.run(["umount", "--lazy", str(host.workdir)], check=True)
    assert only(one.commands).ended_by is EndedBy.DISK_FULL
    assert two.not_run.startswith("the disk is full: ")
    assert events[-1]["event"] == "finished"


def test_a_file_that_lies_where_a_dump_pipe_is_expected_is_not_written(host: LocalHost) -> None:
    target = host.file("elsewhere", "kept\n")
    script = f"ln -s {target} hang.pipe_1; touch hang.pipe_2; mkdir hang.pipe_3; sleep 1000"
    hang = replace(shell("hang", script, 0.3), core_dump=True)
    (one,), _ = host.run([job("one", hang)])
    assert only(one.commands).ended_by is EndedBy.TIME_LIMIT
    assert "the program opened no dump pipe" in only(one.commands).detail
    assert target.read_text() == "kept\n"
    assert Path(host.back / "stages/01-one/hang.stdout.log").is_file()
