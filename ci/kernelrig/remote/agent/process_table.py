"""The processes of this machine as /proc lists them, and how to end them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

RUN_VARIABLE = "KERNELRIG_RUN"
WORKDIR_VARIABLE = "KERNELRIG_WORKDIR"
STAGE_VARIABLE = "KERNELRIG_STAGE"
MARKERS = (RUN_VARIABLE, WORKDIR_VARIABLE, STAGE_VARIABLE)
PROC_BYTES = 64 << 10
POLL_S = 0.05
GRACE_S = 2.0  # between TERM and KILL
CHASE_S = 0.02
KILL_WAIT_S = 10.0  # a process in a driver call may take this long to die, or never


def all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def read_file(path: str) -> bytes:
    """Return a file of /proc; so often that pathlib and buffers would take most of the time."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = chunk = os.read(file, PROC_BYTES)
        while chunk:
            chunk = os.read(file, PROC_BYTES)
            data += chunk
    finally:
        os.close(file)
    return data


def process_stat(pid: int) -> tuple[str, int, int] | None:
    """Return (state, parent, start time in ticks since boot), None for no such process."""
    try:
        text = read_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[1]), int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process is alive: pids are reused, pid and start time are unique."""
    stat = process_stat(pid)
    return stat is not None and stat[0] not in "ZX" and stat[2] == start


@contextlib.contextmanager
def opened_process(pid: int) -> Iterator[list[int]]:
    """Yield a descriptor that is readable once the process has ended; none where there is no such.

    To sleep and look again would cost each command half the time between two looks.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # Linux before 5.3, a sandbox, or it has ended
        yield []
        return
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)


def marker(run: Path, stage: str = "") -> dict[str, str]:
    """Return the environment variables that mark every process of a run of this workdir.

    Those of a stage beside which others run are marked by its name, too.
    """
    own = {STAGE_VARIABLE: stage} if stage else {}
    return {RUN_VARIABLE: run.name, WORKDIR_VARIABLE: str(run.parents[1].resolve()), **own}


def marks(workdir: Path, stage: str = "") -> dict[int, str]:
    """Return pid -> run id of every readable process that belongs to a run of this workdir.

    With `stage` it is those alone that are marked by its name.
    """
    ours = os.fsencode(f"{WORKDIR_VARIABLE}={workdir.resolve()}")
    needed = {ours, *([os.fsencode(f"{STAGE_VARIABLE}={stage}")] if stage else [])}
    wanted = f"{RUN_VARIABLE}=".encode()
    own = os.getpid()
    found = {}
    for pid in all_pids():
        with contextlib.suppress(OSError):
            text = read_file(f"/proc/{pid}/environ")
            words = text.split(b"\0") if ours in text and pid != own else []
            for word in words if needed.issubset(words) else ():
                if word.startswith(wanted):
                    found[pid] = word[len(wanted) :].decode(errors="replace")
    return found


def descendants(root: int) -> set[int]:
    """Return the pids of all live children of `root`, and of theirs."""
    if listed_children(root) == []:  # all others need not be looked at
        return set()
    stats = {pid: process_stat(pid) for pid in all_pids()}
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        if stat is not None and stat[0] not in "ZX":
            children.setdefault(stat[1], []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def listed_children(pid: int) -> list[int] | None:
    """Return the children of a process's main thread, which a kernel lists that has
    CONFIG_PROC_CHILDREN; None of another one. What ends meanwhile may hide others, never all.
    """
    try:
        return [int(word) for word in read_file(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return None


def signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def is_running(pid: int) -> bool:
    stat = process_stat(pid)
    return stat is not None and stat[0] not in "ZX"


def kill_all(find: Callable[[], Iterable[int]], beat: Callable[[], None]) -> tuple[set[int], bool]:
    """Kill what `find` returns until it returns nothing.

    Return which processes that were, and whether there are new ones to the end: a process that
    forks and exits all the time is gone when its listing is read. One that was sent KILL and stays,
    in a call of the driver, executes nothing of its own any more.
    """
    seen: set[int] = set()
    limit = time.monotonic() + KILL_WAIT_S
    while True:
        found = [pid for pid in find() if is_running(pid)]
        if not found or time.monotonic() > limit:
            return seen, not seen.issuperset(found)
        seen.update(found)
        for pid in found:
            kill_group(pid)
        beat()
        time.sleep(0.002)


def kill_group(pid: int) -> None:
    """Kill a process and its group: a fork under way in a group that is killed does not succeed."""
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgid(0):
            os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def kill_children() -> set[int]:
    """Kill this process's children as fast as they can be listed, for CHASE_S; return which.

    The orphans of what forks and exits become children of the subreaper, which learns of them here
    hundreds of times faster than by reading /proc.
    """
    killed: set[int] = set()
    limit = time.monotonic() + CHASE_S
    while time.monotonic() < limit and (pids := listed_children(os.getpid())):
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    kill_group(pid)
                    killed.add(pid)
    return killed


def run_tool(argv: list[str], limit_s: float) -> tuple[int | None, str]:
    """Run a short tool; (None, why) if it cannot start or does not end in time."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as e:
        return None, f"{argv[0]} cannot be started: {e.strerror}"
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        signal_group(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        return None, f"{argv[0]} did not end within {limit_s:.0f} s"
    return process.returncode, output.decode(errors="replace")
