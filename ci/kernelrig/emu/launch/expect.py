"""Compares what a launch left in its buffers with what the launch file expects."""

from __future__ import annotations

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
from kernelrig.emu.observe.last_writer import NO_WRITER, LastWriter
from kernelrig.errors import ConfigError
from kernelrig.model.frame import Frame

SHOWN = 4
_EPSILON = {"e4m3": 2**-4, "e5m2": 2**-3, "bf16": 2**-8, "f16": 2**-11, "f32": 2**-24}


def compare(loaded: Loaded, machine: Machine, writers: LastWriter) -> None:
    """Report each buffer that differs from what is expected, with the first places.

    Right is within max_abs + max_rel x the magnitude of what was wanted; a NaN matches a NaN.

    Raises:
        ConfigError: an expected array cannot be read, or has another shape.
    """
    for name, expect in loaded.entry.expect.items():
        entry = loaded.entry.buffers[name]
        file = loaded.folder / expect.path
        wanted_bits = read_array(file)
        dtype = DTYPES[entry.dtype]
        if wanted_bits.size != np.prod(entry.shape) or wanted_bits.dtype.itemsize != dtype.itemsize:
            raise ConfigError(f"{file.name}: is no {list(entry.shape)} of {entry.dtype}")
        at = loaded.kernel.buffers[name]
        left = machine.memory.global_.bytes[at.start : at.start + at.size].view(dtype)
        got = decoded(left, entry.dtype)
        wanted = decoded(np.ascontiguousarray(wanted_bits).view(dtype).reshape(-1), entry.dtype)
        bound = expect.max_abs + expect.max_rel * np.abs(wanted)
        with np.errstate(invalid="ignore"):
            right = (np.abs(got - wanted) <= bound) | (np.isnan(got) & np.isnan(wanted))
            right |= got == wanted
        if right.all():
            continue
        wrong = np.flatnonzero(~right)
        shown = []
        for flat in wrong[:SHOWN]:
            place = ", ".join(str(int(i)) for i in np.unravel_index(flat, entry.shape))
            shown.append(f"{name}[{place}] is {got[flat]:g}, wanted {wanted[flat]:g}")
        writer = writers.of(machine, at.start + int(wrong[0]) * dtype.itemsize)
        by = (
            f"written last by {machine.program.label(writer)}"
            if writer != NO_WRITER
            else "never written"
        )
        rows = (-1, entry.shape[-1]) if len(entry.shape) > 1 else (-1,)
        right = right.reshape(rows)
        output = Output(
            got.reshape(rows),
            wanted.reshape(rows),
            right,
            expect.max_abs,
            expect.max_rel,
            dtype.itemsize,
            _EPSILON.get(entry.dtype, 0.0),
        )
        pattern = pattern_of(output, product_of(_inputs(loaded, machine), output.wanted))
        fix = pattern.fix if pattern else ""
        if pattern and (copies := _copies(pattern, loaded, machine, writers)):
            fix += f": {pattern.operand} is copied at {', '.join(f.text for f in copies)}"
        machine.report(
            "mismatch",
            f"{len(wrong)} of {right.size} elements of {name} differ{place_of_wrong(right)}: "
            + "; ".join((*((pattern.text,) if pattern else ()), *shown, f"the first was {by}")),
            at=writer,
            count=len(wrong),
            context=Context(objects=(name,), fix=fix),
        )


def _inputs(loaded: Loaded, machine: Machine) -> dict[str, Numbers]:
    """Return the matrices that the launch reads: buffers with contents that are no output."""
    found = {}
    for name, entry in loaded.entry.buffers.items():
        if (
            len(entry.shape) == 2
            and entry.fill.kind != "undefined"
            and (name not in loaded.entry.expect)
        ):
            at = loaded.kernel.buffers[name]
            raw = machine.memory.global_.bytes[at.start : at.start + at.size]
            found[name] = decoded(raw.view(DTYPES[entry.dtype]), entry.dtype).reshape(entry.shape)
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
