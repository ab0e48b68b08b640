"""Cases in the emulator, and results judged by their oracles."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from kernelrig.emu.launch.engines import NUMPY

from tests.emu.harness import run_text
from tests.emu.instructions.case import BLOCK, THREADS, Bits, Case, Trial, agree, inputs, one_nan

GRID = (THREADS // BLOCK, 1, 1)


def emulate(trial: Trial, engine: str = NUMPY) -> Bits:
    """Return what the kernel leaves in its output."""
    out = np.zeros(trial.slots * THREADS, np.uint64)
    buffers = {"in": trial.data, "out": out}
    left = run_text(trial.text, buffers, grid=GRID, block=(BLOCK, 1, 1), engine=engine)
    errors = [f"{f.kind}: {f.message}" for f in left.findings if f.severity == "error"]
    assert not errors, errors
    return left.buffers["out"]


def wrong(case: Case, results: Sequence[Bits], every: int = 1) -> list[str]:
    """Say where results are not what the case's oracle or bound says; of every n-th thread."""
    columns = [c.tolist() for c in inputs(case)]
    got = list(zip(*(r.tolist() for r in results), strict=True))
    said = []
    for first in range(0, THREADS, 32 if case.warp else every):
        if case.warp:
            assert case.oracle is not None
            expected = case.oracle(*(c[first : first + 32] for c in columns))
            pairs = [(first + k, x) for k, x in enumerate(expected)]  # type: ignore[arg-type,var-annotated]
        else:
            terms = [c[first] for c in columns]
            if case.skip and case.skip(*terms):
                continue
            if case.bound:
                if not case.bound(got[first][0], *terms):
                    said.append(
                        f"{case.text} of {_shown(terms)}: {got[first][0]:#x} is out of bounds"
                    )
                continue
            assert case.oracle is not None
            pairs = [(first, case.oracle(*terms))]
        for at, x in pairs:
            wanted = x if isinstance(x, tuple) else (x,)
            if not agree(case, got[at], wanted):
                terms = [c[at] for c in columns]
                said.append(
                    f"{case.text} of {_shown(terms)}: {_shown(got[at])}, not {_shown(wanted)}"
                )
    return said


def different(case: Case, left: Sequence[Bits], right: Sequence[Bits]) -> list[str]:
    """Say where two machines differ."""
    columns = [c.tolist() for c in inputs(case)]
    said = []
    for at, (x, y) in enumerate(
        zip(
            zip(*(r.tolist() for r in left), strict=True),
            zip(*(r.tolist() for r in right), strict=True),
            strict=True,
        )
    ):
        terms = [c[at] for c in columns]
        if not (case.skip and case.skip(*terms)) and not agree(case, x, y):
            said.append(f"{case.text} of {_shown(terms)}: {_shown(x)} here, {_shown(y)} there")
    return said


def _shown(numbers: Sequence[int]) -> str:
    return ", ".join(f"{n:#x}" for n in numbers)


def digest(case: Case, results: Sequence[Bits]) -> str:
    """Return a checksum of all results, those left open by PTX made equal."""
    sums = []
    columns = [c.tolist() for c in inputs(case)]
    skipped = np.array([bool(case.skip and case.skip(*t)) for t in zip(*columns, strict=True)])
    for kind, result in zip(case.outs.split(), results, strict=True):
        kept = np.where(skipped, np.uint64(0), result)
        if case.nan:
            kept = one_nan(kind, kept)
        sums.append(f"{zlib.crc32(kept.astype('<u8').tobytes()):08x}")
    return " ".join(sums)
