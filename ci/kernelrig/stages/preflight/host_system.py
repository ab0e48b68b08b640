"""Whether the host's system runs the builds: instruction set, glibc, Python, disk, clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelrig.model import (
    Build,
    Check,
    Host,
    Plan,
    RecordedRemote,
    Verdict,
    broken,
    passed,
    skipped,
)

MIN_PYTHON = (3, 9)
MACHINE = "x86_64"
MIN_FREE_BYTES = 1 << 30
"""Besides the largest stage's own disk limit: blobs, logs, a core dump."""
DIGITS = 9
"""More than any number of a version of Python, glibc or a driver has."""
CLOCK_S = 30.0
"""A clock that differs by more makes the times in a journal misleading; no verdict rests on it."""


def system_checks(
    builds: Sequence[Build], host: Host, remote: RecordedRemote, plan: Plan
) -> Iterator[Check]:
    """Judge what every program needs of the host, with a GPU or without."""
    yield Check("python", _python(host))
    yield Check("glibc", _glibc(builds, host))
    yield Check("disk", _disk(plan, host, remote))


def judge_clock(host: Host) -> Check:
    """Judge whether the times in the logs of the host are those of ours."""
    ahead = host.clock_ahead_s
    if ahead is None:
        return Check("clock", skipped(f"the clock of {host.hostname} was not compared"))
    if abs(ahead) <= CLOCK_S:
        return Check("clock", passed(f"the clock is within {CLOCK_S:.0f} s of ours"))
    way = "ahead of" if ahead > 0 else "behind"
    return Check(
        "clock",
        passed(f"the clock of {host.hostname} is {abs(ahead):.0f} s {way} ours"),
        warning="set it, or read the times of its logs with care",
    )


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `580.159.04` gives (580, 159, 4).

    It is () without a number, and for one that no version has: it would be newer than any.
    """
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        if len(digits) > DIGITS:
            return ()
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _python(host: Host) -> Verdict:
    found = version_tuple(host.python)
    if not found:
        return broken(
            f"no python3 on {host.hostname}: the agent needs 3.9 or newer; install it there"
        )
    if found < MIN_PYTHON:
        return broken(
            f"python {host.python} on {host.hostname}, the agent needs 3.9 or newer;"
            " name a newer one as `python` in remotes.yaml"
        )
    return passed(f"python {host.python}")


def judge_machine(host: Host) -> Iterator[Check]:
    """Judge the instruction set; records of before it was probed do not say."""
    if host.machine == MACHINE:
        yield Check("instruction set", passed(host.machine))
    elif host.machine:
        yield Check(
            "instruction set",
            broken(
                f"{host.hostname} is {host.machine}, and the programs are built for {MACHINE};"
                " choose another remote"
            ),
        )


def _glibc(builds: Sequence[Build], host: Host) -> Verdict:
    if not builds:
        return skipped(f"glibc {host.glibc or 'not known'}; no build is here to compare it with")
    needed = max((b.glibc for b in builds), key=version_tuple)
    if not version_tuple(needed):
        return passed("the builds need no glibc symbol version")
    found = version_tuple(host.glibc)
    if not found:
        return broken(f"the glibc of {host.hostname} is not known, the build needs {needed}")
    if found < version_tuple(needed):
        return broken(
            f"glibc {host.glibc} on {host.hostname}, the build needs {needed};"
            " build on an older distribution, or rent a newer image"
        )
    return passed(f"glibc {host.glibc}, needed {needed}")


def _disk(plan: Plan, host: Host, remote: RecordedRemote) -> Verdict:
    needed = max((s.disk_mb << 20 for s in plan.on_host), default=0) + MIN_FREE_BYTES
    if host.free_bytes < needed:
        return broken(
            f"{host.free_bytes / 1e9:.1f} GB free in the workdir of {remote.name},"
            f" {needed / 1e9:.1f} GB needed;"
            f" run `invoke clean --remote {remote.name}`, or name another `workdir` in remotes.yaml"
        )
    return passed(f"{host.free_bytes / 1e9:.1f} GB free in the workdir")
