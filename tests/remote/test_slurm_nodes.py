"""What a job sees of its node, what squeue says, and the time that attempts took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import Remote, on_gpu, stage_gpus
from kernelrig.remote.agent.slurm import parse_jobs
from kernelrig.remote.agent.slurm_job import allocated, difference
from kernelrig.remote.allocation import read_allocation

GPUS: list[dict[str, Any]] = [{"uuid": f"GPU-{letter}", "name": "NVIDIA H200"} for letter in "abc"]
FACTS: dict[str, Any] = {
    "machine": "x86_64", "glibc": "2.36", "driver": "580.1", "gpu_counters_admin_only": False,
    "gpus": GPUS[:1], "tools": {"ncu": {"path": "/usr/bin/ncu", "version": "2025.3.1"}},
    "hostname": "one", "python": "3.11.7", "free_bytes": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("visible", "shown"),
    [(None, "abc"), ("", ""), ("1", "b"), ("0,2", "ac"), ("GPU-c", "c"), ("NoDevFiles", "")],
)
def test_a_job_has_the_gpus_that_slurm_shows_it(visible: str | None, shown: str) -> None:
    assert [gpu["uuid"] for gpu in allocated(GPUS, visible)] == [f"GPU-{one}" for one in shown]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hostname": "two", "free_bytes": 7}, ""),
        ({"driver": "570.2"}, "driver is 570.2, not 580.1"),
        ({"tools": {}}, "ncu is none, not /usr/bin/ncu 2025.3.1"),
        ({"gpus": []}, "its GPUs are none, not [['NVIDIA H200', None, None]]"),
        ({"gpus": [GPUS[1]]}, ""),
    ],
)
def test_a_node_is_compared_by_what_a_run_rests_on(change: dict[str, Any], said: str) -> None:
    assert difference(FACTS, {**FACTS, **change}) == said


def test_of_two_jobs_with_one_name_the_living_one_counts() -> None:
    lines = [
        "other|1|RUNNING|None|n1",
        "kernelrig-a|2|PENDING|Priority|",
        "kernelrig-a|1|FAILED||n",
    ]
    found = parse_jobs("\n".join([*lines, "kernelrig-b|3|TIMEOUT|TimeLimit|n1", "garbage"]))
    assert sorted(found) == ["kernelrig-a", "kernelrig-b"]
    assert found["kernelrig-a"].waits == "job 2 waits in the queue of Slurm: Priority"
    assert found["kernelrig-b"].over


def written(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_the_seconds_of_attempts_add_up_and_the_last_node_has_the_gpus_of_all(
    tmp_path: Path,
) -> None:
    remote = Remote("cluster", "sm_90a", kind="slurm", host="login")
    events = [
        {"event": "run_started", "t": 0.1},
        {"event": "node", "t": 0.2, "facts": FACTS},
        {"event": "interrupted", "t": 40.0},
        {"event": "resumed", "t": 0.1},
        {"event": "node", "t": 0.1, "facts": {**FACTS, "hostname": "two"}},
        {"event": "finished", "t": 20.0},
    ]
    found = read_allocation(written(tmp_path, *events), remote, timed=False)
    assert found.host is not None
    assert (found.host.hostname, found.seconds) == ("two", 60.0)
    assert found.host.leased == ("GPU-a",)
    on_another = {**FACTS, "gpus": GPUS[1:]}
    events[4]["facts"] = {**on_another, "hostname": "two"}
    found = read_allocation(written(tmp_path, *events), remote, timed=False)
    assert found.host is not None
    assert found.host.gpu["uuid"] == "GPU-b"
    assert found.host.leased == ("GPU-b", "GPU-c", "GPU-a")  # stages that were kept ran on the last
    kept = on_gpu(found.host, "GPU-a")
    assert kept.gpu["uuid"] == "GPU-a"
    beside = [[gpu["uuid"] for gpu in host.gpus_beside] for host in (found.host, kept)]
    assert beside == [["GPU-b", "GPU-c"], ["GPU-a"]]
    both = replace(remote, gpus="all")
    assert stage_gpus(found.host, both) == ("GPU-b", "GPU-c")
    with pytest.raises(ProtocolError, match="has no good time"):
        read_allocation(written(tmp_path, *events, {"event": "note", "t": -1}), remote, timed=False)
    with pytest.raises(ProtocolError, match="the host's facts are garbled"):
        read_allocation(
            written(tmp_path, {"event": "node", "t": 1, "facts": []}), remote, timed=False
        )
