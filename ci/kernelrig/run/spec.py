"""What a request comes to before anything is compiled or any host is contacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig import build
from kernelrig.build import toolchain
from kernelrig.build.libraries import extras_of
from kernelrig.model import (
    Bench,
    Build,
    Emulation,
    Fault,
    Kernel,
    Plan,
    Profiling,
    Purpose,
    Remote,
    Toolchain,
)


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """A build that the run needs: given, or to be made from a request.

    Its sources are this tree's, or those of `commit`, or this tree's with the `patch` applied.
    """

    request: build.Request
    given: Build | None = None
    commit: str = ""
    patch: Path | None = None

    @property
    def here(self) -> bool:
        """Return whether it is made from the files of this tree as they are."""
        return self.given is None and not self.commit and self.patch is None


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A request that was resolved: every error that is found without compiling has been raised.

    `wanted` are the builds by their place: empty = the run's own, a variant that a stage names, a
    candidate's letter, the self-test. Without a remote the run stays on this machine. `seed` is
    what the plan's seeds stand for; None = themselves. `only` are the stages that --only left. `on`
    is the engine of sets of tunables. `wait_s` is how long a run that has the GPU is waited for.
    `reuses`: a stage that passed before with the same key is not run again; `offers`: those that
    pass now may be reused by later runs.
    """

    kernel: Kernel
    plan: Plan
    arch: str
    variant: str
    wanted: Mapping[str, BuildSpec]
    tools: Toolchain | None = None
    remote: Remote | None = None
    bench: Bench | None = None
    fault: Fault | None = None
    seed: int | None = None
    purpose: Purpose = Purpose.TEST
    only: tuple[str, ...] = ()
    emulation: Emulation = Emulation()  # noqa: RUF009 - frozen
    profiling: Profiling | None = None
    gate_percent: float | None = None
    require_device: str = ""
    stop_at_first: bool = False
    accept: bool = False
    system_cuda: bool = False
    on: str = "local"
    wait_s: float = 0.0
    reuses: bool = False
    offers: bool = False


def find_tools(
    root: Path, requests: Sequence[build.Request], *, system_cuda: bool
) -> Toolchain | None:
    """Return the tools that compile the requests on this machine, None where none is needed."""
    if not requests:
        return None
    needs_cuda = any(r.kernel.cuda for r in requests)
    extras = sorted({e for r in requests for e in extras_for(r, system_cuda=system_cuda)})
    tools = toolchain.find_toolchain(root, system=system_cuda, cuda=needs_cuda, extras=extras)
    for arch in sorted({r.arch for r in requests if r.kernel.cuda}):
        toolchain.require_arch(tools, arch)
    return tools


def extras_for(request: build.Request, *, system_cuda: bool) -> tuple[str, ...]:
    """Return the locks whose wheels a build needs beside the toolkit."""
    return (*request.kernel.extras, *extras_of(request.way, system=system_cuda))


def tools_of(root: Path, wanted: Mapping[str, BuildSpec], *, system_cuda: bool) -> Toolchain | None:
    """Return the tools for what is made from this tree's files."""
    requests = [w.request for w in wanted.values() if w.here]
    return find_tools(root, requests, system_cuda=system_cuda)
