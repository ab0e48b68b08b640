"""Compares what a launch left in its buffers with what the launch file expects."""

from __future__ import annotations

import math

import numpy as np

from kernelrig.emu.launch.element_types import DTYPES, decoded
from kernelrig.emu.launch.loader import Loaded, read_array
from kernelrig.emu.launch.mismatch_pattern import (
    Numbers,
    Output,
    Pattern,
    pattern_of,
    place_of_wrong,
    product_of,
)
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.last_writer import NO_WRITER, LastWriter
from kernelrig.errors import ConfigError
from kernelrig.model.frame import Frame
from kernelrig.reference.comparison import shown, within
from kernelrig.reference.tensors import WIDE_INTEGERS

SHOWN = 4
BLOCK = 1 << 22
"""Elements that are compared at a time, as numbers of 8 bytes."""
_MOST_INPUT = 1 << 26
_EPSILON = {
    "e4m3": 2**-4, "e5m2": 2**-3, "bf16": 2**-8, "f16": 2**-11, "f32": 2**-24, "f64": 2**-53,
}  # fmt: skip


def compare(loaded: Loaded, machine: Machine, writers: LastWriter) -> None:
    """Report each buffer that differs from what is expected, with the first places.

    Right is within max_abs + max_rel x the magnitude of what was wanted; a NaN matches a NaN.

    Raises:
        ConfigError: an expected array cannot be read, or has another shape.
    """
    for name, expect in loaded.entry.expect.items():
        entry = loaded.entry.buffers[name]
        file = loaded.folder / expect.path
        wanted = read_array(file)
        dtype = DTYPES[entry.dtype]
        if wanted.size != math.prod(entry.shape) or wanted.dtype.itemsize != dtype.itemsize:
            raise ConfigError(f"{file.name}: is no {list(entry.shape)} of {entry.dtype}")
        found = _Differences(loaded, machine, name)
        wide = entry.shape[-1] if len(entry.shape) > 1 else 1
        step = max(BLOCK // wide, 1) * wide
        flat = wanted.reshape(-1)
        for first in range(0, flat.size, step):
            found.add(first, np.ascontiguousarray(flat[first : first + step]).view(dtype))
        if found.count:
            found.report(writers)


class _Differences:
    """What is wrong in one buffer, of which blocks of whole rows are compared one by one."""

    def __init__(self, loaded: Loaded, machine: Machine, name: str) -> None:
        self._loaded, self._machine, self._name = loaded, machine, name
        self._entry, self._expect = loaded.entry.buffers[name], loaded.entry.expect[name]
        self._rows = (-1, self._entry.shape[-1]) if len(self._entry.shape) > 1 else (-1,)
        self._size = math.prod(self._entry.shape)
        self._bytes_each = DTYPES[self._entry.dtype].itemsize
        self._lines = [
            np.zeros(n, np.bool_)
            for n in (self._size // self._entry.shape[-1], self._entry.shape[-1])
        ]
        self._shown: list[str] = []
        self._first_wrong = 0
        self._first_block: tuple[int, Output] | None = None
        self.count = 0

    def add(self, first: int, wanted_bits: Array) -> None:
        """Compare the elements from `first` on."""
        entry, expect = self._entry, self._expect
        at = self._loaded.kernel.buffers[self._name]
        start = at.start + first * self._bytes_each
        raw = self._machine.memory.global_.bytes[start : start + wanted_bits.nbytes]
        if np.array_equal(raw, wanted_bits.view(np.uint8)):
            return
        held = raw.view(wanted_bits.dtype)
        got, wanted = decoded(held, entry.dtype), decoded(wanted_bits, entry.dtype)
        exact: tuple[Array, Array] = (got, wanted)
        if entry.dtype in WIDE_INTEGERS:
            exact = (held, wanted_bits)
        right = within(*exact, expect.max_abs, expect.max_rel) | (exact[0] == exact[1])
        right |= np.isnan(got) & np.isnan(wanted)
        if right.all():
            return
        wrong = np.flatnonzero(~right)
        for flat in wrong[: SHOWN - len(self._shown)]:
            place = ", ".join(str(int(i)) for i in np.unravel_index(first + flat, entry.shape))
            said = " is {}, wanted {}".format(*(shown(side[flat], 6) for side in exact))
            self._shown.append(f"{self._name}[{place}]{said}")
        right = right.reshape(self._rows)
        if right.ndim == 2:
            row = first // right.shape[1]
            self._lines[0][row : row + len(right)] = ~right.all(axis=1)
            self._lines[1] |= ~right.all(axis=0)
        if not self.count:
            self._first_wrong = first + int(wrong[0])
            output = Output(
                got.reshape(self._rows),
                wanted.reshape(self._rows),
                right,
                expect.max_abs,
                expect.max_rel,
                self._bytes_each,
                _EPSILON.get(entry.dtype, 0.0),
            )
            self._first_block = first, output
        self.count += len(wrong)

    def report(self, writers: LastWriter) -> None:
        loaded, machine, name = self._loaded, self._machine, self._name
        at = loaded.kernel.buffers[name]
        writer = writers.of(machine, at.start + self._first_wrong * self._bytes_each)
        by = (
            f"written last by {machine.program.label(writer)}"
            if writer != NO_WRITER
            else "never written"
        )
        pattern, text = self._pattern()
        fix = pattern.fix if pattern else ""
        if pattern and (copies := _copies(pattern, loaded, machine, writers)):
            fix += f": {pattern.operand} is copied at {', '.join(f.text for f in copies)}"
        place = place_of_wrong(*self._lines) if len(self._rows) > 1 else ""
        machine.report(
            "mismatch",
            f"{self.count} of {self._size} elements of {name} differ{place}: "
            + "; ".join((*text, *self._shown, f"the first was {by}")),
            at=writer,
            count=self.count,
            context=Context(objects=(name,), fix=fix),
        )

    def _pattern(self) -> tuple[Pattern | None, tuple[str, ...]]:
        """Return what the wrong elements are, and the words: of a large output, in a part of it."""
        assert self._first_block is not None
        first, output = self._first_block
        if output.right.ndim < 2:
            return None, ()
        rows = slice(first // self._rows[-1], first // self._rows[-1] + len(output.right))
        whole = output.right.size == self._size
        inputs = _inputs(self._loaded, self._machine, len(self._lines[0]), rows)
        pattern = pattern_of(output, product_of(inputs, output.wanted))
        if pattern is None:
            return None, ()
        where = "" if whole else f"of rows {rows.start} to {rows.stop - 1}: "
        return pattern, (f"{where}{pattern.text}",)


def _inputs(loaded: Loaded, machine: Machine, height: int, rows: slice) -> dict[str, Numbers]:
    """Return the matrices that the launch reads: buffers with contents that are no output.

    Those of `height` rows are cut to `rows`, as the output is.
    """
    found = {}
    for name, entry in loaded.entry.buffers.items():
        if (
            len(entry.shape) == 2
            and entry.fill.kind != "undefined"
            and (name not in loaded.entry.expect)
        ):
            at = loaded.kernel.buffers[name]
            raw = machine.memory.global_.bytes[at.start : at.start + at.size]
            held = raw.view(DTYPES[entry.dtype]).reshape(entry.shape)
            if entry.shape[0] == height:
                held = held[rows]
            if held.size <= _MOST_INPUT:
                found[name] = decoded(held, entry.dtype)
    return found


def _copies(
    pattern: Pattern, loaded: Loaded, machine: Machine, writers: LastWriter
) -> tuple[Frame, ...]:
    """Return the lines that copy the operand of which other rows were used, () for no operand.

    A function of the kernel's file that copies is named by its call: it may copy any operand.
    """
    if not pattern.operand:
        return ()
    buffer = loaded.kernel.buffers[pattern.operand]
    places = map(machine.program.where, writers.copies_from(buffer.start, buffer.size))
    own = ([f for f in p.frames if f.file == p.frame.file and f.line][:2] for p in places)
    return tuple(dict.fromkeys(frames[-1] for frames in own if frames))
