"""An operation at one case: its tensors with their extents, and what it must move and compute."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelrig.model.configuration import Dtype, Values


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of an operation, with its extents."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes_each


@dataclass(frozen=True, slots=True)
class InputTensor(Tensor):
    """A tensor that is filled before a launch; `low` and `high` are those of its values."""

    values: Values
    low: float
    high: float

    def __str__(self) -> str:
        """Return it as the programs' `--input` takes it."""
        return f"{self.name}:{self.dtype}:{_extents(self.shape)}:{self.values}:{_ends(self)}"


@dataclass(frozen=True, slots=True)
class OutputTensor(Tensor):
    """A tensor that is compared after a launch; `initial` is as kernels.yaml has it."""

    max_abs: float
    max_rel: float
    initial: str = ""

    def __str__(self) -> str:
        """Return it as the programs' `--output` takes it."""
        held = f":{self.initial}" if self.initial else ""
        return f"{self.name}:{self.dtype}:{_extents(self.shape)}{held}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What a kernel computes at one case; `numbers` are the case's.

    `bytes_moved` is what memory must move in one launch at the least, `flop` the operations by the
    type of their operands.
    """

    numbers: tuple[tuple[str, int], ...]
    inputs: tuple[InputTensor, ...]
    outputs: tuple[OutputTensor, ...]
    bytes_moved: int
    flop: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return sum(t.bytes for t in self.inputs) + sum(t.bytes for t in self.outputs)

    @property
    def words(self) -> tuple[str, ...]:
        """The flags that declare the case and the tensors to a program."""
        case = ",".join(f"{name}={number}" for name, number in self.numbers)
        inputs = (word for tensor in self.inputs for word in ("--input", str(tensor)))
        outputs = (word for tensor in self.outputs for word in ("--output", str(tensor)))
        return ("--case", case, *inputs, *outputs)


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _ends(tensor: InputTensor) -> str:
    return f"{tensor.low!r}:{tensor.high!r}"
