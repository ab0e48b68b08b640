"""Stages do what no stage should."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.conftest import Survives
from tests.faults.kind import Kind
from tests.faults.misbehaviour import KINDS


@every_instant(KINDS)
def test_a_run_survives_stages_that_misbehave(kind: Kind, seed: int, survives: Survives) -> None:
    survives(kind, seed)
