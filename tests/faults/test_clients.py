"""Clients are killed, interrupted and stopped, and meet one another."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.clients import KINDS
from tests.faults.conftest import Survives
from tests.faults.kind import Kind


@every_instant(KINDS)
def test_a_run_survives_what_happens_to_its_client(
    kind: Kind, seed: int, survives: Survives
) -> None:
    survives(kind, seed)
