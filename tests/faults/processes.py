"""The host's processes: killed, stopped, slowed down, gone after a reboot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from random import Random

from kernelrig.model import Outcome

from tests.e2e.project import Answer
from tests.faults.kind import Kind
from tests.faults.links import PHASES, bytes_into
from tests.faults.oracle import Expected
from tests.faults.site import STAGES, Site, processes_of

POINTS = ("before", "during", "after")
OPS = tuple(phase for phase in PHASES if phase != "connect")


def at_an_instant(site: Site, rng: Random, seed: int) -> None:
    """Stop the agent that serves the client at an operation of the seed's."""
    op = OPS[seed % len(OPS)]
    point = rng.choice(POINTS if op != "boot" else POINTS[:2])
    site.break_at(op, point, bytes_into(op, rng))


def serving_agent_killed(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    at_an_instant(site, rng, seed)
    with site.start_test() as call:
        agent = site.await_break(call)
        site.strike()
        os.kill(agent, signal.SIGKILL)
        site.go_on()
        return call.end(), Expected()


def serving_agent_stopped(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    at_an_instant(site, rng, seed)
    with site.start_test() as call:
        agent = site.await_break(call)
        site.strike()
        os.kill(agent, signal.SIGSTOP)
        site.go_on()
        time.sleep(rng.uniform(0.2, 8.0))  # the fault: stopped for so long
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGCONT)
        return call.end(), Expected()


def interrupted_in(stage: str) -> dict[str, Outcome]:
    """Return what becomes of the stages when the agent dies in one of them."""
    later = STAGES[STAGES.index(stage) + 1 :]
    return {stage: Outcome.ERROR, **dict.fromkeys(later, Outcome.SKIP)}


def daemon_killed(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        os.kill(site.daemon_pid(call.run_id), rng.choice((signal.SIGKILL, signal.SIGSEGV)))
        answer = call.end()
        return answer, Expected(exits=(4,), final=(4,), stages=interrupted_in(stage))


def daemon_stopped(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Stop the daemon for less than what counts as dead."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        daemon = site.daemon_pid(call.run_id)
        site.strike()
        os.kill(daemon, signal.SIGSTOP)
        site.release()
        time.sleep(rng.uniform(0.2, 6.0))  # the fault: stopped for so long
        os.kill(daemon, signal.SIGCONT)
        return call.end(), Expected()


def daemon_stopped_too_long(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Stop the daemon until it is given up; once it continues, `collect` has the whole run."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        daemon = site.daemon_pid(call.run_id)
        site.strike()
        os.kill(daemon, signal.SIGSTOP)
        answer = call.end()
        os.kill(daemon, signal.SIGCONT)
        site.release()
        return answer, Expected(exits=(6,), says="heartbeat")


def stage_killed(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Kill a stage: a crash is its own fault, a signal from outside is not."""
    stage = STAGES[seed % len(STAGES)]
    crashes = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
    number = rng.choice((signal.SIGKILL, signal.SIGTERM, *crashes))
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        os.kill(site.pids(stage)[-1], number)
        outcome, code = (Outcome.FAIL, 1) if number in crashes else (Outcome.ERROR, 4)
        stages = {stage: outcome, **({"three": Outcome.SKIP} if stage == "two" else {})}
        return call.end(), Expected(exits=(code,), final=(code,), stages=stages)


def stage_stopped(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        pid = site.pids(stage)[-1]
        site.strike()
        os.kill(pid, signal.SIGSTOP)
        site.release()
        time.sleep(rng.uniform(0.2, 4.0))  # the fault: stopped for so long
        os.kill(pid, signal.SIGCONT)
        return call.end(), Expected()


def reboot(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Kill all that runs for the run at once; what was on the disk stays, and sshd comes back."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        site.proxy.down = rng.choice(("reset", "silence"))
        client = call.process.pid
        for pid in processes_of(site.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if pid != client else 0)
        site.sshd.cut()
        if seed % 2:  # a pid is given again after a reboot: now it is another process's
            record = site.host_run(call.run_id) / "agent.json"
            entry = json.loads(record.read_bytes())
            record.write_text(json.dumps({**entry, "pid": site.sshd.process.pid}))
        time.sleep(rng.uniform(0.2, 3.0))  # the fault: away for so long
        site.proxy.down = None
        answer = call.end()
        return answer, Expected(exits=(4,), final=(4,), stages=interrupted_in(stage))


def sshd_restarted(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    at_an_instant(site, rng, seed)
    with site.start_test() as call:
        site.await_break(call)
        site.strike()
        site.stop_sshd()
        site.go_on()
        time.sleep(rng.uniform(0.0, 3.0))  # the fault: down for so long
        site.start_sshd()
        return call.end(), Expected()


def slow_host(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Stop everything on the host in bursts, as one that swaps heavily does."""
    with site.start_test() as call:
        site.strike()
        client = call.process.pid
        until = time.monotonic() + 6.0
        while time.monotonic() < until and call.process.poll() is None:
            stopped = [pid for pid in processes_of(site.folder) if pid != client]
            send_all(stopped, signal.SIGSTOP)
            time.sleep(rng.uniform(0.05, 0.7))
            send_all(stopped, signal.SIGCONT)
            time.sleep(rng.uniform(0.01, 0.2))
        return call.end(), Expected()


def send_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


KINDS = (
    Kind("serving agent killed", serving_agent_killed),
    Kind("serving agent stopped", serving_agent_stopped),
    Kind("daemon killed", daemon_killed),
    Kind("daemon stopped", daemon_stopped),
    Kind("daemon stopped too long", daemon_stopped_too_long, remote={"give_up_s": 8.0}),
    Kind("stage killed", stage_killed),
    Kind("stage stopped", stage_stopped),
    Kind("host rebooted", reboot, fast=3),
    Kind("sshd restarted", sshd_restarted, own_sshd=True),
    Kind("slow host", slow_host),
)
