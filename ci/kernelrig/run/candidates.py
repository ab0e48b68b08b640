"""The builds that `invoke bench` compares: each made here, of a commit, or given.

kernel  kernel:variant  kernel:variant@rev  @rev  NAME=DIR  DIR
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import build, config
from kernelrig.build.worktree import checkout
from kernelrig.config.constraints import MOST_SAMPLES
from kernelrig.config.selection import (
    choose,
    choose_kernel,
    choose_remote,
    choose_targets,
    require_case,
)
from kernelrig.errors import ConfigError
from kernelrig.model import (
    Bench,
    Candidate,
    DeviceKind,
    Kernel,
    Plan,
    Remote,
    Stage,
    StageKind,
    draw_seed,
)
from kernelrig.run.requests import LEAST_ROUNDS, MOST_MINUTES, MOST_ROUNDS, BenchRequest
from kernelrig.run.spec import BuildSpec, RunSpec

PLAN = "bench"
_WORD = re.compile(r"(?P<kernel>[\w.-]*)(?::(?P<variant>[\w.-]+))?(?:@(?P<rev>[^\s:]+))?", re.ASCII)
_NAMED = re.compile(r"(?P<name>[\w.@:-]+)=(?P<folder>.+)", re.ASCII)

PROCESSES = 3


@dataclass(frozen=True, slots=True)
class Named:
    """One candidate as it was named: a folder, or a kernel of ours, now or as of a commit."""

    name: str
    folder: Path | None = None
    kernel: str = ""
    variant: str = ""
    rev: str = ""


def parse_candidate(word: str) -> Named:
    """Read one word; a folder with the name of a kernel is given as `NAME=DIR`."""
    if named := _NAMED.fullmatch(word):
        return Named(named["name"], folder=Path(named["folder"]))
    if (Path(word) / "build.json").is_file():
        return Named(Path(word).name, folder=Path(word))
    found = _WORD.fullmatch(word)
    if not word or found is None:
        raise ConfigError(
            f"'{word}' names no build",
            "write KERNEL, KERNEL:VARIANT, KERNEL:VARIANT@REV, @REV or NAME=DIR",
        )
    return Named(word, None, found["kernel"], found["variant"] or "", found["rev"] or "")


def prepare_bench(root: Path, request: BenchRequest, *, reached: bool = True) -> RunSpec:
    """Return the comparison of the builds that were named; a key is known once each is built."""
    _require_sense(request)
    remote = choose_remote(config.load_remotes(root), request.remote, reached=reached)
    if remote.device is DeviceKind.EMULATOR:
        raise ConfigError(
            f"bench compares times, and remote {remote.name} is emulated", "name a host with a GPU"
        )
    named = _distinct([parse_candidate(word) for word in request.words])
    kernels = config.load_kernels(root)
    found = [
        _given(kernels, w, remote)
        if w.folder
        else _of_commit(root, w, remote)
        if w.rev
        else BuildSpec(_request(kernels, w, remote))
        for w in named
    ]
    for wanted in found:
        _require_timed(wanted.request.kernel, request.case)
    places = ("", *string.ascii_lowercase[1 : len(found)])
    candidates = tuple(
        Candidate(n.name, place, r.kernel, r.variant, r.arch, key="", commit=w.commit)
        for n, place, w in zip(named, places, found, strict=True)
        for r in [w.request]
    )
    first = found[0].request
    relay = all(c.kernel.level for c in candidates)  # a plain program cannot wait for its slot
    rounds = request.count_rounds(relay=relay)
    if rounds < LEAST_ROUNDS:
        raise ConfigError(
            f"--rounds must be {LEAST_ROUNDS} or more, not {rounds}", "a round is one observation"
        )
    if rounds > MOST_ROUNDS:
        raise ConfigError(
            f"{rounds} rounds are too many: a bench has {MOST_ROUNDS} at most",
            "ask for less by --rounds or --minutes",
        )
    stage = Stage(
        PLAN,
        StageKind.BENCH,
        case=request.case,
        time_s=120.0,
        warmup_s=request.warmup_s,
        samples=request.samples,
    )
    return RunSpec(
        first.kernel,
        Plan(PLAN, (Stage("preflight", StageKind.PREFLIGHT), stage)),
        first.arch,
        first.variant,
        dict(zip(places, found, strict=True)),
        remote=remote,
        seed=_seed(request.seed, candidates),
        bench=Bench(
            candidates,
            rounds,
            request.settle_s,
            request.gate_percent,
            request.force,
            min(request.processes or PROCESSES, rounds) if relay else 0,
        ),
    )


def _require_sense(request: BenchRequest) -> None:
    if not 2 <= len(request.words) <= len(string.ascii_lowercase):
        raise ConfigError(f"{len(request.words)} builds were named; bench compares 2 to 26")
    if request.rounds is not None and request.minutes is not None:
        raise ConfigError("--rounds and --minutes contradict each other", "leave one out")
    if request.processes is not None and request.processes < 1:
        raise ConfigError("--processes must be 1 or more, not 0")
    if not 1 <= request.samples <= MOST_SAMPLES:
        raise ConfigError(f"--samples must be from 1 to {MOST_SAMPLES}, not {request.samples}")
    if request.minutes is not None and not 0 < request.minutes <= MOST_MINUTES:
        raise ConfigError(f"--minutes must be more than 0 and at most {MOST_MINUTES}")


def _distinct(wanted: Sequence[Named]) -> tuple[Named, ...]:
    """Give each its own name: the second of two that are called alike is `name#2`."""
    seen: dict[str, int] = {}
    distinct = []
    for w in wanted:
        seen[w.name] = count = seen.get(w.name, 0) + 1
        distinct.append(replace(w, name=f"{w.name}#{count}") if count > 1 else w)
    return tuple(distinct)


def _request(kernels: Mapping[str, Kernel], w: Named, remote: Remote) -> build.Request:
    kernel = choose_kernel(kernels, w.kernel)
    return build.Request(kernel, *choose_targets(kernel, remote.arch, w.variant)[0])


def _of_commit(root: Path, w: Named, remote: Remote) -> BuildSpec:
    """Return what the commit's own kernels.yaml says of the build."""
    with checkout(root, w.rev) as (tree, commit):
        try:
            return BuildSpec(_request(config.load_kernels(tree), w, remote), commit=commit)
        except ConfigError as e:
            raise ConfigError(f"at commit {commit[:12]}: {e.message}", e.hint) from e


def _given(kernels: Mapping[str, Kernel], w: Named, remote: Remote) -> BuildSpec:
    built = build.load_build(w.folder or Path())
    if built.arch != remote.arch:
        raise ConfigError(
            f"{w.name} is a build for {built.arch}, remote {remote.name} wants {remote.arch}"
        )
    kernel = kernels[choose(kernels, built.kernel, "kernel", w.name)]
    choose(kernel.variants, built.variant, "variant", w.name)
    return BuildSpec(build.Request(kernel, built.arch, built.variant), built)


def _require_timed(kernel: Kernel, case: str) -> None:
    if kernel.level:
        choose(kernel.cases, case, "case", kernel.name)
    else:
        require_case(kernel, case, kernel.name)


def _seed(asked: int | None, candidates: Sequence[Candidate]) -> int | None:
    """Return the seed of the inputs; None where no candidate takes one."""
    if any(c.kernel.level for c in candidates):
        return draw_seed() if asked is None else asked
    if asked is not None:
        raise ConfigError("--seed: plain programs make their own inputs")
    return None
