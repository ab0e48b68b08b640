"""A kind of fault: its name, what it does to a run under way, and what may come of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.e2e.project import Answer
from tests.faults.oracle import Expected
from tests.faults.site import Site

Inject = Callable[[Site, Random, int], tuple[Answer, Expected]]
"""Starts the call that the fault meets, does the fault, and returns how the call ended."""


@dataclass(frozen=True)
class Kind:
    """`fast`: the seed that every test run takes. `remote`: fields of the case's Remote.

    `disks` are what is mounted as a disk of its own: `host`, `client`.
    """

    name: str
    inject: Inject
    fast: int | None = None
    remote: Mapping[str, Any] = field(default_factory=dict)
    own_sshd: bool = False
    disks: tuple[str, ...] = ()
