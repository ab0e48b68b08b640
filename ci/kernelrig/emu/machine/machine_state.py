"""The state of a run: the machine and its warp batches.

A warp batch is a set of warps at one instruction, with their active lanes and registers. Warps that
execute the same code together cost little more than one: each instruction is one NumPy operation on
(warps, 32) arrays. Where a branch diverges a batch becomes two, where lanes reconverge two become
one. Batches share arrays, which are never written in place.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.device_text import DeviceOutput
from kernelrig.emu.machine.events import Events
from kernelrig.emu.machine.findings import NO_CONTEXT, NO_THREAD, Context, Findings, Wait
from kernelrig.emu.machine.operations import ALL_LANES, Op, OperationQueue
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.state_spaces import RANK_SHIFT, RESERVED_BYTES, Memory
from kernelrig.emu.numerics.arrays import LANES, Array, Mask, Pending, full_mask, lane_bits

Part = TypeVar("Part")
Dimensions = tuple[int, int, int]
InFlightRegisters = tuple[object, tuple[int, ...]]  # what `Pending` waits for, and its registers


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of a launch; `cluster` is (1, 1, 1) where there is none."""

    grid: Dimensions
    block: Dimensions
    cluster: Dimensions = (1, 1, 1)
    grid_workspace: int = 0  # address that kernels synchronise grids by, if it is cooperative

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // LANES)  # of a CTA

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class ReconvergencePoint:
    """Where lanes that diverged reconverge: the first segment that all of their ways lead to.

    `missing` holds, by warp, the lanes that are still on their way.
    """

    __slots__ = ("arrived", "missing", "segment")

    def __init__(self, segment: int, missing: dict[int, NDArray[np.bool_]]) -> None:
        self.segment = segment
        self.missing = missing
        self.arrived: list[WarpBatch] = []


class WarpBatch:
    """Warps at one place. `warps` are numbers on the machine; `lanes` is None for all 32 of each.

    `points` are the places where its lanes wait for those they diverged from, innermost last.
    `at` is the index of the instruction being executed, `registers` by their index.
    """

    __slots__ = (
        "at", "fuel", "lanes", "machine", "pc", "pending", "points", "registers",
        "waiting", "warps",
    )  # fmt: skip

    def __init__(
        self,
        machine: Machine,
        pc: int,
        warps: NDArray[np.intp],
        lanes: Mask,
        registers: list[Any],
        points: tuple[ReconvergencePoint, ...] = (),
    ) -> None:
        self.machine = machine
        self.pc = pc
        self.warps = warps
        self.lanes = lanes
        self.registers = registers
        self.points = points
        self.at = 0
        self.fuel = 0
        self.waiting: tuple[object, ...] = ()
        self.pending: tuple[InFlightRegisters, ...] = ()

    @property
    def size(self) -> int:
        return len(self.warps)

    # Where its threads are. Arrays are (n, 1), to broadcast with registers.
    @property
    def slot(self) -> NDArray[np.int64]:
        """The resident CTA of each warp: its slot in the shared arena."""
        return self.machine.slot_of[self.warps][:, None]

    @property
    def cluster_slot(self) -> NDArray[np.int64]:
        """The slot of the first CTA of each warp's cluster."""
        return self.slot - self.rank

    @property
    def rank(self) -> NDArray[np.int64]:
        """The rank of each warp's CTA in its cluster."""
        return self.machine.rank_of[self.warps][:, None]

    @property
    def warp_in_cta(self) -> NDArray[np.int64]:
        return (self.warps % self.machine.geometry.warps)[:, None]

    def shared_address(self, offset: int, dtype: np.dtype[Any]) -> Array:
        """Return the shared address of byte `offset` behind the system's, in each warp's CTA."""
        base = RESERVED_BYTES + offset
        if self.machine.geometry.cluster_ctas == 1:
            return np.array([[base]], dtype)
        return ((self.rank << RANK_SHIFT) + base).astype(dtype)

    # Registers that may not be read yet.
    def mark_in_flight(self, registers: tuple[int, ...], first: Pending) -> None:
        """Remember that `registers` hold something `Pending`, the first of them `first`: until its
        wait, whatever is done with them.
        """
        marked = (first.tag, registers)
        if marked not in self.pending:  # else a product onto the one before
            self.pending = (*self.pending, marked)

    def settle(self, tags: Set[object]) -> None:
        """The waits of `tags` returned: their registers hold their values."""
        registers = self.registers
        for tag, marked in self.pending:
            for register in marked if tag in tags else ():
                held = registers[register]
                if isinstance(held, Pending):
                    registers[register] = held.settled(tags)
        self.pending = tuple(one for one in self.pending if one[0] not in tags)

    def take(self, rows: NDArray[np.intp], lanes: Mask) -> WarpBatch:
        """Return a batch of some of the warps, at the same place, with `lanes` of theirs."""
        registers = list(self.registers)
        if len(rows) < self.size:
            live = self.machine.program.segments[self.pc].live
            for register in live:
                held = registers[register]
                if isinstance(held, Pending):
                    registers[register] = held.take(rows)
                elif isinstance(held, np.ndarray) and len(held) > 1:
                    registers[register] = held[rows]
        batch = WarpBatch(self.machine, self.pc, self.warps[rows], lanes, registers, self.points)
        batch.pending = self.pending
        return batch

    def mask_of(self, mask: Mask) -> NDArray[np.bool_]:
        """Return `mask`, or the batch's own lanes for None, as an (n, 32) array."""
        return full_mask(self.lanes if mask is None else mask, self.size)

    def threads(self, mask: Mask) -> Iterator[tuple[int, int]]:
        """Yield (row, lane) of each thread in the mask."""
        yield from zip(*(n.tolist() for n in np.nonzero(self.mask_of(mask))), strict=True)

    def report(
        self,
        kind: str,
        message: str,
        mask: Mask = None,
        severity: str = "error",
        same: object = None,
        context: Context = NO_CONTEXT,
    ) -> None:
        """Report a finding at the instruction being executed, for the threads in `mask`."""
        warps, bits, count = self.warps.tolist(), ALL_LANES, LANES * self.size
        if mask is not None or self.lanes is not None:
            held = self.mask_of(mask)
            rows = np.nonzero(held.any(axis=1))[0].tolist() or [0]
            warps, bits, count = [warps[n] for n in rows], lane_bits(held[rows[0]]), int(held.sum())
        self.machine.report(
            kind, message, warps[0], bits, self.at, severity, count, same, context, warps
        )


class Hooks(Events[WarpBatch, "Machine"]):
    """The events of a run on a machine: what observers override."""


@dataclass
class Machine:
    """A GPU on which one wave of CTAs runs at a time; `unlaunched` clusters wait for theirs.

    `slot_of`, `rank_of` and `cta_of` map a warp to its resident CTA, that one's rank in its
    cluster, and its linear index in the grid. `time` counts instructions; clocks return it.
    """

    program: Program
    geometry: Geometry
    memory: Memory
    params: int  # generic address of the parameters
    findings: Findings
    rng: random.Random
    hooks: Hooks | None = None
    hardware_accumulation: bool = False
    elected: str = "first"  # the lane elect.sync takes: first, last or hash
    spurious: float = 0.0  # how often an mbarrier try_wait that must wait returns false instead
    patient: bool = True  # whether tcgen05.dealloc waits for the other CTA of a pair
    in_turn: bool = False  # whether the CTAs of a cluster leave its barrier one after the other
    time: int = 0
    operations: OperationQueue = field(default_factory=OperationQueue)
    ready: list[WarpBatch] = field(default_factory=list)
    slot_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rank_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cta_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, LANES), np.bool_))
    counts: dict[str, int] = field(default_factory=dict)
    last_wait: dict[int, Wait] = field(default_factory=dict)  # by warp: the mbarrier passed last
    stopped: bool = False  # by a trap, or a fault that leaves nothing to go on with
    output: DeviceOutput = field(default_factory=DeviceOutput)
    values: Any = None  # an observer's, told of instructions while it asks for it
    unlaunched: deque[NDArray[np.int64]] = field(default_factory=deque)
    _parts: dict[object, Any] = field(default_factory=dict)
    _waiting: dict[object, list[WarpBatch]] = field(default_factory=dict)

    def part(self, kind: Callable[[Machine], Part]) -> Part:
        """Return the machine's one `kind(machine)`: state of a family, made on first use.

        It may have `finish()`, called when all warps have exited (leaks are found there).
        """
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        part: Part = self._parts[kind]
        return part

    def follow_values(self, how: int, holding: NDArray[np.uint64] | None = None) -> None:
        """Have `values` told of instructions, unless `how` is 0 (`observe.held_registers`)."""
        self.program.codegen.following[:] = [True] * bool(how)

    def watch_map(self, flat: int) -> None: ...  # a kernel edits the tensor map there

    @property
    def components(self) -> Iterable[Any]:
        return tuple(self._parts.values())

    def new_wave(self) -> None:
        """Forget the state of the CTAs that have run."""
        self._parts.clear()
        self._waiting.clear()
        self.last_wait.clear()
        self.ready.clear()
        self.operations = OperationQueue()

    def place(self, ctas: NDArray[np.int64]) -> None:
        """Make `ctas`, linear indices of whole clusters in order, the resident ones."""
        warps = self.geometry.warps
        self.slot_of = np.repeat(np.arange(len(ctas)), warps)
        self.rank_of = self.slot_of % self.geometry.cluster_ctas
        self.cta_of = np.repeat(ctas, warps)
        threads = np.arange(warps * LANES).reshape(warps, LANES) < self.geometry.threads
        self.alive = np.tile(threads, (len(ctas), 1))

    def report(
        self,
        kind: str,
        message: str,
        warp: int = -1,
        lanes: int = 0,
        at: int = -1,
        severity: str = "error",
        count: int = 1,
        same: object = None,
        context: Context = NO_CONTEXT,
        warps: Sequence[int] = (),
    ) -> None:
        """Report a finding at instruction `at`; `warps` are all that it concerns, by default one.

        Findings of one kind and PTX line with one `same` (None: the message) are counted as one.
        """
        self.findings.report(
            kind,
            message,
            self.program.where(at),
            threads=[self._thread(w) for w in (warps or ([warp] if warp >= 0 else ()))],
            thread=self._thread(warp) if warp >= 0 else NO_THREAD,
            lanes=lanes,
            severity=severity,
            count=count,
            same=same,
            context=context,
            time=self.time,
        )

    def _thread(self, warp: int) -> tuple[int, int]:
        return int(self.cta_of[warp]), warp % self.geometry.warps

    # Waiting.
    def park(self, batch: WarpBatch, keys: tuple[object, ...]) -> None:
        """Let `batch` wait until one of `keys` is woken; then its instruction is tried again."""
        batch.waiting = keys
        for key in keys:
            self._waiting.setdefault(key, []).append(batch)

    def wake(self, key: object) -> None:
        for batch in self._waiting.pop(key, ()):
            if key in batch.waiting:
                self.unpark(batch)

    def unpark(self, batch: WarpBatch) -> None:
        for key in batch.waiting:
            if batch in (batches := self._waiting.get(key, [])):
                batches.remove(batch)
        batch.waiting = ()
        self.ready.append(batch)

    @property
    def parked(self) -> list[WarpBatch]:
        parked = (c for batches in self._waiting.values() for c in batches if c.waiting)
        return list({id(c): c for c in parked}.values())

    # Asynchronous operations.
    def issue(
        self,
        batch: WarpBatch,
        row: int,
        lane: int,
        name: str,
        steps: Callable[[Op], Iterator[None]],
        proxy: str = "async",
        stream: Hashable | None = None,
        also: tuple[int, ...] = (),
        lanes: Iterable[int] = (),
        leaves_stream: bool = False,
    ) -> Op:
        """Start an operation of the thread (`row`, `lane`) of `batch`; lane -1 is the whole warp.

        `also` are rows that issue it together with `row`: the warps of a warpgroup. `lanes` are
        those of which each issues its part for itself.
        `steps(op)` is a generator: each piece between two yields is one event.
        """
        wait = self.last_wait.get(int(batch.warps[row]))
        op = Op(
            name, self, batch.warps, row, lane, batch.at, proxy, stream=stream,
            leaves_stream=leaves_stream, also=also, lanes=tuple(lanes), wait=wait,
        )  # fmt: skip
        op.steps = steps(op)
        if self.hooks:
            self.hooks.op_issued(op)
        self.operations.issue(op)
        return op

    def report_op(
        self,
        op: Op,
        kind: str,
        message: str,
        severity: str = "error",
        same: object = None,
        context: Context = NO_CONTEXT,
        lanes: int = 0,
    ) -> None:
        """Report a finding of an operation, or of some of its lanes (bits), at its instruction."""
        count = lanes.bit_count() if lanes else 1
        self.report(kind, message, op.warp, lanes or op.bits, op.at, severity, count, same, context)
