"""Tensor maps that kernels of this wave have edited: whose threads have acquired them since.

Copies read a map through a proxy of its own (PTX ISA 9.7.13.4): what has been written to it they
see behind a fence.proxy.tensormap::generic.acquire alone. One in a thread of the CTA counts for all
of its threads.
"""

from __future__ import annotations

from kernelrig.emu.machine.machine_state import Machine


class EditedMaps:
    """A part of a machine. Maps go by their flat bytes of global memory, CTAs by their slots."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._acquired: dict[int, set[int]] = {}

    def edited(self, flat: int) -> None:
        self._acquired[flat] = set()
        self._machine.watch_map(flat)

    def acquired(self, flat: int, slots: set[int]) -> None:
        if flat in self._acquired:
            self._acquired[flat] |= slots

    def is_behind(self, flat: int, slot: int) -> bool:
        """Say whether copies of that CTA may see the map as it was before it was edited."""
        return flat in self._acquired and slot not in self._acquired[flat]
