"""The link: cut before, during and after each phase, silent, down for a while, slow and lossy."""

from __future__ import annotations

import time
from random import Random

from tests.e2e.project import Answer
from tests.faults.kind import Inject, Kind
from tests.faults.oracle import Expected
from tests.faults.proxy import Cut, Weather
from tests.faults.site import STAGES, Site

PHASES = (
    "put", "connect", "boot", "hello", "facts", "need", "launch", "follow", "manifest", "fetch",
)  # fmt: skip
"""From the first connection to the last file; a seed is one of them."""
REPLY_BYTES = {"boot": 20_000, "put": 10_000, "follow": 1000, "manifest": 300, "fetch": 100_000}
"""How far into an operation a link is cut at the most: its payload or reply is longer."""
HANDSHAKE_BYTES = {"before": (0, 1), "during": (1, 900), "after": (900, 3000)}
"""Versions and key exchange come first, the login follows."""


def bytes_into(op: str, rng: Random) -> int:
    return rng.randrange(1, REPLY_BYTES.get(op, 8))


def cut(how: Cut, point: str) -> Inject:
    """Cut the link at `point` of the seed's phase; the next connection is a good one."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        phase = PHASES[seed % len(PHASES)]
        if phase == "connect":
            site.proxy.first = (rng.randrange(*HANDSHAKE_BYTES[point]), how)
            site.proxy.on_first = site.strike
            with site.start_test() as call:
                return call.end(), Expected()
        # After its start is before its first request.
        at = "before" if (phase, point) == ("boot", "after") else point
        site.break_at(phase, at, bytes_into(phase, rng))
        with site.start_test() as call:
            site.await_break(call)
            site.strike()
            site.proxy.cut(how)
            site.go_on()
            return call.end(), Expected()

    return inject


def down(how: Cut) -> Inject:
    """Take the link down for some seconds: what is open is cut, and nothing new comes through."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        phase = PHASES[seed % len(PHASES)]
        op = "hello" if phase == "connect" else phase
        site.break_at(op, "before")
        with site.start_test() as call:
            site.await_break(call)
            site.strike()
            site.proxy.down = how
            site.proxy.cut(how)
            site.go_on()
            time.sleep(rng.uniform(0.5, 4.0))  # this is the fault: an outage of so long
            site.proxy.down = None
            return call.end(), Expected()

    return inject


def down_too_long(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Take the link down until the client gives up; `collect` has it again."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        how: Cut = "reset" if rng.random() < 0.5 else "close"
        site.proxy.down = how
        site.proxy.cut(how)
        answer = call.end()
        site.proxy.down = None
        site.release()
        return answer, Expected(exits=(6,))


def slow_and_lossy(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    site.proxy.weather = Weather(0.15, rng.uniform(0.0, 0.05), rng)
    site.strike()
    with site.start_test() as call:
        answer = call.end()
    site.proxy.weather = Weather()
    return answer, Expected()


def stalls(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Hold every byte back for a while, again and again, less than what counts as silence."""
    site.proxy.weather = Weather(0.01, 0.3, rng)
    site.strike()
    with site.start_test() as call:
        answer = call.end()
    site.proxy.weather = Weather()
    return answer, Expected()


FAST = {("close", "after"): 6}
HOWS: tuple[Cut, ...] = ("reset", "close", "silence")
KINDS = (
    *(
        Kind(f"link {how} {point}", cut(how, point), fast=FAST.get((how, point)))
        for how in HOWS
        for point in ("before", "during", "after")
    ),
    Kind("link down, refused", down("reset")),
    Kind("link down, silent", down("silence")),
    Kind("link down too long", down_too_long, remote={"give_up_s": 4.0}),
    Kind("latency 300 ms with loss", slow_and_lossy),
    Kind("link stalls", stalls),
)
