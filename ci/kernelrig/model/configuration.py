"""The user's configuration: remotes, kernels, plans. Names come from the keys of the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Literal

from kernelrig.model.rule import SassRules
from kernelrig.model.tunable import Tunable
from kernelrig.model.verdict import Function, Pattern, StageKind

FILLED_IN = "filled in"
"""Of a field that no file has as a key: what is read from it follows from other keys."""
TIME_UNITS = ("ns", "us", "ms", "s")
"""Of a printed metric that is a time."""
FULL = "full"
"""The case of a stage that names none."""


class EmulatorEngine(StrEnum):
    """What executes an emulated launch; the results are equal."""

    NATIVE = "native"
    NUMPY = "numpy"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Emulation:
    """How launches are emulated: schedules per launch, their seed, how sums are rounded, and by
    which engine; `auto` is the native one where it can be built.

    `checked_schedules` applies to a launch of which only the outputs are compared. `tools` are the
    sanitizers whose observers look for a fault; empty = all of them. `severities` are RULE=LEVEL,
    what the user says besides the emulator's table; `strict`: every warning is an error.
    """

    schedules: int = 4
    checked_schedules: int = 2
    seed: int = 0
    accumulate: Literal["fp32", "hardware"] = "fp32"
    tools: tuple[str, ...] = ()
    engine: EmulatorEngine = EmulatorEngine.AUTO
    severities: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A patch that breaks a kernel on purpose; `kinds` are the findings that it may show as.

    `case` is the smallest that shows it, empty where any does.
    """

    name: str
    broken: str
    kinds: tuple[str, ...]
    variant: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compile a kernel; `defines` are -D names with their values.

    `archs` are those that it exists for; empty = every arch of the kernel. `function` is what its
    outputs are compared with; it is passed to the compiler where it is not the project's own.
    """

    name: str
    program: str
    defines: dict[str, str | int | float] = field(default_factory=dict)
    nvcc_flags: tuple[str, ...] = ()
    libs: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    function: Function = Function.ROUND_THEN_ADD


@dataclass(frozen=True, slots=True)
class Case:
    """A problem size: `images` x Shape.rows_per_image rows; `ctas` caps the grid, 0 = every SM.

    Of an operation, whose tensors have shapes of their own, it is any named whole `numbers`.
    """

    name: str
    images: int = 0
    ctas: int = 0
    numbers: tuple[tuple[str, int], ...] = field(default=(), metadata={FILLED_IN: True})

    @property
    def values(self) -> dict[str, int]:
        """The numbers by name, as programs get and report them."""
        return dict(self.numbers) or {"images": self.images, "ctas": self.ctas}

    def __str__(self) -> str:
        """Return it as the programs' `--case` takes it."""
        return ",".join(f"{name}={number}" for name, number in self.values.items())


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """One way to start a plain program. Without `args` it has those of its kernel; `env` and
    `files` are added to the kernel's.
    """

    name: str
    args: tuple[str, ...] | None = None
    env: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a plain program is started; `files` are its input files, relative to kernel/."""

    args: tuple[str, ...]
    env: dict[str, str]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrintedMetric:
    """A number that a plain program prints, the group of `regex`. `better`: which way is good."""

    name: str
    regex: str
    unit: str = ""
    better: Literal["", "lower", "higher"] = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a build; None = not limited. Shared memory is static + dynamic bytes a CTA.

    `ctas_per_sm` is the number of CTAs that must fit on an SM.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    local_instructions: int | None = None
    shared_bytes: int | None = None
    barriers: int | None = None
    ctas_per_sm: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The matrix product behind a case, for its speed of light: rows per image, N, K."""

    rows_per_image: int
    n: int
    k: int


class Dtype(StrEnum):
    """The type of a tensor's elements."""

    E4M3 = "e4m3"
    E5M2 = "e5m2"
    BF16 = "bf16"
    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"

    @property
    def is_float(self) -> bool:
        return self.value[0] not in "iu"

    @property
    def is_unsigned(self) -> bool:
        return self.value[0] == "u"

    @property
    def bytes_each(self) -> int:
        if self in (Dtype.E4M3, Dtype.E5M2):
            return 1
        return int(self.value.lstrip("bfiu")) // 8


class Values(StrEnum):
    """What random data of an input is: kernelrig.reference.tensors has the formulas."""

    UNIFORM = "uniform"
    UNEVEN = "uneven"
    RAMP = "ramp"
    ZEROS = "zeros"


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that an operation reads; extents are expressions over the case's numbers."""

    dtype: Dtype
    shape: tuple[int | str, ...]
    values: Values = Values.UNIFORM
    range: tuple[float, float] = (-2.0, 2.0)


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that an operation writes, right within `max_abs` + `max_rel` x |reference|.

    An element is also right if it is the reference rounded to `dtype`: without a tolerance it must
    be. NaN and infinity never are. `initial` is what it holds before a launch: `zeros`, or the
    values of the input that it names; empty is a canary, by which an unwritten element shows.
    """

    dtype: Dtype
    shape: tuple[int | str, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0
    initial: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedFinding:
    """A reviewed finding of a sanitizer, the emulator or `check`; accepted until `expires`."""

    tool: str
    fingerprint: str
    tool_version: str
    reason: str
    expires: date


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to build. Level 1 is a harness program (kernel-binary.md), level 0 a plain one.

    `budgets` are by arch, then by variant; `tunables` and `sass` by arch. `label` is shown in every
    report: one text, or a text per arch where a stand-in serves one arch only. `extras` are those
    locks (`ci/locks`) whose wheels have headers that the sources include. A harness program with
    `outputs` is an operation: its tensors are declared here, and `reference_text` is the text of
    the Python file `reference`, which computes the outputs from the inputs.
    """

    name: str
    sources: dict[str, str]
    variants: dict[str, Variant]
    level: Literal[0, 1] = 1
    kernel_regex: str = ""
    label: str | dict[str, str] = ""
    baseline: bool = False
    cases: dict[str, Case] = field(default_factory=dict)
    accum_tol: dict[str, float] = field(default_factory=dict)
    shape: Shape | None = None
    inputs: dict[str, Input] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    reference: str = ""
    reference_text: str = field(default="", metadata={FILLED_IN: True})
    bytes_moved: int | str = ""
    flop: dict[str, int | str] = field(default_factory=dict)
    budgets: dict[str, dict[str, Budget]] = field(default_factory=dict)
    tunables: dict[str, dict[str, Tunable]] = field(default_factory=dict)
    sass: dict[str, SassRules] = field(default_factory=dict)
    accepted: tuple[AcceptedFinding, ...] = ()
    args: tuple[str, ...] = ()
    expected_lines: tuple[str, ...] = ()
    cuda: bool = True
    extras: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    program_cases: dict[str, ProgramCase] = field(default_factory=dict, metadata={FILLED_IN: True})
    must_print: str = ""
    must_not_print: str = ""
    metrics: dict[str, PrintedMetric] = field(default_factory=dict)
    default: bool = field(default=False, metadata={FILLED_IN: True})

    def invocation(self, case: str) -> Invocation:
        """Return how a plain program is started for `case`; one that it lacks is as without."""
        own = self.program_cases.get(case or FULL, ProgramCase(case))
        args = self.args if own.args is None else own.args
        return Invocation(
            args, {**self.env, **own.env}, tuple(dict.fromkeys((*self.files, *own.files)))
        )

    @property
    def judges_output(self) -> bool:
        """Whether anything that a plain program prints is judged."""
        return bool(self.expected_lines or self.must_print or self.must_not_print)

    @property
    def prints_no_time(self) -> bool:
        """Whether it is a plain CUDA program none of whose metrics is a time: they are measured."""
        return (
            self.level == 0
            and self.cuda
            and not any(m.unit in TIME_UNITS for m in self.metrics.values())
        )

    @property
    def is_operation(self) -> bool:
        """Whether it is a harness program whose tensors are declared."""
        return bool(self.outputs)

    def judged_as(self, kind: StageKind) -> StageKind:
        """Return what a stage of `kind` is of this kernel: nothing but its own program compares a
        plain program's outputs, and measures its times.
        """
        plain = {StageKind.CHECKSUM: StageKind.EXIT_STATUS, StageKind.TIMING: StageKind.METRICS}
        return kind if self.level else plain.get(kind, kind)

    def label_for(self, arch: str) -> str:
        """Return what every report must say of a build for `arch`, empty if nothing."""
        return self.label if isinstance(self.label, str) else self.label.get(arch, "")

    def tuned(self, arch: str, variant: str) -> dict[str, int]:
        """Return the value of each tunable in a build: what the variant defines, or the default."""
        known, defines = self.tunables.get(arch, {}), self.variants[variant].defines
        return {name: int(defines.get(name, t.default)) for name, t in known.items()}

    def archs_of(self, variant: str) -> tuple[str, ...]:
        """Return the archs that have `variant`, none if the kernel does not know it."""
        known = self.variants.get(variant)
        return (known.archs or tuple(self.sources)) if known else ()

    def lacks(self, variant: str, arch: str) -> str:
        """Return why there is no build of a known `variant` for `arch`, empty if there is one."""
        archs = self.archs_of(variant)
        if arch in archs:
            return ""
        return f"{self.name} has no variant {variant} for {arch}; it is for {', '.join(archs)}"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a plan; limits hold for each of its commands.

    `variant` is run in place of the run's own variant. `whole`: an emulator takes the case at its
    own size, which may need minutes and gigabytes, and none that is smaller.
    """

    name: str
    kind: StageKind
    case: str = ""
    patterns: tuple[Pattern, ...] = ()
    seeds: tuple[int, ...] = (0,)
    tool: Literal["", "memcheck", "racecheck", "initcheck", "synccheck"] = ""
    needs: tuple[str, ...] = ()
    time_s: float = 60.0
    output_mb: int = 64
    disk_mb: int = 1024
    warmup_s: float = 1.0
    samples: int = 200
    variant: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    stages: tuple[Stage, ...]

    @property
    def on_host(self) -> tuple[Stage, ...]:
        """The stages that the agent runs; the others are judged here, without the host."""
        return tuple(s for s in self.stages if s.kind.on_host)
