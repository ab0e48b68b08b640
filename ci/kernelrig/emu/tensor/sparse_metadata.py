"""Structured sparsity: which elements of K the stored elements of A are, by codes of four bits.

PTX ISA 9.7.14.6.1. A row of A stores half of its elements. Of each chunk, four elements of K (eight
of 4 bits, which come in pairs, two of tf32), a code of four bits says which are stored: two
indexes, the first in the low bits; of tf32 one, 0b0100 the first of two elements, 0b1110 the other.

The codes of a warp's 16 rows lie in registers. Of 16 and 32 bits a lane holds those of row g in its
lower half and of row g + 8 in the upper, 16 bits along K; of 8 and 4 bits it holds 32 bits of one
row, even lanes of row g, odd ones of g + 8. Lanes that share rows follow one another along K; where
not all four are needed, a selector says which.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.numerics.arrays import Array

CODE_BITS = 4
ROWS = 16
_SHARING = 4  # lanes that share two rows
_GROUPS = 8  # of such lanes
_FIRST_OF_TWO, _SECOND_OF_TWO = 0b0100, 0b1110
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How A of an instruction is stored: `k` counts the elements of B, `bits` those of one.

    `ordered`: indexes of a chunk grow, the instruction says `.sp::ordered_metadata`.
    """

    k: int
    bits: int
    selector: int = 0
    ordered: bool = False

    @property
    def chunk(self) -> int:
        """Elements of K that one code is about."""
        return {4: 8, 32: 2}.get(self.bits, 4)

    @property
    def codes(self) -> int:
        """Of a row."""
        return self.k // self.chunk

    @property
    def selectors(self) -> int:
        """The values that a selector may have."""
        return _SHARING * 32 // (self.codes * CODE_BITS * 2)


def codes_of_lanes(words: Array, sparsity: Sparsity) -> NDArray[np.uint8]:
    """Return codes (warps, 16, codes) out of a register of metadata, (warps, 32)."""
    lanes = np.ascontiguousarray(words, np.uint32).reshape(-1, _GROUPS, _SHARING)
    count = _SHARING // sparsity.selectors
    first = count * sparsity.selector
    used = np.ascontiguousarray(lanes[:, :, first : first + count])
    if sparsity.bits >= 16:  # group, lane, row's half
        parts = used.view(np.uint16).reshape(*used.shape, 2)
        rows = np.ascontiguousarray(parts.transpose(0, 3, 1, 2)).view(np.uint8)
    else:  # group, part of K, row's half
        words = used.reshape(len(used), _GROUPS, -1, 2)
        rows = np.ascontiguousarray(words.transpose(0, 3, 1, 2)).view(np.uint8)
    return codes_of_bytes(rows.reshape(len(used), ROWS, -1))


def codes_of_bytes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the codes of bytes, the lower first: the last axis is twice as long."""
    return np.stack((rows & 15, rows >> 4), axis=-1).reshape(*rows.shape[:-1], -1)


def positions(codes: NDArray[np.uint8], sparsity: Sparsity) -> Positions:
    """Return the element of K that each stored one of A is, the last axis K / 2 long.

    Whatever the code, the element is one of its chunk: of tf32 the upper bit of an index tells.
    """
    chunk = sparsity.chunk
    start = chunk * np.arange(codes.shape[-1])[:, None]
    if chunk == 2:
        inside = (codes >> 1 & 1)[..., None].astype(np.intp)
    else:
        inside = np.stack((codes & 3, codes >> 2), axis=-1).astype(np.intp)
    if chunk == 8:  # pairs
        inside = (2 * inside[..., None] + np.arange(2)).reshape(*codes.shape, 4)
    return np.asarray((start + inside).reshape(*codes.shape[:-1], -1), np.intp)


def chosen(b: Array, where: Positions) -> Array:
    """Return of B (warps, n, K) what each row of A multiplies: (warps, rows, n, K / 2)."""
    return np.take_along_axis(b[:, None], where[:, :, None, :], axis=3)


def chosen_rows(b: Array, where: Positions) -> Array:
    """Return the same of one B (n, K): (rows, n, K / 2)."""
    return np.asarray(chosen(b[None], where[None])[0])


@dataclass(frozen=True, slots=True)
class BadCode:
    """A code that no sparse matrix has. `zeros`: what it is about is zero."""

    warp: int  # of those looked at
    row: int
    chunk: int
    code: int
    zeros: bool
    why: str

    @property
    def rule(self) -> str:
        return "sparse-metadata-of-zeros" if self.zeros else "sparse-metadata"

    @property
    def context(self) -> Context:
        return Context(self.rule)

    @property
    def text(self) -> str:
        return f"the metadata of row {self.row}, chunk {self.chunk} is {self.code:#06b}: {self.why}"


def wrong_codes(sparsity: Sparsity) -> NDArray[np.bool_]:
    """Return for each of the 16 codes whether it is wrong."""
    code = np.arange(1 << CODE_BITS)
    first, second = code & 3, code >> 2
    if sparsity.chunk == 2:
        return np.asarray((code != _FIRST_OF_TWO) & (code != _SECOND_OF_TWO))
    return np.asarray(first >= second if sparsity.ordered else first == second)


def bad_codes(codes: NDArray[np.uint8], a: Array, sparsity: Sparsity) -> list[BadCode]:
    """Return wrong codes (warps, rows, chunks), the first of each warp and rule.

    `a` are the stored elements, (warps, rows, K / 2). Where all that a code is about are zeros,
    nothing hangs on it; of two equal indexes in any order, one zero is enough.
    """
    wrong = wrong_codes(sparsity)[codes]
    if not wrong.any():
        return []
    zero = (a == 0).reshape(*codes.shape, 1 if sparsity.chunk == 2 else 2, -1).all(axis=-1)
    if sparsity.ordered or sparsity.chunk == 2:
        zeros = zero.all(axis=-1)
    else:
        wrong &= ~zero.any(axis=-1)
        zeros = np.zeros_like(wrong)
    found = []
    for of_zeros in (False, True):
        some = wrong & (zeros == of_zeros)
        for warp in np.nonzero(some.any(axis=(1, 2)))[0].tolist():
            row, chunk = (int(n) for n in np.argwhere(some[warp])[0])
            code = int(codes[warp, row, chunk])
            found.append(BadCode(warp, row, chunk, code, of_zeros, _why(code, sparsity)))
    return found


def _why(code: int, sparsity: Sparsity) -> str:
    if sparsity.chunk == 2:
        return "of tf32 it is 0b0100 for the first of two elements, or 0b1110 for the second"
    first, second = code & 3, code >> 2
    if first == second:
        return f"index {first} twice, and two elements of a chunk are stored"
    return f"index {first}, then {second}: .sp::ordered_metadata needs them to grow"
