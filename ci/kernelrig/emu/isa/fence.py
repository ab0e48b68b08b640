"""Fences: nothing happens in values, all of it is for observers. PTX ISA 9.7.13.4, 9.7.13.13."""

from __future__ import annotations

from kernelrig.emu.isa._forms import chosen, expect
from kernelrig.emu.machine.edited_maps import EditedMaps
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.lane_groups import value_at
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE
from kernelrig.emu.machine.thread_memory import SCOPES, SEMANTICS
from kernelrig.emu.numerics.arrays import I64, Array, Mask
from kernelrig.ptx import Instruction

_MEMBAR_SCOPES = {"cta": "cta", "gl": "gpu", "sys": "sys"}
_PROXIED = {"": 0, "global": 2}
_OF_SHARED = 1


def _fence(i: Instruction) -> Step:
    expect(i, 0)
    sem = chosen(i, "sc acq_rel acquire release", "acq_rel")
    return _thread_fence(sem, chosen(i, "cta cluster gpu sys"))


def _membar(i: Instruction) -> Step:
    """The older name of fence.sc."""
    expect(i, 0)
    return _thread_fence("sc", _MEMBAR_SCOPES[chosen(i, "cta gl sys")])


def _thread_fence(sem: str, scope: str) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        if batch.machine.hooks:
            batch.machine.hooks.fenced(batch, mask, sem, scope)

    native = Native("fence", ((*SEMANTICS, "sc").index(sem), ("", *SCOPES).index(scope)))
    return Step(run, effect=True, stop=True, native=native)


def _restricted(i: Instruction) -> Step:
    """Fences of shared memory alone: .release for what is in the own CTA's, .acquire for what is
    in the cluster's. They order less than the whole fence; observers see that one.
    """
    expect(i, 0)
    sem = chosen(i, "acquire release")
    wanted = "shared::cta" if sem == "release" else "shared::cluster"
    if not i.has(f"sync_restrict::{wanted}"):
        raise Unsupported(f"{i.mnemonic}: .{sem} goes with .sync_restrict::{wanted}")
    return _thread_fence(sem, "cluster")


def _proxy(i: Instruction) -> Step:
    expect(i, 0)
    space = chosen(i, "shared::cta shared::cluster shared global", "none").replace("none", "")
    space = "shared::cta" if space == "shared" else space

    def run(batch: WarpBatch, mask: Mask) -> None:
        if batch.machine.hooks:
            batch.machine.hooks.proxy_fenced(batch, mask, space)

    native = Native("fence.proxy", (_PROXIED.get(space, _OF_SHARED),))
    return Step(run, effect=True, stop=True, native=native)


def _alias(i: Instruction) -> Step:
    """Between two addresses of one place: here a place has one address."""
    expect(i, 0)
    return Step(lambda: None)


def _one_way_proxy(i: Instruction) -> Step:
    """fence.proxy.async::generic: async and generic proxy of the cluster's shared memory, composed
    with an acquire or release of the cluster.
    """
    expect(i, 0)
    sem = chosen(i, "acquire release")
    space = "shared::cluster" if sem == "acquire" else "shared::cta"
    if not i.has(f"sync_restrict::{space}"):
        raise Unsupported(f"{i.mnemonic}: .{sem} goes with .sync_restrict::{space}")

    def run(batch: WarpBatch, mask: Mask) -> None:
        hooks = batch.machine.hooks
        if hooks and sem == "acquire":
            hooks.fenced(batch, mask, sem, "cluster")
        if hooks:
            hooks.proxy_fenced(batch, mask, space)
        if hooks and sem == "release":
            hooks.fenced(batch, mask, sem, "cluster")

    return Step(run, effect=True, stop=True)


def _tensor_map_proxy(i: Instruction) -> Step:
    """An acquire or release; copies of the CTA may use the map that is acquired."""
    sem = chosen(i, "acquire release")
    operands = expect(i, 2) if sem == "acquire" else expect(i, 0)
    scope = chosen(i, "cta cluster gpu sys")

    def run(batch: WarpBatch, mask: Mask, *address: Array) -> None:
        machine = batch.machine
        if machine.hooks:
            machine.hooks.fenced(batch, mask, sem, scope)
        for number, lane in batch.threads(mask) if address else ():
            flat = value_at(address[0], number, lane) - GLOBAL_BASE
            slot = int(machine.slot_of[batch.warps[number]])
            machine.part(EditedMaps).acquired(flat, {slot})

    return Step(run, ((operands[0], I64),) if operands else (), effect=True, stop=True)


def _mbarrier_init(i: Instruction) -> Step:
    expect(i, 0)

    def run(batch: WarpBatch, mask: Mask) -> None:
        if batch.machine.hooks:
            batch.machine.hooks.barriers_published(batch, mask)

    return Step(run, effect=True, stop=True, native=Native("fence.mbarrier_init"))


def _grid_wait(i: Instruction) -> Step:
    """griddepcontrol.wait: a launch here depends on no other grid."""
    expect(i, 0)
    return Step(lambda batch, mask: None, effect=True, stop=True, native=Native("sync.quiet"))


_RESTRICT = "sync_restrict::shared::cta sync_restrict::shared::cluster"

ROWS: tuple[Row, ...] = (
    row("fence", _fence, takes="sc acq_rel acquire release cta cluster gpu sys"),
    row("fence", _restricted, needs="release sync_restrict::shared::cta cluster"),
    row("fence", _restricted, needs="acquire sync_restrict::shared::cluster cluster"),
    row("fence", _proxy, needs="proxy async", takes="shared shared::cta shared::cluster global"),
    row("fence", _alias, needs="proxy alias"),
    row(
        "fence",
        _one_way_proxy,
        needs="proxy async::generic cluster",
        takes=f"acquire release {_RESTRICT}",
    ),
    row(
        "fence",
        _tensor_map_proxy,
        needs="proxy tensormap::generic",
        takes="acquire release cta cluster gpu sys",
    ),
    row("fence", _mbarrier_init, needs="mbarrier_init release cluster"),
    row("membar", _membar, takes="cta gl sys"),
    row("membar", _proxy, needs="proxy async", takes="shared shared::cta shared::cluster global"),
    row("griddepcontrol", _grid_wait, needs="wait"),
    row("griddepcontrol", _grid_wait, needs="launch_dependents"),
)
