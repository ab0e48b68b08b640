"""A session: entries that are carried out back to back on hosts, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelrig.model.verdict import Outcome

SessionTask = Literal["build", "remote-test", "sweep", "bench", "profile"]


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One entry of a session: a task with the values of its flags, under the same names.

    `needs` are earlier entries that must have passed. `remote` is the only host for it; empty = any
    of the session's. `builds` are those that a bench compares, in the order of its arguments.
    Without `emulate` its kernels are not emulated before a host is used.
    """

    name: str
    task: SessionTask
    needs: tuple[str, ...] = ()
    remote: str = ""
    emulate: bool = True
    kernel: str = ""
    arch: str = ""
    variant: str = ""
    plan: str = ""
    only: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    require_device: str = ""
    gate: float | None = None
    stop_at_first: bool = False
    fresh: bool = False
    builds: tuple[str, ...] = ()
    rounds: int | None = None
    minutes: float | None = None
    case: str = ""
    set: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    sample: int | None = None
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class SessionCase:
    """A stage of one of an entry's runs, or a step that was carried out here, as JUnit has it."""

    name: str
    outcome: Outcome
    summary: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionRow:
    """An entry and what is known of it; `outcome` is None as long as it has not ended.

    `exit_code` is that of its task. `minutes` is how long its runs held a host, by what their
    clients and the host's agent have noted; `cost` None = without a price.
    """

    name: str
    task: str
    outcome: Outcome | None
    exit_code: int | None
    summary: str
    remote: str = ""
    runs: tuple[str, ...] = ()
    cases: tuple[SessionCase, ...] = ()
    minutes: float = 0.0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A session as far as it has got; `why` are the reasons why it is not complete.

    `billed_minutes` is for how long the hosts were there that it rented, from the request on, and
    `billed_cost` what that costs at most; None = without a price.
    """

    id: str
    folder: str
    rows: tuple[SessionRow, ...]
    why: tuple[str, ...] = ()
    billed_minutes: float = 0.0
    billed_cost: float | None = None
    schema: int = 1

    @property
    def exit_code(self) -> int:
        """1 an entry has failed, 3 one does not compile, 6 to be gone on with, then 5 and 4."""
        codes = {row.exit_code for row in self.rows}
        if self.why or None in codes:
            codes.add(6)
        return next((code for code in (1, 3, 6, 5, 4, 2) if code in codes), 0)

    @property
    def minutes(self) -> float:
        return sum(row.minutes for row in self.rows)

    @property
    def cost(self) -> float | None:
        known = [row.cost for row in self.rows if row.cost is not None]
        return sum(known) if known else None
