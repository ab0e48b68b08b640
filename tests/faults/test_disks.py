"""Disks become full, on both sides."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.conftest import Survives
from tests.faults.disks import KINDS
from tests.faults.kind import Kind


@every_instant(KINDS)
def test_a_run_survives_full_disks(kind: Kind, seed: int, survives: Survives) -> None:
    survives(kind, seed)
