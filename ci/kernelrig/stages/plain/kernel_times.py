"""How long each kernel of a plain program ran, by CUPTI's activity records.

A library is loaded into the program by CUDA's driver, and leaves a file for each process that used
CUDA (kernelrig.build.kernel_timer). The program runs in the same process and could write such a
file itself: what is read is bounded and checked, and is never more than a measurement of a program
that is trusted to be measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.findings.demangling import demangled
from kernelrig.findings.fingerprints import number_equal
from kernelrig.model import Command, Kernel

TIMER = "cupti/"
"""Where a run has the library with CUPTI's; an archive, unpacked there."""
LIBRARY = "libkernelrig_kernel_times.so"
BASE = "KERNELRIG_KERNEL_TIMES"
SOURCE = "CUPTI's activity records"
MOST_PROCESSES, MOST_BYTES = 16, 64 << 20
MOST_NAME, MOST_AT_ONCE = 4096, 128
"""Of a kernel's name the characters; of kernels those that a GPU runs at the same time."""
_SLACK_S = 0.001
"""The agent rounds the seconds of a command to a thousandth."""
_KEYS = {"schema", "cupti", "error", "dropped", "unmeasured", "left_out", "kernels"}


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The durations of the launches of each kernel, in ns, by the names that people read.

    `counted` are the kernels that kernels.yaml means by `kernel_regex`, all of them without one.
    """

    durations_ns: Mapping[str, Sequence[int]]
    counted: tuple[str, ...]
    version: str

    @property
    def basis(self) -> str:
        """What one of `samples_ms` is the time of."""
        if len(self.counted) == 1:
            return f"a launch of {self.counted[0]}"
        return f"the launches of all {len(self.counted)} kernels of a process together"

    @property
    def samples_ms(self) -> tuple[float, ...]:
        """Each launch where one kernel counts; of several, what they took in the process."""
        each = [[ns / 1e6 for ns in self.durations_ns[name]] for name in self.counted]
        return tuple(each[0]) if len(each) == 1 else (sum(map(sum, each)),)


def timer_env(name: str) -> dict[str, str]:
    """Return the variables that let CUDA's driver load the library, in a stage's folder."""
    return {"CUDA_INJECTION64_PATH": str(Path("../..") / TIMER / LIBRARY), BASE: f"{name}.kernels"}


def is_timed(command: Command) -> bool:
    """Return whether a command is started with the library."""
    return BASE in command.env


def times_itself(program: Path) -> bool:
    """Return whether a program may print its own samples to `bench`: it has the words for it."""
    held = program.read_bytes()
    return b"sample_ms" in held or b"KERNELRIG_SAMPLES" in held


def read_kernel_times(kernel: Kernel, folder: Path, name: str, wall_s: float) -> KernelTimes:
    """Return what the command `name` left; ProtocolError where it is no whole measurement.

    `wall_s` is how long the agent saw the process run.
    """
    files = [folder / f"{name}.kernels.{n}.json" for n in range(1, MOST_PROCESSES + 1)]
    files = [path for path in files if path.exists()]
    if not files:
        raise ProtocolError(
            f"{SOURCE} of {name} are missing: CUDA's driver did not load the library into it",
            "it started no CUDA, went to another folder before it did, or the host's driver lacks"
            " injection; `metrics` in kernels.yaml takes the times that a program prints",
        )
    if len(files) == MOST_PROCESSES:
        raise ProtocolError(f"{MOST_PROCESSES} or more processes of {name} use CUDA: too many")
    held: dict[str, list[int]] = {}
    version = ""
    for path in files:
        version = _read(path, held)
    if not held:
        raise ProtocolError(
            f"{SOURCE} of {name} hold no kernel", "none was launched, so there is no time"
        )
    longest = max(max(each) for each in held.values())
    if longest / 1e9 > wall_s + _SLACK_S:
        took = f"a kernel took {longest / 1e9:.4g} s"
        raise ProtocolError(f"{took} by {SOURCE}, and {name} ran {wall_s:.3f} s")
    total = sum(map(sum, held.values())) / 1e9
    if total > MOST_AT_ONCE * (wall_s + _SLACK_S):
        raise ProtocolError(f"the kernels of {name} add up to {total:.4g} s in {wall_s:.3f} s")
    return _named(kernel, held, version)


def _named(kernel: Kernel, held: Mapping[str, Sequence[int]], version: str) -> KernelTimes:
    # Overloads have one readable name: they stay apart.
    shown = number_equal((mangled, demangled(mangled)[:200] or "?") for mangled in sorted(held))
    wanted = re.compile(kernel.kernel_regex)
    counted = [m for m in held if wanted.search(m) or wanted.search(shown[m])]
    if not counted:
        names = ", ".join(sorted(shown.values())[:5])
        raise ProtocolError(
            f"no kernel that ran has a name in which kernel_regex occurs: {kernel.kernel_regex}",
            f"kernels: {names}",
        )
    return KernelTimes(
        {shown[m]: held[m] for m in held}, tuple(sorted(shown[m] for m in counted)), version
    )


def _read(path: Path, held: dict[str, list[int]]) -> str:
    """Add what a process left to `held`, by mangled names; return CUPTI's version."""
    try:
        if not path.stat().st_size:
            raise ProtocolError(
                f"{path.name} is empty: the process did not end by exit or a return from main",
                f"without that {SOURCE} are not written",
            )
        value = strict_json.load(path, max_bytes=MOST_BYTES)
    except (OSError, ValueError) as e:
        raise ProtocolError(f"{path.name} cannot be read: {e}") from e
    if not isinstance(value, dict) or set(value) != _KEYS or value["schema"] != 1:
        raise ProtocolError(f"{path.name} is no file of kernel times")
    if error := value["error"]:
        raise ProtocolError(f"CUPTI refused: {str(error)[:300]}", "see the host's driver")
    for key, what in (
        ("dropped", "records were dropped by CUPTI"),
        ("unmeasured", "launches have no time in CUPTI's records"),
        ("left_out", "launches were beyond the limit of a million, or of 1000 kernels"),
    ):
        if not _is_count(value[key]):
            raise ProtocolError(f"{path.name}: '{key}' is no number of launches")
        if value[key]:
            raise ProtocolError(f"{value[key]} {what}: the times are not whole")
    kernels = value["kernels"]
    if not isinstance(kernels, list) or not _is_count(value["cupti"]):
        raise ProtocolError(f"{path.name} is no file of kernel times")
    for entry in kernels:
        name, durations = _entry(path, entry)
        held.setdefault(name, []).extend(durations)
    return str(value["cupti"])


def _entry(path: Path, entry: object) -> tuple[str, list[int]]:
    if not isinstance(entry, dict) or set(entry) != {"name", "launches", "durations_ns"}:
        raise ProtocolError(f"{path.name}: a kernel lacks its name, launches or durations")
    name, launches, durations = entry["name"], entry["launches"], entry["durations_ns"]
    good = isinstance(durations, list) and all(_is_count(ns) and ns > 0 for ns in durations)
    if not isinstance(name, str) or len(name) > MOST_NAME or not good or not durations:
        raise ProtocolError(f"{path.name}: a kernel's durations are no times")
    if launches != len(durations):
        raise ProtocolError(f"{path.name}: {launches} launches have {len(durations)} durations")
    return name, durations


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
