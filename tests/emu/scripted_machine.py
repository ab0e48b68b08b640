"""A machine that does nothing, to tell observers by hand what happens on it."""
# ruff: noqa: ANN401 - what stands for threads here are numbers, pairs, lists

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
from kernelrig.emu.machine import phase
from kernelrig.emu.machine.findings import Context, Finding, Wait
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.program import SourcePlace
from kernelrig.emu.machine.state_spaces import SLOT_BYTES, Arena, GlobalMemory, Memory
from kernelrig.model.frame import Frame
from kernelrig.ptx.rules import ISA_RULES

from tests.emu.native.both_detectors import BothDetectors

# As many as the events of a test may have: their numbers begin again behind them.
INSTRUCTIONS = 1 << 13
# None of the instructions is known: no store of a constant is among them, and no branch.
UNKNOWN = SimpleNamespace(opcode="", modifiers=(), flags=frozenset(), operands=(), guard=None)
NUMBERS = cycle(range(1, INSTRUCTIONS))


class Program:
    function = SimpleNamespace(instructions=(UNKNOWN,) * INSTRUCTIONS, params=(), labels=())

    def where(self, at: int) -> SourcePlace:
        frame = Frame("kernel.cu", at, "k")
        return SourcePlace(at, frame, (frame,))


class Barrier(phase.Barrier):
    """An mbarrier that only has a place."""

    def __init__(self, slot: int = 0, offset: int = 0x400) -> None:
        super().__init__(slot, offset, 1)


@dataclass
class Machine:
    geometry: Geometry
    memory: Memory
    slot_of: Any
    rank_of: Any
    cta_of: Any
    program: Program = field(default_factory=Program)
    findings: list[Finding] = field(default_factory=list)
    hooks: Any = None
    last_wait: dict[int, Wait] = field(default_factory=dict)

    def report(self, kind: str, message: str, warp: int, lanes: int, at: int, severity: str,
               count: int, same: object, context: Context) -> None:  # fmt: skip
        rule = ISA_RULES[context.rule]
        made = Finding(
            kind,
            rule.severity,
            message,
            -1,
            warp,
            lanes,
            at,
            count=count,
            rule=context.rule,
            section=rule.section,
            fix=rule.fix,
        )
        self.findings.append(made)


@dataclass
class WarpBatch:
    machine: Machine
    warps: Any
    at: int = 0

    @property
    def size(self) -> int:
        return len(self.warps)

    def mask_of(self, mask: Any) -> Any:
        whole = np.ones((1, 1), np.bool_) if mask is None else mask
        return np.broadcast_to(whole, (self.size, 32))


class Play:
    """Threads of a launch, each event an instruction of its own (its number is its line).

    `who` is a warp, (warp, lane) or (warp, lanes). Shared addresses are offsets in a CTA's memory,
    global ones offsets in the one buffer C.
    """

    def __init__(self, ctas: int = 1, warps: int = 2, cluster: int = 1) -> None:
        numbers = np.repeat(np.arange(ctas), warps)
        self.memory = Memory(GlobalMemory(), Arena(ctas * SLOT_BYTES), Arena(0), 8192)
        self.buffer = self.memory.global_.allocate("C", 4096)
        self.memory.global_.settle()
        self.machine: Any = Machine(
            Geometry((ctas, 1, 1), (warps * 32, 1, 1), (cluster, 1, 1)), self.memory,
            numbers, numbers % cluster, numbers,
        )  # fmt: skip
        self.warps_a_cta = warps
        self.races = BothDetectors()
        self.races.started(self.machine)

    def batch(self, who: Any) -> tuple[Any, Any]:
        warp, lanes = who if isinstance(who, tuple) else (who, range(32))
        lanes = lanes if isinstance(lanes, Iterable) else [lanes]
        mask = np.zeros((1, 32), np.bool_)
        mask[0, list(lanes)] = True
        return WarpBatch(self.machine, np.array([warp]), next(NUMBERS)), mask

    def slot(self, warp: int) -> int:
        return warp // self.warps_a_cta

    # Accesses.
    def access(
        self, who: Any, at: Any, size: int, write: bool, space: str = "shared", **how: Any
    ) -> None:
        batch, mask = self.batch(who)
        base = (
            self.buffer.start if space == "global" else self.slot(int(batch.warps[0])) * SLOT_BYTES
        )
        index = base + np.broadcast_to(np.asarray(at, np.int64), (1, 32))
        self.races.accessed(batch, mask, space, index, size, write, **how)

    def store(self, who: Any, at: Any = 0x400, size: int = 4, **how: Any) -> None:
        self.access(who, at, size, True, **how)

    def load(self, who: Any, at: Any = 0x400, size: int = 4, **how: Any) -> None:
        self.access(who, at, size, False, **how)

    def atomic(self, who: Any, at: Any = 0, sem: str = "relaxed", scope: str = "gpu") -> None:
        self.access(who, at, 4, True, "global", atomic=True, sem=sem, scope=scope)

    # Synchronisation.
    def tell(self, event: str, who: Any, *arguments: Any) -> None:
        batch, mask = self.batch(who)
        getattr(self.races, event)(batch, mask, *arguments)

    def sync(self, *who: Any, instance: object = None) -> None:
        """bar.sync of these warps."""
        instance = instance or next(NUMBERS)
        for one in who:
            self.tell("barrier_arrived", one, instance, "cta")
        for one in who:
            self.tell("barrier_passed", one, instance, "cta")

    def arrive(
        self, who: Any, barrier: Barrier, phase: int = 0, sem: str = "release", scope: str = "cta"
    ) -> None:
        self.tell("arrived", who, barrier, phase, sem, scope)

    def wait(
        self, who: Any, barrier: Barrier, phase: int = 0, sem: str = "acquire", scope: str = "cta"
    ) -> None:
        self.tell("waited", who, barrier, phase, sem, scope)

    # Operations.
    def issue(self, who: Any, name: str, proxy: str = "async") -> Op:
        warp, lane = who if isinstance(who, tuple) else (who, -1)
        lanes = ()
        if name == "cp.async":  # each lane for itself
            lanes, lane = tuple(lane) if isinstance(lane, Iterable) else (lane,), -1
        op = Op(name, self.machine, np.array([warp]), 0, lane, next(NUMBERS), proxy, lanes=lanes)
        self.races.op_issued(op)
        return op

    def op_access(
        self,
        op: Op,
        write: bool,
        at: int = 0x400,
        size: int = 256,
        space: str = "shared",
        slot: int | None = None,
    ) -> None:
        slot = self.slot(op.warp) if slot is None else slot
        base = self.buffer.start if space == "global" else slot * SLOT_BYTES
        starts = base + at + size * np.arange(len(op.lanes) or 1)
        self.races.op_accessed(op, space, starts, size, write)

    def copy_in(self, who: Any, barrier: Barrier, phase: int = 0, **where: Any) -> Op:
        """A TMA load into shared memory, all of it."""
        op = self.issue(who, "cp.async.bulk.tensor")
        self.op_access(op, True, **where)
        self.races.op_arrived(op, barrier, phase, "tx")
        self.races.op_done(op)
        return op

    def copy_out(self, who: Any, **where: Any) -> Op:
        """A TMA store from shared memory, all of it."""
        op = self.issue(who, "cp.async.bulk.tensor")
        self.op_access(op, False, **where)
        self.op_access(op, True, 0, 256, "global")
        self.races.op_done(op)
        return op

    def group_wait(self, who: tuple[int, int], *ops: Op, read: bool = False) -> None:
        batch, _ = self.batch(who)
        self.races.group_waited(batch, 0, 1 << who[1], list(ops), read)

    def tensor(
        self,
        op: Op,
        write: bool,
        lanes: slice = slice(0, 128),
        columns: slice = slice(0, 256),
        cta: int = 0,
    ) -> None:
        self.races.op_tensor(op, cta, lanes, columns, write)

    # What came of it.
    @property
    def kinds(self) -> list[str]:
        return [f.kind for f in self.machine.findings if f.severity == "error"]

    @property
    def warnings(self) -> list[str]:
        return [f.kind for f in self.machine.findings if f.severity == "warning"]

    @property
    def messages(self) -> list[str]:
        return [f"{f.message}; {f.advice}" for f in self.machine.findings]
