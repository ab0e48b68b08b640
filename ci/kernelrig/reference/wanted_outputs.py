"""What the outputs of an operation must be: its reference, run in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelrig.errors import CiError, ConfigError
from kernelrig.model import Operation, OutputTensor, Pattern
from kernelrig.proc import run_process
from kernelrig.reference.comparison import within
from kernelrig.reference.inputs import Indices
from kernelrig.reference.reference_child import EXIT_REFUSED, FILE
from kernelrig.reference.tensors import (
    WIDE_INTEGERS,
    Elements,
    Numbers,
    decoded,
    encoded,
    input_elements,
)

Truths = NDArray[np.bool_]

LIMIT_S = 600
MOST_BYTES = 48 << 30
"""Of address space: more than the arrays of any case that is compared, less than a host has."""
KEPT_BYTES = 1 << 28
"""Outputs of so many bytes are kept: several stages and schedules compare with them."""
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The reference of one output, exact (of I64 and U64 as integers), and rounded to its type."""

    tensor: OutputTensor
    values: Numbers
    rounded: Elements

    def wrong(self, got: Elements, first: int = 0) -> Truths:
        """Return which of the stored elements from `first` on are not right, in row order.

        Right is finite, and the rounded reference or within the tolerance of the exact one.
        """
        return self._wrong(got.reshape(-1), slice(first, first + got.size))

    def wrong_at(self, got: Elements, places: Indices) -> Truths:
        """Return which of the stored elements at `places`, in row order, are not right."""
        return self._wrong(got, places)

    def _wrong(self, got: Elements, part: slice | Indices) -> Truths:
        wanted = self.values.reshape(-1)[part]
        numbers = decoded(got, self.tensor.dtype)
        same = numbers == decoded(self.rounded.reshape(-1)[part], self.tensor.dtype)
        near = within(numbers, wanted, self.tensor.max_abs, self.tensor.max_rel)
        wrong = ~(np.isfinite(numbers) & (same | near))
        return np.asarray(wrong, np.bool_)


def wanted_outputs(
    operation: Operation, text: str, name: str, pattern: Pattern, seed: int
) -> dict[str, Wanted]:
    """Return what each output must be; `text` is the reference's, `name` its file's.

    Raises:
        ConfigError: the reference fails, or returns what is no output.
    """
    whole = sum(8 * tensor.elements for tensor in operation.outputs)
    compute = _kept_outputs if whole <= KEPT_BYTES else _outputs
    return compute(operation, text, name, pattern, seed)


def _outputs(
    operation: Operation, text: str, name: str, pattern: Pattern, seed: int
) -> dict[str, Wanted]:
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as top:
        folder = Path(top)
        (folder / FILE).write_text(text, encoding="utf-8")
        for tensor in operation.inputs:
            stored = input_elements(tensor, pattern, seed)
            np.save(folder / f"in-{tensor.name}.npy", decoded(stored, tensor.dtype))
        asked = {
            "case": dict(operation.numbers),
            "inputs": [tensor.name for tensor in operation.inputs],
            "outputs": {tensor.name: list(tensor.shape) for tensor in operation.outputs},
            "whole": [t.name for t in operation.outputs if t.dtype in WIDE_INTEGERS],
        }
        (folder / "asked.json").write_text(json.dumps(asked))
        _run(folder, name, [tensor.name for tensor in operation.outputs])
        return {tensor.name: _wanted(folder, tensor, name) for tensor in operation.outputs}


_kept_outputs = lru_cache(maxsize=8)(_outputs)


def _run(folder: Path, name: str, outputs: Sequence[str]) -> None:
    """Run the reference with limits and few variables of the environment."""
    module, cpus = "kernelrig.reference.reference_child", os.cpu_count() or 1
    argv = [sys.executable, "-m", module, str(folder), str(LIMIT_S * cpus), str(MOST_BYTES)]
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    env = {**kept, "PYTHONPATH": str(_PACKAGE), "OPENBLAS_NUM_THREADS": str(cpus)}
    try:
        done = run_process(argv, cwd=folder, env=env, timeout_s=LIMIT_S)
    except CiError as e:
        if isinstance(e, ConfigError):
            raise
        raise ConfigError(f"the reference {name} did not end within {LIMIT_S} s") from e
    left = all((folder / f"out-{output}.npy").is_file() for output in outputs)
    if done.exit_code == 0 and left:
        return
    said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if done.exit_code < 0:
        said = f"signal {-done.exit_code} ended it"
    elif done.exit_code != EXIT_REFUSED:
        said = f"exit code {done.exit_code}: {said}"
    raise ConfigError(f"the reference {name} fails: {said[:500]}")


def _wanted(folder: Path, tensor: OutputTensor, name: str) -> Wanted:
    values = np.load(folder / f"out-{tensor.name}.npy", allow_pickle=False)
    rounded = encoded(values, tensor.dtype)
    back = decoded(rounded, tensor.dtype)
    unfit = ~np.isfinite(back) if tensor.dtype.is_float else back != values
    if unfit.any():
        place = np.argwhere(unfit)[0].tolist()
        said = f"{tensor.name}{place} is {values[tuple(place)]:g}, which no {tensor.dtype} can be"
        raise ConfigError(f"the reference {name} fails: {said}")
    whole = tensor.dtype in WIDE_INTEGERS
    return Wanted(tensor, back if whole else values, rounded)
