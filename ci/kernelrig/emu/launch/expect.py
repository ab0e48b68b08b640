"""Compares what a launch left in its buffers with what the launch file expects."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.launch.element_types import DTYPES, decoded
from kernelrig.emu.launch.loader import Loaded, read_array
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.observe.last_writer import NO_WRITER, LastWriter
from kernelrig.errors import ConfigError

SHOWN = 4


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
        machine.report(
            "mismatch",
            f"{len(wrong)} of {right.size} elements of {name} differ: {'; '.join(shown)}; "
            f"the first was {by}",
            at=writer,
            count=len(wrong),
            context=Context(objects=(name,)),
        )
