"""The result file that every harness program writes, and whether it is of what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrig.config.operation_sizes import operation_at
from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json
from kernelrig.model import Case, Function, Pattern, Phase
from kernelrig.stages.context import Context
from kernelrig.stages.harness.number_limits import odd_number, shown

SCHEMAS, OPERATION_SCHEMA = (1, 2, 3), 4
"""Of 1 are programs that check no timed launch, of 2 those that count no wrong elements by tile; of
4 are operations."""

COMPUTE_CAPABILITIES = {"sm_90a": "9.0", "sm_100a": "10.0"}
"""'a' code runs on exactly this compute capability and on nothing newer."""


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    name: str
    uuid: str
    compute_capability: str
    driver: str
    driver_cuda: int
    runtime_cuda: int
    sm_count: int
    l2_bytes: int
    memory_bus_width_bits: int
    memory_clock_khz: int
    max_sm_clock_khz: int


@dataclass(frozen=True, slots=True)
class Clock:
    sm_mhz: int
    memory_mhz: int
    power_w: float
    power_limit_w: float
    temperature_c: int
    throttle_reasons: str


@dataclass(frozen=True, slots=True)
class Clocks:
    before: Clock | None = None
    after: Clock | None = None
    during: tuple[Clock | None, ...] = ()

    def __iter__(self) -> Iterator[Clock]:
        ends = (self.before, *self.during, self.after)
        return (c for c in ends if c is not None)


@dataclass(frozen=True, slots=True)
class Mismatch:
    row: int
    column: int
    got: float | None
    wanted: float | None
    got_bits: int
    wanted_bits: int


@dataclass(frozen=True, slots=True)
class WrongCounts:
    """How many elements are wrong, by rows of tiles of C; the last tile of a row may have less."""

    tile_rows: int
    tile_columns: int
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """What the program found when it compared every element with its own reference.

    `wrong` is None where none was, and of schemas before 3.
    """

    pattern: str
    seed: int
    elements: int
    mismatches: int
    nan_count: int
    max_abs_error: float | None
    max_rel_error: float | None
    accum_tol: float
    first_mismatch: Mismatch | None
    wrong: WrongCounts | None = None


@dataclass(frozen=True, slots=True)
class CudaError:
    name: str
    code: int
    text: str
    where: str

    def __str__(self) -> str:
        return f"{shown(self.name)} ({self.code}): {shown(self.text)}, at {shown(self.where)}"


@dataclass(frozen=True, slots=True)
class Roles:
    """The report by warp role: W0 loads, W1 issues MMAs, W2 on are the epilogue of the tile before.

    The epilogue's figures leave out the drained tiles, the last of each cluster: no MMA runs during
    their epilogue. `spread_of_means_cycles` is of the read-back, over the epilogue's warps; null
    where no tile was recorded.
    """

    tiles: int
    clusters: int
    k_steps: int
    epilogue_warps: int
    drained_tiles: int
    sm_ghz: float
    launch_ms: float
    spread_of_means_cycles: float | None
    symmetric: bool | None
    figures: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class TracedClock:
    """What one role of a trace build recorded in one row: a tile, or all tiles of a CTA.

    Times are in ns from the earliest `start` on. Each of `marks` is the index of a phase, from
    `first_phase` on, and when it ended; of `marked` phases the first ones are kept.
    """

    row: int
    first_phase: int
    cta: int
    sm: int
    marked: int
    start: int
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PhaseTrace:
    """The records of a trace build's last launch; `phases` are the names of all roles' phases."""

    phases: tuple[str, ...]
    clocks: tuple[TracedClock, ...]


@dataclass(frozen=True, slots=True)
class ShapeSeen:
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class SpotCheck:
    """What a timed launch wrote at sampled places that had been made wrong before it."""

    sample: int
    set: int
    bits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputSeen:
    """An output of an operation, written to a file beside the result.

    `unwritten` elements kept both of the canaries that two launches found in them; the first one
    is at `first_unwritten`, in row order.
    """

    name: str
    file: str
    elements: int
    unwritten: int
    first_unwritten: int


@dataclass(frozen=True, slots=True)
class TimedOutput:
    """The bits that a timed launch of an operation left in an output at sampled places."""

    sample: int
    name: str
    bits: tuple[int, ...]


NO_PRODUCT = ShapeSeen(0, 0, 0)


@dataclass(frozen=True, slots=True)
class HarnessResult:
    """A program's `--result` file. Numbers that are not finite arrive as null.

    Schema 2 has `sets` and `spot_checks`, and `verified_after_timing` is of the last timed launch.
    Schema 4 is of operations: no shape of a product, but `tensors` as the command line declared
    them, and `outputs`.
    """

    schema: int
    program: str
    kernel: str
    label: str
    mode: str
    pattern: str
    seed: int
    case: dict[str, int]
    exit_code: int
    regime: str | None
    device: DeviceSeen | None
    clocks: Clocks
    samples_ms: tuple[float | None, ...]
    checksum: float | None
    sampled: tuple[tuple[int, int, int], ...]
    compared: Compared | None
    verified_after_timing: Compared | None
    error: CudaError | None
    phases: tuple[Phase, ...] = ()
    phase_rows: int = 0
    roles: Roles | None = None
    trace: PhaseTrace | None = None
    function: str = Function.ROUND_THEN_ADD
    sets: int | None = None
    spot_checks: tuple[SpotCheck, ...] | None = None
    shape: ShapeSeen = NO_PRODUCT
    tensors: tuple[str, ...] = ()
    outputs: tuple[OutputSeen, ...] = ()
    timed_outputs: tuple[TimedOutput, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What one command of a stage was asked for: its result must be for exactly that."""

    mode: str
    case: Case
    seed: int
    pattern: Pattern | None = None


def load_result(path: Path) -> HarnessResult:
    """Return the file's content; ProtocolError if it is missing, cut short or of another form."""
    if not path.is_file():
        raise ProtocolError(f"{path.name} is missing: the program wrote no result")
    seen = from_json(HarnessResult, path)
    if odd := odd_number(seen):
        where, said = odd
        raise ProtocolError(f"{path} is not a HarnessResult: '{where.lstrip('.')}' {said}")
    return seen


def find_mismatch(seen: HarnessResult, asked: Asked, exit_code: int, context: Context) -> str:
    """Return what in the result is not what was asked for, empty if all of it is.

    A result left by another run, case, program or machine must not become this one's verdict.
    """
    kernel, build, case = context.kernel, context.build, asked.case
    shape = kernel.shape
    wanted_arch = COMPUTE_CAPABILITIES.get(build.arch, build.arch)
    device = seen.device
    schemas = (OPERATION_SCHEMA,) if kernel.is_operation else SCHEMAS
    pairs = [
        ("schema", seen.schema, seen.schema if seen.schema in schemas else schemas[-1]),
        ("program", seen.program, build.program),
        ("function", seen.function, context.function),
        ("mode", seen.mode, asked.mode),
        ("case", seen.case, case.values),
        ("seed", seen.seed, asked.seed),
        ("exit code", seen.exit_code, exit_code),
    ]
    if asked.pattern is not None:
        pairs.append(("pattern", seen.pattern, asked.pattern.value))
    if shape is not None:
        wanted = (case.images * shape.rows_per_image, shape.n, shape.k)
        pairs.append(("shape", (seen.shape.m, seen.shape.n, seen.shape.k), wanted))
    if kernel.is_operation:
        operation = operation_at(kernel, case)
        declared = (*map(str, operation.inputs), *map(str, operation.outputs))
        pairs.append(("tensors", seen.tensors, declared))
    if device is not None:
        pairs.append(("compute capability", device.compute_capability, wanted_arch))
        if device.driver and context.host.driver:
            pairs.append(("driver", device.driver, context.host.driver))
    if seen.schema > 1 and (seen.sets is None or seen.spot_checks is None):
        return f"the result of schema {seen.schema} names no sets or no spot checks"
    for what, found, expected in pairs:
        if found != expected:
            return f"the result is for {what} {shown(found)}, expected {expected}"
    if seen.kernel != kernel.kernel_regex and not re.fullmatch(kernel.kernel_regex, seen.kernel):
        return f"the result is for kernel {shown(seen.kernel)}, expected {kernel.kernel_regex}"
    if device is None:
        return "" if exit_code else "the result names no device"
    gpu = context.host.gpu
    same_name = device.name == gpu.get("name", device.name)
    if not device.uuid or device.uuid != gpu.get("uuid") or not same_name:
        judged = f"{gpu.get('name', 'no name')}, {gpu.get('uuid', 'no UUID')}"
        came = f"{shown(device.name)}, {shown(device.uuid)}"
        return (
            f"the result comes from {came}; the GPU that was judged is {judged}: say which to use"
            " by CUDA_VISIBLE_DEVICES in the remote's `env`"
        )
    return ""
