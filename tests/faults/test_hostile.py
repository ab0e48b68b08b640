"""Hosts lie."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.conftest import Survives
from tests.faults.hostile import KINDS
from tests.faults.kind import Kind


@every_instant(KINDS)
def test_a_run_survives_hosts_that_lie(kind: Kind, seed: int, survives: Survives) -> None:
    survives(kind, seed)
