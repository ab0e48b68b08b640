"""The link between client and host is cut, silent, down, slow."""

from __future__ import annotations

from tests.faults.case import every_instant
from tests.faults.conftest import Survives
from tests.faults.kind import Kind
from tests.faults.links import KINDS


@every_instant(KINDS)
def test_a_run_survives_links_that_fail(kind: Kind, seed: int, survives: Survives) -> None:
    survives(kind, seed)
