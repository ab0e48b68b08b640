"""Disks that become full: the host's and the client's, of bytes and of files, at each phase."""

from __future__ import annotations

from random import Random

from tests.e2e.project import Answer
from tests.faults.kind import Inject, Kind
from tests.faults.links import bytes_into
from tests.faults.oracle import Expected
from tests.faults.site import DISK, STAGES, Site

INSTANTS = (
    ("stage", "two"),
    ("need", "before"),
    ("put", "during"),
    ("launch", "before"),
    ("launch", "after"),
    ("stage", "one"),
    ("stage", "four"),
    ("manifest", "before"),
    ("fetch", "before"),
    ("fetch", "during"),
)
AFTER = ("manifest", "fetch")
"""Operations that come after the last stage."""


def full(where: str, what: str) -> Inject:
    """Let a disk have no room for another byte, or file, from the seed's instant on."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        op, point = INSTANTS[seed % len(INSTANTS)]
        launched = op in ("stage", *AFTER) or (op, point) == ("launch", "after")
        left = rng.choice((0, 0, 4 << 10, 64 << 10)) if launched else 0
        site.hold(point) if op == "stage" else site.break_at(op, point, bytes_into(op, rng))
        disk = site.disks[where]
        with site.start_test() as call:
            site.await_stage(call, point) if op == "stage" else site.await_break(call)
            site.strike()
            if what == "bytes":
                disk.leave_free(size=left)
            else:
                disk.leave_free(inodes=rng.randrange(2) if launched else 0)
            site.release() if op == "stage" else site.go_on()
            answer = call.end()
        if where == "host":
            return answer, on_the_host(site, op, launched=launched)
        disk.mount(DISK)  # the person who reads the sentence makes room
        if launched or op == "launch":
            return answer, Expected(exits=(0, 6), final=(0,))
        return answer, Expected(exits=(4,), final=(4,), runs=False)

    return inject


def on_the_host(site: Site, op: str, *, launched: bool) -> Expected:
    """Return what is expected of a host without room: what was executed by then comes back."""

    def heal() -> None:
        site.disks["host"].mount(DISK)

    if op in AFTER:
        return Expected(heal=heal)
    if not launched:
        return Expected(exits=(4,), final=(4,), runs=False, says="free", heal=heal)
    return Expected(exits=(0, 4), final=(0, 4), stages=None, heal=heal)


def fills(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Let a stage itself fill the host's disk, which is small by then."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage, "dd if=/dev/zero of=ballast bs=65536 2>/dev/null", "exit 1")
    disk = site.disks["host"]
    with site.start_test() as call:
        site.await_stage(call, stage)
        disk.leave_free(size=rng.randrange(3 << 20, 6 << 20))
        site.strike()
        site.release()
        answer = call.end()
    return answer, Expected(
        exits=(4,), final=(4,), stages=None, says="the disk is full", heal=lambda: disk.mount(DISK)
    )


KINDS = (
    Kind("host disk full", full("host", "bytes"), fast=0, disks=("host",)),
    Kind("host out of inodes", full("host", "inodes"), disks=("host",)),
    Kind("host disk filled by a stage", fills, disks=("host",)),
    Kind("client disk full", full("client", "bytes"), disks=("client",)),
    Kind("client out of inodes", full("client", "inodes"), disks=("client",)),
)
