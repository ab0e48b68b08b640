"""Which frame of an inlined chain a finding is located at.

It is the innermost frame in the kernel's own sources: the directory of its main `.cu`, or below. A
header of the rig's harness is never the location, although kernels share its directory: what is
wrong is the use of `wait` or `fence_proxy_async`, not their bodies. A kernel that is a header's of
another project has no such frame: there the header's own folder counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import normpath
from pathlib import PurePosixPath

from kernelrig.model.frame import Frame

HARNESS = frozenset(
    {
        "buffers.cuh",
        "cublaslt.cuh",
        "device.cuh",
        "device_memory.cuh",
        "failure.cuh",
        "function.cuh",
        "guarded_run.cuh",
        "harness.cuh",
        "inputs.cuh",
        "json.cuh",
        "launch.cuh",
        "launch_file.cuh",
        "memory_layout.cuh",
        "nvml.cuh",
        "operation.cuh",
        "operation_launch.cuh",
        "operation_session.cuh",
        "options.cuh",
        "phase_clock.cuh",
        "phase_table.cuh",
        "phase_trace.cuh",
        "problem.cuh",
        "ptx.cuh",
        "reference.cuh",
        "relay.cuh",
        "result.cuh",
        "role_figures.cuh",
        "role_report.cuh",
        "sampling.cuh",
        "session.cuh",
        "shared_library.cuh",
        "spot_check.cuh",
        "tcgen05.cuh",
        "tensor.cuh",
        "tensor_map.cuh",
        "tensor_map_rules.cuh",
        "timed_loop.cuh",
        "timed_outputs.cuh",
        "timing.cuh",
        "trace_role.cuh",
        "wait.cuh",
        "watchdog.cuh",
        "wgmma.cuh",
    }
)
"""The headers that the harness ships in `kernel/`; a test compares the set with that directory."""

_NOT_SOURCES = ("artifacts/",)
"""Folders of the repository without kernel sources: they hold the toolkit's headers."""
_SOURCE = re.compile(r"(?P<file>.+?):(?P<line>[0-9]+)(?: (?P<function>.+))?")
_DIGITS = 18


def frame_of(source: str) -> Frame:
    """Return the frame that the emulator writes as `file:line function`, else one without a file.

    Of a longer number the first digits count.
    """
    place = _SOURCE.fullmatch(source)
    if place is None:
        return Frame("", 0)
    return Frame(place["file"], int(place["line"][:_DIGITS]), place["function"] or "")


def locate(frames: Sequence[Frame], source: str) -> Frame:
    """Return the frame that a finding is located at; `frames` are innermost first.

    `source` is the kernel's main file, relative to the repository or the end of that path. Where no
    frame lies in the kernel's sources, as of a kernel in a header of somebody else's, those beside
    the header that has the kernel, or below, are meant; without frames, a frame of line 0.
    """
    if not frames:
        return Frame("", 0)
    directory = _directory(frames, source)
    own = (f for f in frames if _is_own(f.file, source, directory))
    return next(own, None) or _beside(frames)


def _beside(frames: Sequence[Frame]) -> Frame:
    """Return the innermost frame in the folder of the outermost one, or below."""
    paths = [normpath(frame.file) for frame in frames]
    folder = PurePosixPath(paths[-1]).parent
    own = (f for f, path in zip(frames, paths, strict=True) if _is_own(path, paths[-1], folder))
    return next(own, frames[-1])


def chain_text(frames: Sequence[Frame]) -> str:
    """Return a chain of inlined calls, innermost first; a file is named once for its frames."""
    said, file = [], ""
    for frame in frames:
        name = "" if frame.file == file else PurePosixPath(frame.file).name
        file = frame.file
        said.append(f"{frame.function or '?'} {name}:{frame.line}")
    return " < ".join(said)


def is_file(path: str, source: str) -> bool:
    """Return whether `path` is the file `source`, or ends with it: `kernel/gemm.cu`, `gemm.cu`."""
    wanted = PurePosixPath(source).parts
    return bool(wanted) and PurePosixPath(path).parts[-len(wanted) :] == wanted


def _directory(frames: Sequence[Frame], source: str) -> PurePosixPath:
    """Return the directory of the main file as the line table names it, if a frame lies in it."""
    main = next((f.file for f in frames if is_file(f.file, source)), source)
    return PurePosixPath(main).parent


def _is_own(path: str, source: str, directory: PurePosixPath) -> bool:
    if not path or is_file(path, source):
        return bool(path)
    name = PurePosixPath(path)
    outside = name.name in HARNESS or path.startswith(_NOT_SOURCES) or ".." in name.parts
    return not outside and name.is_relative_to(directory)
