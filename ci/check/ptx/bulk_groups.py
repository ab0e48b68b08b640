"""P005, P006: bulk groups belong to a thread, and to the thread that issued their copies."""

from __future__ import annotations

from collections.abc import Iterator

from ci.check.ptx.condition import Facts
from ci.check.ptx.judge import Breach, Code, PtxRule
from ci.check.ptx.kinds import is_bulk_commit, is_bulk_store, is_bulk_wait, left_pending
from ci.check.ptx.lanes import Lanes
from ci.check.ptx.paths import Walk
from ci.model import Rule
from ci.ptx import Instruction

_MOST_GROUPS = 64
_Copies = tuple[int | None, int | None, int]
"""The copy that no commit has taken up, the one in the newest group, and how many are newer."""


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


def _unwaited(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(copies: _Copies, i: Instruction, facts: Facts) -> _Copies:
        open_copy, grouped, newer = copies
        if is_bulk_store(i):
            return i.index, grouped, newer
        if is_bulk_commit(i):
            if open_copy is not None:
                return None, open_copy, 0
            return None, grouped, min(newer + 1, _MOST_GROUPS) if grouped is not None else 0
        return (open_copy, None, 0) if newer >= left_pending(i) else copies

    def leave(copies: _Copies, at: Instruction | None, facts: Facts) -> None:
        open_copy, grouped, _ = copies
        for index, how in (
            (open_copy, "neither committed nor waited for"),
            (grouped, "not waited for"),
        ):
            if index is not None:
                copy = code.function.instructions[index]
                found.append(
                    Breach(copy, f"{copy.mnemonic} is {how} on a way to {code.way_out(at)}")
                )

    none: _Copies = (None, None, 0)
    code.paths.walk(Walk(none, _grouped, step, leave))
    yield from found


MIXED = PtxRule(
    Rule(
        "P005",
        "mixed-bulk-groups",
        "a bulk copy, its commit_group and its wait_group are of the same lane: all of the elected"
        " one, or all of the lane of one number",
        "groups are a thread's own, and which lane elect.sync names is not specified: another"
        " lane's commit and wait are for nothing (PTX ISA 9.1, 9.7.9.27.2 and 9.7.13.14)",
        "elect.sync with the same mask around all three",
    ),
    "bulk groups' instructions",
    _grouped,
    _mixed,
)

NOT_WAITED = PtxRule(
    Rule(
        "P006",
        "store-not-waited",
        "on every way to the end a thread commits its bulk copies and waits until they have read",
        "the CTA's shared memory is given away when it ends, and the copy reads another CTA's"
        " bytes (PTX ISA 9.1, 9.7.9.27.2)",
        "cp.async.bulk.commit_group, and cp.async.bulk.wait_group.read 0 in that lane at the end",
    ),
    "bulk copies to global memory",
    is_bulk_store,
    _unwaited,
)
