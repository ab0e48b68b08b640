"""How long a run may be silent, and go on, while it is followed."""

from __future__ import annotations

from kernelrig.remote.follow_deadline import FollowDeadline
from kernelrig.remote.protocol import Deadline

from tests.remote.local_host import job, shell

JOBS = (job("one", shell("a", ":", 100.0), shell("b", ":", 30.0)), job("two", shell("a", ":", 7.0)))
"""The commands' time limits."""


def after(*events: tuple[str, str, str], slack_s: float = 5.0) -> FollowDeadline:
    """Return the deadline after these events: kind, stage, command."""
    deadline = FollowDeadline("run-1", JOBS, slack_s)
    for kind, stage, command in events:
        deadline.heard({"event": kind, "stage": stage, "command": command})
    return deadline


def quiet_s(deadline: FollowDeadline) -> str:
    text = deadline.next().overrun
    assert text.startswith("no event of run-1 for "), text
    return text.removeprefix("no event of run-1 for ").split()[0]


def whole_s(deadline: FollowDeadline) -> str:
    """Return how long all of the run may take: what a sentence says once it is the sooner."""
    text = deadline.whole().overrun
    assert text.startswith("run-1 is not over after "), text
    return text.removeprefix("run-1 is not over after ").split()[0]


def test_a_command_may_be_silent_for_its_time_limit_and_the_slack() -> None:
    assert quiet_s(after()) == "5"
    assert quiet_s(after(("command_started", "one", "a"))) == "105"
    assert quiet_s(after(("command_started", "one", "b"))) == "35"
    began_and_ended = (("command_started", "one", "a"), ("command_ended", "one", "a"))
    assert quiet_s(after(*began_and_ended)) == "5"
    assert quiet_s(after(*began_and_ended, ("command_started", "two", "a"))) == "12"


def test_a_run_may_take_what_its_commands_may_that_were_begun() -> None:
    assert whole_s(after()) == "10"
    assert whole_s(after(("command_started", "one", "a"))) == "115"
    every = [("command_started", j.name, c.name) for j in JOBS for c in j.commands]
    assert whole_s(after(*every)) == "162"
    assert whole_s(after(("command_ended", "one", "a"))) == "15"  # reused: nothing was started


def test_what_is_told_twice_or_was_never_launched_gives_no_time() -> None:
    again = (("command_started", "one", "a"), ("command_ended", "one", "a")) * 9
    assert whole_s(after(*again)) == "115"
    assert quiet_s(after(*again, ("command_started", "one", "a"))) == "5"
    assert whole_s(after(("command_started", "three", "a"), ("command_ended", "x", "y"))) == "10"
    deadline = FollowDeadline("run-1", JOBS, 5.0)
    deadline.heard({"event": "command_started", "stage": ["one"], "command": {"a": 1}})
    assert whole_s(deadline) == "10"


def test_the_sooner_deadline_holds() -> None:
    """Commands that may take long do not let a silent host take as long."""
    deadline = after(("command_started", "one", "a"), ("command_ended", "one", "a"))
    assert deadline.next().at < deadline.whole().at
    assert Deadline(1.0, "a").sooner(Deadline(2.0, "b")) == Deadline(1.0, "a")
    assert Deadline(3.0, "a").sooner(Deadline(2.0, "b")) == Deadline(2.0, "b")


def test_only_a_cluster_may_have_a_run_wait_or_begin_a_stage_again() -> None:
    for queues in (True, False):
        deadline = FollowDeadline("run-1", JOBS, 5.0, queues=queues)
        deadline._began = 0.0
        deadline.heard({"event": "queued", "text": "Resources"})
        assert (deadline.whole().at > 10.0) is queues
        deadline = FollowDeadline("run-1", JOBS, 5.0, queues=queues)
        deadline.heard({"event": "command_started", "stage": "one", "command": "a"})
        deadline.heard({"event": "interrupted", "stage": "one"})
        assert quiet_s(deadline) == ("5" if queues else "105")
        deadline.heard({"event": "command_started", "stage": "one", "command": "a"})
        assert quiet_s(deadline) == "105"
