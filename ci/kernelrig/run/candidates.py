"""The builds that `invoke bench` compares: from words to builds, made here, of a commit, or given.

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
from kernelrig.config.selection import choose, choose_kernel, choose_remote, choose_targets
from kernelrig.errors import CiError, ConfigError
from kernelrig.model import (
    Bench,
    Build,
    Builds,
    Candidate,
    DeviceKind,
    Kernel,
    Plan,
    Remote,
    Stage,
    StageKind,
)
from kernelrig.run.prepare import Prepared, build_requests

PLAN = "bench"
_WORD = re.compile(r"(?P<kernel>[\w.-]*)(?::(?P<variant>[\w.-]+))?(?:@(?P<rev>[^\s:]+))?", re.ASCII)
_NAMED = re.compile(r"(?P<name>[\w.@:-]+)=(?P<folder>.+)", re.ASCII)

PROCESSES = 3
ROUNDS, LEAST_ROUNDS = 7, 2
START_S, SAMPLE_S = 1.2, 0.001
"""What a process costs besides its warm-up, and a sample: for turning minutes into rounds."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What the user asked to have compared. A minute more buys rounds, not samples."""

    words: tuple[str, ...]
    remote: str
    processes: int | None = None
    minutes: float | None = None
    rounds: int | None = None
    warmup_s: float = 0.1
    settle_s: float = 1.2
    samples: int = 860
    case: str = "full"
    gate_percent: float | None = None
    force: bool = False
    system_cuda: bool = False

    def count_rounds(self, *, relay: bool) -> int:
        if self.rounds is not None:
            return self.rounds
        if self.minutes is None:
            return ROUNDS
        each_s = self.warmup_s + self.samples * SAMPLE_S + (0.0 if relay else START_S)
        held_s = self.minutes * 60 - (self.settle_s + 2 * START_S if relay else 0.0)
        return max(LEAST_ROUNDS, int(held_s / each_s / len(self.words)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One contender as it was named: a folder, or a kernel of ours, now or as of a commit."""

    name: str
    folder: Path | None = None
    kernel: str = ""
    variant: str = ""
    rev: str = ""


def parse_candidate(word: str) -> Wanted:
    """Read one word; a folder that is called like a kernel is meant by `NAME=DIR` alone."""
    if named := _NAMED.fullmatch(word):
        return Wanted(named["name"], folder=Path(named["folder"]))
    if (Path(word) / "build.json").is_file():
        return Wanted(Path(word).name, folder=Path(word))
    found = _WORD.fullmatch(word)
    if not word or found is None:
        raise ConfigError(
            f"'{word}' names no build", "KERNEL, KERNEL:VARIANT, KERNEL:VARIANT@REV, @REV, NAME=DIR"
        )
    return Wanted(word, None, found["kernel"], found["variant"] or "", found["rev"] or "")


def prepare_bench(root: Path, request: BenchRequest) -> Prepared:
    """Build what is to be compared; everything that can be wrong without the box is found here."""
    _require_sense(request)
    remote = choose_remote(config.load_remotes(root), request.remote)
    if remote.device is DeviceKind.EMULATOR:
        raise ConfigError(
            f"bench compares times, and remote {remote.name} is emulated", "name a box with a GPU"
        )
    wanted = _told_apart([parse_candidate(word) for word in request.words])
    kernels = config.load_kernels(root)
    found = [
        _given(kernels, w, remote)
        if w.folder
        else _of_commit(root, w, remote, request)
        if w.rev
        else (*_ours(root, kernels, w, remote, request), "")
        for w in wanted
    ]
    for kernel, _, _ in found:
        _require_timed(kernel, request.case)
    places = ("", *string.ascii_lowercase[1 : len(found)])
    candidates = tuple(
        Candidate(w.name, place, kernel, built.variant, built.arch, built.key, commit)
        for w, place, (kernel, built, commit) in zip(wanted, places, found, strict=True)
    )
    relay = all(kernel.level for kernel, _, _ in found)  # a level-0 program knows no turns
    rounds = request.count_rounds(relay=relay)
    if rounds < LEAST_ROUNDS:
        raise ConfigError(
            f"--rounds must be {LEAST_ROUNDS} or more, not {rounds}", "a round is one observation"
        )
    stage = Stage(
        PLAN,
        StageKind.BENCH,
        case=request.case if found[0][0].level else "",
        time_s=120.0,
        warmup_s=request.warmup_s,
        samples=request.samples,
    )
    return Prepared(
        kernel=found[0][0],
        remote=remote,
        plan=Plan(PLAN, (Stage("preflight", StageKind.PREFLIGHT), stage)),
        builds=Builds(
            own=found[0][1],
            variants={place: b for place, (_, b, _) in zip(places[1:], found[1:], strict=True)},
        ),
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
        raise ConfigError("--rounds and --minutes say the same in two ways", "leave one out")
    if request.processes is not None and request.processes < 1:
        raise ConfigError("--processes must be 1 or more, not 0")


def _told_apart(wanted: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """Give each its own name: the second of two that are called alike is `name#2`."""
    seen: dict[str, int] = {}
    told = []
    for w in wanted:
        seen[w.name] = count = seen.get(w.name, 0) + 1
        told.append(replace(w, name=f"{w.name}#{count}") if count > 1 else w)
    return tuple(told)


def _ours(
    root: Path, kernels: Mapping[str, Kernel], w: Wanted, remote: Remote, request: BenchRequest
) -> tuple[Kernel, Build]:
    kernel = choose_kernel(kernels, w.kernel)
    wanted = build.Request(kernel, *choose_targets(kernel, remote.arch, w.variant)[0])
    (built,) = build_requests(root, [wanted], system_cuda=request.system_cuda)
    return kernel, built


def _of_commit(
    root: Path, w: Wanted, remote: Remote, request: BenchRequest
) -> tuple[Kernel, Build, str]:
    """Build what the commit's own kernels.yaml says, from its own sources, with today's tools."""
    with checkout(root, w.rev) as (place, commit):
        try:
            (place / "artifacts/tools").symlink_to((root / "artifacts/tools").resolve())
            kernel, built = _ours(place, config.load_kernels(place), w, remote, request)
        except ConfigError as e:
            raise ConfigError(f"at commit {commit[:12]}: {e.message}", e.hint) from e
        except CiError as e:
            e.message = f"at commit {commit[:12]}: {e.message}"
            raise
        finally:
            (place / "artifacts/tools").unlink(missing_ok=True)
    return kernel, build.load_build(root / "artifacts/builds" / built.folder.name), commit


def _given(kernels: Mapping[str, Kernel], w: Wanted, remote: Remote) -> tuple[Kernel, Build, str]:
    built = build.load_build(w.folder or Path())
    if built.arch != remote.arch:
        raise ConfigError(
            f"{w.name} is a build for {built.arch}, remote {remote.name} wants {remote.arch}"
        )
    kernel = kernels[choose(kernels, built.kernel, f"kernel of {w.name}")]
    choose(kernel.variants, built.variant, f"variant of {w.name}")
    return kernel, built, ""


def _require_timed(kernel: Kernel, case: str) -> None:
    if kernel.level:
        choose(kernel.cases, case, f"case of {kernel.name}")
