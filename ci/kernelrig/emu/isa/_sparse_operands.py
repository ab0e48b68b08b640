"""What the text of a sparse product says of its metadata."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.tensor.sparse_metadata import Sparsity
from kernelrig.ptx import Instruction, Integer, Operand

VARIANTS = ("sp", "sp::ordered_metadata")
"""Of mma; wgmma and tcgen05 have the first alone."""


def sparsity_of(i: Instruction, k: int, bits: int, selector: Operand) -> Sparsity:
    """Return how A is stored, of `k` elements of so many bits."""
    found = Sparsity(k, bits, ordered=VARIANTS[1] in i.flags)
    if not isinstance(selector, Integer) or not 0 <= selector.value < found.selectors:
        allowed = ", ".join(map(str, range(found.selectors)))
        raise Unsupported(f"{i.mnemonic}: the sparsity selector is {allowed}, not {selector}")
    return replace(found, selector=selector.value)
