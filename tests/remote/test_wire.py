"""Requests that reach the agent in one piece: none of them waits for what the other one takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kernelrig.remote.protocol import AgentSession

from tests.remote.local_host import LocalHost, job, shell

WAIT = "while [ ! -e ../../go ]; do sleep 0.01; done"


@pytest.mark.limit(60)
def test_a_request_that_came_together_with_a_follow_ends_it(host: LocalHost) -> None:
    """As `select` says of the pipe alone, the second one was not seen before the run was over."""
    link = host.link()
    link.launch("run-1", [job("one", shell("waits", WAIT, 20.0))], {}, stop_at_first=False)
    hello = {"op": "hello", "workdir": str(host.workdir)}
    follow = {"op": "follow", "run": "run-1", "offset": 0, "quiet_s": 30.0, "give_up_s": 60.0}
    with AgentSession(host.opener, host.remote, first=[hello]) as session:
        session.frame()
        lines = (json.dumps(request) + "\n" for request in (follow, {"op": "runs", "most": 1}))
        host.opener.channels[-1].write("".join(lines).encode())
        told: list[dict[str, Any]] = []
        while "end" not in (frame := session.frame()):
            told.append(frame["event"])
        assert frame == {"end": "interrupted"}
        assert "finished" not in [event["event"] for event in told]
        assert [run["id"] for run in session.frame()["runs"]] == ["run-1"]
    (host.workdir / "runs/run-1/go").touch()
    events: list[dict[str, Any]] = []
    link.follow("run-1", events.append, ())
    assert [e["ok"] for e in events if e["event"] == "command_ended"] == [True]
