"""Sets of tunables as variants of their kernel: so all that builds and runs a variant takes one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kernelrig.model import Kernel, TunableSet
from kernelrig.sweep.set_choice import BASE


def with_sets(kernel: Kernel, sets: Iterable[TunableSet]) -> Kernel:
    """Return the kernel with a variant for each set, called by its id, and no others."""
    base = kernel.variants[BASE]
    made = {
        s.id: replace(base, name=s.id, defines={**base.defines, **s.values}, archs=()) for s in sets
    }
    return replace(kernel, variants=made)
