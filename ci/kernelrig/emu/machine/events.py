"""The events of a run that observers see. Instructions never depend on them.

Threads are named by a batch and a mask, asynchronous operations by themselves. Indices are flat
byte positions in the arena of a space (`state_spaces`), so that one shadow array serves a space.
What a batch and a machine are is said where they are (`machine_state.Hooks`): they have hooks.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.numerics.arrays import Array, Mask

BatchT = TypeVar("BatchT")
MachineT = TypeVar("MachineT")


class Events(Generic[BatchT, MachineT]):
    """The events of a run; all of them do nothing here. An observer overrides what it needs.

    Accesses
    --------
    `space` is "global", "shared" or "local"; `index` flat bytes, broadcastable to (n, 32); `size`
    bytes a lane. `sem` is "weak", "relaxed", "acquire", "release", "acq_rel" or "volatile", `scope`
    "", "cta", "cluster", "gpu" or "sys". `atomic` accesses read and write.
    """

    def started(self, machine: MachineT) -> None:
        """A wave of CTAs is about to run."""

    def ended(self, machine: MachineT) -> None:
        """All warps have exited, and nothing is in flight."""

    def accessed(
        self,
        batch: BatchT,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        """Threads are about to read or write memory through the generic proxy."""

    def stored(
        self, batch: BatchT, mask: Mask, space: str, index: Array, values: tuple[Array, ...]
    ) -> None:
        """Threads are about to store `values`, side by side, by a weak store: after `accessed`."""

    def in_turn(self, batch: BatchT, mask: Mask, turns: list[int] | None, observed: bool) -> None:
        """An atomic of these threads, called before `accessed`.

        `turns`: its lanes (32 a row of the batch) in the order in which they go, None where no two
        of them share a place. `observed`: whether its threads get to know what it read.
        """

    def read_non_coherent(self, batch: BatchT, mask: Mask, index: Array, size: int) -> None:
        """ld.global.nc of these bytes, called before `accessed`: the grid never writes them."""

    # Asynchronous operations. An op is issued by one thread; `op.batch/row/lane` name it.
    def op_issued(self, op: Op) -> None: ...
    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        """`op` read or wrote `size` bytes at each of `starts`, flat bytes of `space`."""

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        """`op` (mma, cp, ld, st) read or wrote tensor memory of the CTA in slot `cta`."""

    def op_done(self, op: Op) -> None:
        """`op` has done all of its reads and writes; no thread has waited for it yet."""

    # Tensor memory: a ld or st is an op of a warp (all lanes).
    def tensor_waited(self, batch: BatchT, mask: Mask, ops: list[Op]) -> None:
        """tcgen05.wait::ld or ::st returned: `ops` are complete for these threads."""

    def tensor_fenced(self, batch: BatchT, mask: Mask, before: bool) -> None:
        """tcgen05.fence::before_thread_sync, or ::after_thread_sync."""

    # mbarriers. `barrier` is a `machine.phase.Barrier`, `phase` counts its phases from 0.
    def arrived(
        self, batch: BatchT, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        """Threads arrived on `barrier` in `phase`."""

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        """`op` signalled `barrier`: "tx" (its bytes), "commit" (what it tracks is complete)."""

    def copies_arrived(self, ops: list[Op], lanes: int, barrier: Barrier, phase: int) -> None:
        """What `lanes` (bits) of a warp copied by cp.async, `ops`, is tracked by their arrivals."""

    def waited(
        self, batch: BatchT, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        """A wait of these threads saw that `phase` of `barrier` is complete."""

    # Barriers of CTA and cluster: `instance` is a hashable name of one use of one barrier.
    def barrier_arrived(
        self, batch: BatchT, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None: ...
    def barrier_passed(
        self, batch: BatchT, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None: ...
    def warp_synced(self, batch: BatchT, mask: Mask) -> None:
        """bar.warp.sync: the lanes of each warp in `mask` have synchronised."""

    # Fences.
    def fenced(self, batch: BatchT, mask: Mask, sem: str, scope: str) -> None: ...
    def proxy_fenced(self, batch: BatchT, mask: Mask, space: str) -> None:
        """fence.proxy.async; `space` is "" (all), "shared::cta", "shared::cluster", "global"."""

    def barriers_published(self, batch: BatchT, mask: Mask) -> None:
        """fence.mbarrier_init."""

    # Groups of bulk copies, cp.async and wgmma.
    def group_waited(self, batch: BatchT, row: int, lanes: int, ops: list[Op], read: bool) -> None:
        """A wait_group of these lanes (bits) returned; `read`: only the sources were read.

        All of them had issued each of `ops`.
        """


EVENTS = tuple(name for name in vars(Events) if not name.startswith("_"))
"""The names of all events."""
