"""An operation at a case: the expressions of kernels.yaml over the case's numbers, evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kernelrig.config.expression import SIZE, evaluate
from kernelrig.errors import ConfigError
from kernelrig.files.validation import Complaint, Loc, nearest
from kernelrig.model import Case, Dtype, Input, Kernel, Operation, Output, Values
from kernelrig.model.operation import InputTensor, OutputTensor

MOST_DIMENSIONS, MOST_TENSORS = 8, 32
INITIAL_ZEROS = "zeros"
"""Of an output: any other word is the name of an input."""
MOST_BYTES = 1 << 40
MOST_NUMBER = 10**12
"""Of a case, and of what programs take (options.cuh)."""
RATES = ("e4m3", "e5m2", "i8", "bf16", "f16", "tf32", "f32")
"""Types of operands for which a peak is known (stages.timing.gpus)."""
_MOST_RANGE = {
    Dtype.E4M3: 448.0,
    Dtype.E5M2: 57344.0,
    Dtype.BF16: 1e38,
    Dtype.F16: 65504.0,
    Dtype.F32: 1e38,
    Dtype.F64: 1e300,
    Dtype.I8: 127.0,
    Dtype.U8: 255.0,
    Dtype.I16: 2.0**15 - 1,
    Dtype.U16: 2.0**16 - 1,
    Dtype.I32: 2.0**30,
    Dtype.U32: 2.0**31,
    Dtype.I64: 2.0**62,
    Dtype.U64: 2.0**62,
}


def operation_at(kernel: Kernel, case: Case) -> Operation:
    """Return an operation's tensors and floors at `case`; ConfigError where one has no size."""
    numbers = case.values
    inputs = tuple(
        InputTensor(name, t.dtype, _shape(t.shape, numbers), t.values, *t.range)
        for name, t in kernel.inputs.items()
    )
    outputs = tuple(
        OutputTensor(name, t.dtype, _shape(t.shape, numbers), t.max_abs, t.max_rel, t.initial)
        for name, t in kernel.outputs.items()
    )
    whole = sum(t.bytes for t in inputs) + sum(t.bytes for t in outputs)
    moved = whole if kernel.bytes_moved == "" else _size(kernel.bytes_moved, numbers)
    flop = tuple((rate, _size(text, numbers)) for rate, text in kernel.flop.items())
    return Operation(case.numbers, inputs, outputs, moved, flop)


def case_words(kernel: Kernel, case: Case) -> tuple[str, ...]:
    """Return the flags that tell a harness program its problem."""
    return operation_at(kernel, case).words if kernel.is_operation else ("--case", str(case))


def emulated_bytes(kernel: Kernel, case: Case) -> int:
    """Return the size of all tensors of an operation at `case`."""
    return operation_at(kernel, case).bytes


def _shape(extents: tuple[int | str, ...], numbers: dict[str, int]) -> tuple[int, ...]:
    return tuple(_size(extent, numbers) for extent in extents)


def _size(text: int | str, numbers: dict[str, int]) -> int:
    return text if isinstance(text, int) else _evaluated(text, tuple(numbers.items()))


@lru_cache(maxsize=1024)
def _evaluated(text: str, numbers: tuple[tuple[str, int], ...]) -> int:
    return evaluate(text, dict(numbers), SIZE)


def operation_rules(kernel: Kernel) -> Iterator[Complaint]:
    """Check the tensors of an operation, and their sizes at every case."""
    if not kernel.is_operation:
        for key in ("inputs", "reference", "bytes_moved", "flop"):
            if getattr(kernel, key):
                text = f"'{key}' is of a kernel that declares 'outputs'; '{kernel.name}' has none"
                yield Complaint((key,), text)
        return
    for key in ("shape", "accum_tol"):
        if getattr(kernel, key):
            yield Complaint(
                (key,), f"'{key}' is of patch_embed; 'outputs' have shapes of their own"
            )
    if not kernel.reference:
        wanted = "the Python file that computes the outputs"
        yield Complaint((), f"missing key 'reference' in '{kernel.name}': {wanted}")
    if both := kernel.inputs.keys() & kernel.outputs.keys():
        yield Complaint(("outputs", min(both)), f"'{min(both)}' is an input and an output")
    for key in ("inputs", "outputs"):
        tensors: dict[str, Input] | dict[str, Output] = getattr(kernel, key)
        if len(tensors) > MOST_TENSORS:
            yield Complaint((key,), f"{len(tensors)} {key}; at most {MOST_TENSORS}")
        for name, tensor in tensors.items():
            yield from (Complaint((key, name, *c.loc), c.text) for c in _tensor_rules(name, tensor))
    for name, output in kernel.outputs.items():
        if wrong := _why_not_initial(output, kernel.inputs):
            yield Complaint(("outputs", name, "initial"), wrong)
    for rate in kernel.flop:
        if rate not in RATES:
            text = f"no peak is known for operands of '{rate}'; known: {', '.join(RATES)}"
            yield Complaint(("flop", rate), text)
    yield from _size_rules(kernel)


def _why_not_initial(output: Output, inputs: dict[str, Input]) -> str:
    """Return why an output cannot start as it says, empty if it can."""
    if output.initial in ("", INITIAL_ZEROS):
        both = output.initial in inputs
        return f"'initial: {INITIAL_ZEROS}' and an input of that name: rename it" if both else ""
    source = inputs.get(output.initial)
    if source is None:
        near = nearest(output.initial, (INITIAL_ZEROS, *inputs))
        return f"'initial' is zeros or the name of an input, not '{output.initial}'{near}"
    if (source.dtype, source.shape) == (output.dtype, output.shape):
        return ""
    said = f"{source.dtype} [{', '.join(map(str, source.shape))}]"
    wanted = f"{output.dtype} [{', '.join(map(str, output.shape))}]"
    return f"'initial' names '{output.initial}', which is {said}: write both as {wanted}"


def _tensor_rules(name: str, tensor: Input | Output) -> Iterator[Complaint]:
    if not name.isidentifier() or not name.isascii() or name == "workspace":
        text = f"'{name}' cannot name a tensor; use letters, digits and '_', not 'workspace'"
        yield Complaint((), text)
    if not 1 <= len(tensor.shape) <= MOST_DIMENSIONS:
        text = f"'shape' has {len(tensor.shape)} extents; 1 to {MOST_DIMENSIONS} are allowed"
        yield Complaint(("shape",), text)
    if isinstance(tensor, Output):
        for key in ("max_abs", "max_rel"):
            if not 0 <= getattr(tensor, key) <= 1e30:
                yield Complaint((key,), f"'{key}' must be 0 or more, not {getattr(tensor, key):g}")
        if not tensor.dtype.is_float and (tensor.max_rel or tensor.max_abs % 1):
            text = f"an output of {tensor.dtype} takes a whole 'max_abs' and no 'max_rel'"
            yield Complaint(("dtype",), text)
        return
    low, high = tensor.range
    most = _MOST_RANGE[tensor.dtype]
    least = 0.0 if tensor.dtype.is_unsigned else -most
    if not least <= low <= high <= most:
        said = f"[{low:g}, {high:g}]"
        text = f"'range' of {tensor.dtype} rises and lies in [{least:g}, {most:g}], not {said}"
        yield Complaint(("range",), text)
    if tensor.values is Values.ZEROS and tensor.range != (-2.0, 2.0):
        yield Complaint(("range",), "'values: zeros' takes no 'range'")


def _size_rules(kernel: Kernel) -> Iterator[Complaint]:
    """Evaluate every expression at every case: a mistake shows before a compiler is started."""
    sized: list[tuple[Loc, int | str]] = [
        ((key, name, "shape", i), extent)
        for key in ("inputs", "outputs")
        for name, tensor in getattr(kernel, key).items()
        for i, extent in enumerate(tensor.shape)
    ]
    floors: list[tuple[Loc, int | str]] = [
        *((("bytes_moved",), kernel.bytes_moved),) * (kernel.bytes_moved != ""),
        *((("flop", rate), text) for rate, text in kernel.flop.items()),
    ]
    for case in kernel.cases.values():
        good = bool(case.numbers)
        for least, group in ((1, sized), (0, floors)) if good else ():
            for loc, text in group:
                try:
                    size = _size(text, case.values)
                except ConfigError as e:
                    yield Complaint(loc, e.message)
                    good = False
                    continue
                if not least <= size <= MOST_BYTES * 1024:
                    said = f"'{text}' is {size} at case '{case.name}', no number from {least} on"
                    yield Complaint(loc, said)
                    good = False
        if good and (size := operation_at(kernel, case).bytes) > MOST_BYTES:
            text = f"the tensors of case '{case.name}' have {size} bytes; at most {MOST_BYTES}"
            yield Complaint(("cases", case.name), text)
