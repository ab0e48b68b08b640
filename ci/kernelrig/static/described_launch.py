"""The launch configuration that a program prints with --mode describe: without GPU and driver."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelrig.config.operation_sizes import case_words
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files import strict_json
from kernelrig.model import Build, Case, Kernel, SharedPiece
from kernelrig.proc import run_process

DESCRIBE_LIMIT_S = 60.0
EXIT_USAGE, NOTHING = 2, ": nothing to describe: "
"""The exit code and the text of a program whose kernels are launched by a library."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What occupancy depends on."""

    threads: int
    cluster_ctas: int
    dynamic_shared_bytes: int
    pieces: tuple[SharedPiece, ...] = ()


class NoLaunch(CiError):
    """The program calls a library that launches its own kernels: there is no launch to describe."""


def describe(build: Build, case: Case, kernel: Kernel) -> Launch:
    """Run the program with `--mode describe`; NoLaunch if a library launches, else CiError."""
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as name:
        words = ["--mode", "describe", *case_words(kernel, case)]
        done = run_process([build.binary, *words, "--out", name], timeout_s=DESCRIBE_LIMIT_S)
        if done.exit_code:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing"]
            if done.exit_code == EXIT_USAGE and NOTHING in lines[-1]:
                raise NoLaunch(lines[-1].partition(NOTHING)[2])
            raise CiError(f"{build.program} --mode describe exited {done.exit_code}: {lines[-1]}")
        return read_launch(Path(name) / "launch.json")


def read_launch(path: Path) -> Launch:
    """Read from a launch file what occupancy depends on."""
    try:
        value = strict_json.load(path)
        threads, cluster = math.prod(value["block"]), math.prod(value["cluster"])
        dynamic = value["dynamic_smem_bytes"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ProtocolError(f"{path.name} of --mode describe cannot be read: {e}") from e
    if not all(type(n) is int for n in (threads, cluster, dynamic)) or min(threads, cluster) < 1:
        raise ProtocolError(
            f"{path.name} of --mode describe has sizes that are not positive whole numbers"
        )
    return Launch(threads, cluster, dynamic, tuple(_pieces(value.get("shared_layout", ()))))


def _pieces(layout: Any) -> Iterator[SharedPiece]:  # noqa: ANN401 - what a program wrote
    """Yield the named parts of dynamic shared memory; none of a layout that is not one."""
    try:
        for entry in layout:
            offset, stride, count = (
                int(entry[k]) for k in ("offset_bytes", "stride_bytes", "count")
            )
            size = int(entry.get("size_bytes", stride))
            yield SharedPiece(str(entry["name"]), offset, size, count, stride)
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise ProtocolError(f"the shared_layout of --mode describe cannot be read: {e}") from e
