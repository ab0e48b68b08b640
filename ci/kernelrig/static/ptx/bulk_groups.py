"""P005, P006: bulk groups belong to a thread, and to the thread that issued their copies."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.ptx import Instruction, rules
from kernelrig.static.ptx.condition import Facts
from kernelrig.static.ptx.convergence import Lanes
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import is_bulk_commit, is_bulk_store, is_bulk_wait
from kernelrig.static.ptx.paths import Walk

_Copy = tuple[int, int | None] | None
"""A copy, and the wait that came behind it."""


def _grouped(i: Instruction) -> bool:
    return is_bulk_store(i) or is_bulk_commit(i) or is_bulk_wait(i)


def _mixed(code: Code) -> Iterator[Breach]:
    """Follow a copy to its commit, and the commit to its wait."""
    found: list[Breach] = []
    lanes = Lanes(code.paths, _grouped)

    def step(
        before: tuple[int, bool] | None, i: Instruction, facts: Facts
    ) -> tuple[int, bool] | None:
        if is_bulk_store(i):
            return i.index, False
        if before is None or is_bulk_commit(i) == before[1]:
            # A wait before the commit is for earlier groups, a second commit takes up nothing.
            return before
        chosen, other = lanes.chosen(i.index), lanes.chosen(before[0])
        if {chosen, other} == {"elect.sync", "the lane's number"}:
            where = code.where(code.function.instructions[before[0]])
            found.append(
                Breach(i, f"{i.mnemonic} is for a lane chosen by {chosen}, {where} by {other}")
            )
        elif is_bulk_commit(i):
            return i.index, True
        return None

    code.paths.walk(Walk(None, _grouped, step))
    yield from found


def _uncommitted(code: Code) -> Iterator[Breach]:
    """Follow a copy that no commit has taken up, to a wait that is not for it, to the end."""
    found: list[Breach] = []

    def step(before: _Copy, i: Instruction, facts: Facts) -> _Copy:
        if is_bulk_store(i):
            # One that was waited for in vain stays the worse.
            return before if before is not None and before[1] is not None else (i.index, None)
        if before is None or is_bulk_commit(i):
            return None
        return before[0], i.index

    def leave(before: _Copy, at: Instruction | None, facts: Facts) -> None:
        if before is not None and before[1] is not None:
            copy, wait = (
                code.function.instructions[index] for index in before if index is not None
            )
            how = f"no commit_group takes it up on a way to {code.way_out(at)}"
            found.append(Breach(copy, f"{code.where(wait)} does not wait for it: {how}"))

    code.paths.walk(Walk(None, _grouped, step, leave))
    yield from found


MIXED = PtxRule(
    rules.MIXED_BULK_GROUPS,
    Kind("bulk groups' instructions", _grouped),
    _mixed,
)

NOT_COMMITTED = PtxRule(
    rules.COPY_NOT_COMMITTED,
    Kind("bulk copies to global memory", is_bulk_store),
    _uncommitted,
)
