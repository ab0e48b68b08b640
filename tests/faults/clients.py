"""The client: killed, interrupted and stopped at any instant; several of them on one host."""

from __future__ import annotations

import signal
import time
from random import Random

from tests.e2e.host import await_that
from tests.e2e.project import Answer
from tests.faults.kind import Inject, Kind
from tests.faults.links import bytes_into
from tests.faults.oracle import Expected
from tests.faults.site import STAGES, Site

INSTANTS = (
    ("stage", "two"),
    ("hello", "before"),
    ("put", "during"),
    ("launch", "before"),
    ("launch", "after"),
    ("follow", "during"),
    ("stage", "four"),
    ("manifest", "after"),
    ("fetch", "during"),
    ("fetch", "before"),
)
LAUNCHED = ("stage", "launch", "follow", "manifest", "fetch")


def ended_by(number: int) -> Inject:
    """Send the client a signal at the seed's instant."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        op, point = INSTANTS[seed % len(INSTANTS)]
        site.hold(point) if op == "stage" else site.break_at(op, point, bytes_into(op, rng))
        with site.start_test() as call:
            site.await_stage(call, point) if op == "stage" else site.await_break(call)
            site.strike()
            call.signal(number)
            answer = call.end()
            site.release() if op == "stage" else site.go_on()
        if op == "launch":  # its request has come, whoever waits for the answer
            await_that((site.host_run(call.run_id) / "journal.jsonl").exists, "the run starts")
        launched = op in LAUNCHED
        exits = (-number,) if number == signal.SIGKILL else (6,)
        # Where nothing was launched there is nothing to collect.
        final = (0,) if launched else (4, 6)
        return answer, Expected(exits=exits, final=final, runs=launched)

    return inject


def stopped(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    op, point = INSTANTS[seed % len(INSTANTS)]
    site.hold(point) if op == "stage" else site.break_at(op, point, bytes_into(op, rng))
    with site.start_test() as call:
        site.await_stage(call, point) if op == "stage" else site.await_break(call)
        site.strike()
        call.signal(signal.SIGSTOP)
        site.release() if op == "stage" else site.go_on()
        time.sleep(rng.uniform(0.2, 8.0))  # the fault: stopped for so long
        call.signal(signal.SIGCONT)
        return call.end(), Expected()


def several(count: int) -> Inject:
    """Start clients at once: one has the host, the others are refused and try again."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        stage = STAGES[seed % len(STAGES)]
        site.hold(stage)
        first = site.start_test()
        site.await_stage(first, stage)
        site.strike()
        answers = [call.end() for call in [site.start_test() for _ in range(count - 1)]]
        for answer in answers:
            assert answer.exit_code == 4, answer.stderr
            assert f"run {first.run_id} is using this host" in answer.stderr, answer.stderr
        site.release()
        last = first.end()
        for _ in answers:
            with site.start_test() as again:
                assert again.end().exit_code == 0, again.heard
        return last, Expected()

    return inject


def two_collects(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Kill the client, and let two others collect its run at the same time."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        call.signal(signal.SIGKILL)
        answer = call.end()
    both = [site.start("collect", call.run_id) for _ in range(2)]
    time.sleep(rng.uniform(0.0, 1.5))
    site.release()
    ended = [collect.end() for collect in both]
    assert [e.exit_code for e in ended] == [0, 0], [e.stderr for e in ended]
    return answer, Expected(exits=(-signal.SIGKILL,))


KINDS = (
    Kind("client killed", ended_by(signal.SIGKILL), fast=4),
    Kind("client SIGTERM", ended_by(signal.SIGTERM)),
    Kind("client SIGHUP", ended_by(signal.SIGHUP)),
    Kind("client Ctrl-C", ended_by(signal.SIGINT)),
    Kind("client stopped", stopped),
    Kind("two clients", several(2)),
    Kind("five clients", several(5)),
    Kind("two collects at once", two_collects),
)
