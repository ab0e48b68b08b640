"""`runs --remote`: what an agent lists, and lists that no agent sends."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.remote.host_run_list import host_runs

from tests.remote.local_host import LocalHost, job, shell

RUN: dict[str, Any] = {
    "id": "run-1",
    "alive": False,
    "quiet_s": 0.0,
    "owner": "root",
    "since_utc": "2026-11-25T22:00:00Z",
    "until_utc": "2026-11-25T22:00:01Z",
    "ended_stages": 1,
    "stage": "",
    "ended": "all stages were run",
}


def test_an_ended_run_is_listed_and_a_link_to_elsewhere_is_not(host: LocalHost) -> None:
    host.run([job("one", shell("a", ":"))])
    (host.workdir / "runs/run-2").symlink_to("/")
    (run,), count = host.link().runs(10)
    assert (count, run.id, run.alive, run.ended_stages) == (1, "run-1", False, 1)
    assert run.ended == "all stages were run"
    assert run.since_utc <= run.until_utc


def test_a_journal_that_is_no_file_costs_its_own_row_alone(host: LocalHost) -> None:
    host.run([job("one", shell("a", ":"))])
    journal = host.workdir / "runs/run-1/journal.jsonl"
    journal.unlink()
    os.mkfifo(journal)
    (run,), _ = host.link().runs(10)
    assert (run.id, run.since_utc, run.ended) == ("run-1", "", "")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"runs": {}, "count": 0},
        {"runs": [RUN], "count": True},
        {"runs": [RUN], "count": 0},
        {"runs": [RUN, RUN, RUN], "count": 3},
        *({"runs": [{**RUN, "id": name}], "count": 1} for name in ("", "../x", "a/b", "x" * 300)),
        {"runs": [{**RUN, "here": "finished"}], "count": 1},
        {"runs": [{**RUN, "more": 1}], "count": 1},
        {"runs": [{**RUN, "ended": "x" * 3000}], "count": 1},
        {"runs": [{**RUN, "quiet_s": "soon"}], "count": 1},
        {"runs": ["run-1"], "count": 1},
    ],
)
def test_a_list_that_no_agent_sends_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        host_runs("host", answer, 2)


def test_stages_beside_each_other_are_listed_in_the_order_of_the_plan(host: LocalHost) -> None:
    host.run([job("one", shell("a", ":"))])
    journal = host.workdir / "runs/run-1/journal.jsonl"
    begun, *_ = journal.read_text().splitlines(keepends=True)
    # Of two workers the second was heard first.
    for index, stage in ((2, "two"), (1, "one")):
        event = {"event": "stage_started", "stage": stage, "index": index, "gpu": f"GPU-{index}"}
        begun += json.dumps(event) + "\n"
    journal.write_text(begun)
    (run,), _ = host.link().runs(10)
    assert run.stage == "one, two"
