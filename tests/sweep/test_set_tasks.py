"""What is done with a set here: an invalid one goes no further, a program is built for a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.engines import Json
from kernelrig.errors import CiError
from kernelrig.model import TriedSet, failed, passed
from kernelrig.run import tunable_emulation
from kernelrig.run.tunable_emulation import EmulatedSet
from kernelrig.sweep.set_tasks import try_set


def payload(root: Path, **more: Json) -> dict[str, Json]:
    return {
        "root": str(root), "kernel": "k", "arch": "sm_100a", "id": "set-1", "name": "A=1",
        "values": {"A": 1}, "system_cuda": False, "facts": {"registers": "64"}, "emulation": {},
        "inputs": {}, "builds": False, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ran", "phase", "outcome", "summary"),
    [
        (EmulatedSet(passed("all right")), "emulated", "pass", "all right"),
        (EmulatedSet(failed("a race")), "emulated", "fail", "emulated: a race"),
        (TriedSet({"A": 1}, refused=("A is odd",)), "static", "skip", "refused: A is odd"),
    ],
)
def test_without_a_host_a_set_ends_with_its_emulation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: EmulatedSet | TriedSet,
    phase: str,
    outcome: str,
    summary: str,
) -> None:
    monkeypatch.setattr(tunable_emulation, "emulate_set", lambda _: None)
    monkeypatch.setattr(tunable_emulation, "read_emulated", lambda _: ran)
    row = try_set(payload(tmp_path))
    assert isinstance(row, dict)
    assert (row["phase"], row["outcome"], row["summary"]) == (phase, outcome, summary)
    assert isinstance(row["facts"], dict)
    assert row["facts"]["registers"] == "64"


def test_a_worker_with_other_sources_refuses(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("other")
    with pytest.raises(CiError, match="are not those of this work"):
        try_set(payload(tmp_path, inputs={"kernel.cu": "0" * 64}))
