"""The outputs of an operation, element by element, against its reference, which runs here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.config.operation_sizes import operation_at
from kernelrig.errors import ConfigError
from kernelrig.model import Case, Kernel, OutputTensor, Pattern, Verdict, broken, failed, unreadable
from kernelrig.stages.checksum.every_output import SHOWN, Tiles, WrongOutput
from kernelrig.stages.checksum.outputs import judge_sampled
from kernelrig.stages.context import Context
from kernelrig.stages.harness.result import Asked, HarnessResult

if TYPE_CHECKING:
    from kernelrig.reference.comparison import Number
    from kernelrig.reference.tensors import Elements
    from kernelrig.reference.wanted_outputs import Wanted

AT_ONCE = 1 << 20


def judge_operation(
    seen: HarnessResult, asked: Asked, folder: Path, command: str, context: Context
) -> WrongOutput | None:
    """Return what is wrong with the outputs that a program left, None if every element is right.

    First, whether it wrote all of them: `command` is the stem of its result file.
    """
    operation = operation_at(context.kernel, asked.case)
    if [o.name for o in seen.outputs] != [t.name for t in operation.outputs]:
        names = ", ".join(o.name[:40] for o in seen.outputs) or "none"
        return WrongOutput(broken(f"the result names the outputs {names}"))
    unwritten = None
    for found, tensor in zip(seen.outputs, operation.outputs, strict=True):
        if found.elements != tensor.elements:
            said = f"{found.elements} elements of {tensor.name}"
            return WrongOutput(broken(f"{said} were looked at, it has {tensor.elements}"))
        if not 0 <= found.unwritten <= tensor.elements > found.first_unwritten >= 0:
            said = f"{found.unwritten} unwritten elements of {tensor.name}"
            return WrongOutput(broken(f"{said}, {found.first_unwritten} first, are no count"))
        if found.unwritten and unwritten is None:
            place = _place(found.first_unwritten, tensor.shape)
            count = f"{found.unwritten} of {tensor.elements} elements were not written"
            unwritten = WrongOutput(failed(f"{tensor.name}{place}: {count}"))
    if bool(unwritten) != bool(seen.exit_code):
        contradiction = f"exit code {seen.exit_code} contradicts the counts of unwritten elements"
        return WrongOutput(broken(contradiction))
    files = {t.name: folder / f"{command}.{t.name}.npy" for t in operation.outputs}
    pattern = asked.pattern or Pattern(seen.pattern)
    wrong = judge_files(files, asked.case, pattern, asked.seed, context)
    return unwritten or wrong


def judge_once(
    seen: HarnessResult, asked: Asked, folder: Path, command: str, context: Context
) -> Verdict | None:
    """Return what is wrong with the outputs of `--mode once`, None if nothing is.

    Those of an operation are all there, of another program a sample is.
    """
    if not context.kernel.is_operation:
        return judge_sampled(seen, asked.seed, context)
    wrong = judge_operation(seen, asked, folder, command, context)
    return wrong.verdict if wrong else None


def judge_files(
    files: Mapping[str, Path], case: Case, pattern: Pattern, seed: int, context: Context
) -> WrongOutput | None:
    """Return what is wrong in the files of an operation's outputs, by the outputs' names."""
    try:
        wanted = wanted_at(context.kernel, case, pattern, seed)
    except ConfigError as e:
        return WrongOutput(broken(e.message))
    for name, file in files.items():
        got = _load(file, wanted[name].tensor)
        if isinstance(got, WrongOutput):
            return got
        if wrong := _judge(got, wanted[name]):
            return wrong
    return None


def wanted_at(kernel: Kernel, case: Case, pattern: Pattern, seed: int) -> dict[str, Wanted]:
    """Return what each output of an operation must be; ConfigError if its reference fails."""
    from kernelrig.reference.wanted_outputs import wanted_outputs  # numpy takes 0.1 s

    operation = operation_at(kernel, case)
    return wanted_outputs(operation, kernel.reference_text, kernel.reference, pattern, seed)


def operation_said(asked: Asked, context: Context) -> str:
    outputs = operation_at(context.kernel, asked.case).outputs
    names = ", ".join(tensor.name for tensor in outputs)
    return f"all {sum(t.elements for t in outputs)} elements of {names} right"


def operation_facts(seen: HarnessResult, context: Context) -> dict[str, str]:
    facts = {f"elements of {o.name} compared": str(o.elements) for o in seen.outputs}
    for name, output in context.kernel.outputs.items():
        if output.initial:
            said = f"{output.initial}: an element that nothing wrote does not show"
            facts[f"{name} before each launch"] = said
    facts["reference"] = context.kernel.reference
    return facts | ({"label": context.label} if context.label else {})


def _load(file: Path, tensor: OutputTensor) -> Elements | WrongOutput:
    import numpy as np

    from kernelrig.reference.tensors import STORED

    try:
        got = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        return WrongOutput(unreadable(f"the output cannot be read: {file.name}: {e}"))
    if not isinstance(got, np.ndarray):  # an archive of several
        return WrongOutput(unreadable(f"{file.name} is no array of NumPy's"))
    stored = STORED[tensor.dtype]
    if got.shape != tensor.shape or got.dtype != stored or not got.flags.c_contiguous:
        said, wanted = f"{list(got.shape)} of {got.dtype}", f"{list(tensor.shape)} of {stored}"
        return WrongOutput(unreadable(f"{file.name} is {said}, wanted {wanted}"))
    return got


def _judge(got: Elements, wanted: Wanted) -> WrongOutput | None:
    import numpy as np

    from kernelrig.reference.tensors import decoded

    tensor, flat = wanted.tensor, got.reshape(-1)
    columns = tensor.shape[-1]
    tiles = Tiles(tensor.elements // columns, columns)
    count, not_finite, examples = 0, 0, list[str]()
    for first in range(0, flat.size, AT_ONCE):
        part = flat[first : first + AT_ONCE]
        places = np.flatnonzero(wanted.wrong(part, first))
        count += places.size
        tiles.add(first + places)
        numbers = decoded(part[places], tensor.dtype)
        not_finite += int(np.count_nonzero(~np.isfinite(numbers)))
        for i, value in zip(places[: SHOWN - len(examples)], numbers, strict=False):
            index = first + int(i)
            examples.append(_shown(index, value, wanted))
    if not count:
        return None
    said = f"{count} of {flat.size} elements wrong"
    said += f", {not_finite} of them NaN or infinity" if not_finite else ""
    return WrongOutput(failed(f"{examples[0]}; {said}", *examples[1:]), tiles.counted())


def _shown(index: int, got: Number, wanted: Wanted) -> str:
    from kernelrig.reference.comparison import shown

    tensor, right = wanted.tensor, wanted.values.reshape(-1)[index]
    bound = tensor.max_abs + tensor.max_rel * abs(float(right))
    more = f" +- {bound:.4g}" if bound else ""
    place = _place(index, tensor.shape)
    return f"{tensor.name}{place}: got {shown(got)}, wanted {shown(right)}{more}"


def _place(index: int, shape: tuple[int, ...]) -> str:
    """Return the coordinates of an element, `[3, 17]`."""
    place = []
    for i in range(len(shape)):
        inner = math.prod(shape[i + 1 :])
        place.append(index // inner % shape[i])
    return f"[{', '.join(map(str, place))}]"
