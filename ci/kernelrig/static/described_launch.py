"""How a program would launch its kernel, as it says itself; asking needs no GPU and no driver."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import CiError, ProtocolError
from kernelrig.model import Build, Case
from kernelrig.proc import run_process

DESCRIBE_LIMIT_S = 60.0
EXIT_USAGE, NOTHING = 2, ": nothing to describe: "
"""What a program says whose kernels are a library's."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What occupancy depends on."""

    threads: int
    cluster_ctas: int
    dynamic_shared_bytes: int


class NoLaunch(CiError):
    """The program launches a library's kernels, as the library will: there is none to describe."""


def describe(build: Build, case: Case) -> Launch:
    """Run the program with `--mode describe`; whatever keeps it from answering is a CiError."""
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as name:
        words = ["--mode", "describe", "--case", f"images={case.images},ctas={case.ctas}"]
        done = run_process([build.binary, *words, "--out", name], timeout_s=DESCRIBE_LIMIT_S)
        if done.exit_code:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing"]
            if done.exit_code == EXIT_USAGE and NOTHING in said[-1]:
                raise NoLaunch(said[-1].partition(NOTHING)[2])
            raise CiError(f"{build.program} --mode describe exited {done.exit_code}: {said[-1]}")
        return read_launch(Path(name) / "launch.json")


def read_launch(path: Path) -> Launch:
    """Read the little of a launch file that a check rests on."""
    try:
        value = json.loads(path.read_bytes())
        threads, cluster = math.prod(value["block"]), math.prod(value["cluster"])
        dynamic = value["dynamic_smem_bytes"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ProtocolError(f"{path.name} of --mode describe cannot be read: {e}") from e
    if not all(type(n) is int for n in (threads, cluster, dynamic)) or min(threads, cluster) < 1:
        raise ProtocolError(
            f"{path.name} of --mode describe has no whole numbers where they belong"
        )
    return Launch(threads, cluster, dynamic)
