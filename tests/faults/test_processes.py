"""Agents and stages are killed, stopped and slowed down; the host reboots."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.conftest import Survives
from tests.faults.kind import Kind
from tests.faults.processes import KINDS


@every_instant(KINDS)
def test_a_run_survives_what_happens_to_its_processes(
    kind: Kind, seed: int, survives: Survives
) -> None:
    survives(kind, seed)
