"""`invoke emulate --only-fault`: a kernel broken by a patch of tests/bad: is it caught?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.config.selection import choose, choose_kernel, choose_targets
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import rundir
from kernelrig.findings import describe
from kernelrig.model import (
    Build,
    Builds,
    Check,
    Kernel,
    Plan,
    Run,
    Stage,
    StageKind,
    Verdict,
    failed,
    passed,
)
from kernelrig.proc import run_process
from kernelrig.run import store as filing
from kernelrig.run.emulator import EmulateRequest, lost, open_emulation, plan_for, run_job
from kernelrig.run.launches import prepare_launches
from kernelrig.run.prepare import build_requests
from kernelrig.terminal.log import say

PATCHES = Path("tests/bad")
PLAN = "fault"
CASE = "images=7,ctas=4"
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A patch: `kinds` are those of findings it says it shows as, one of which must come.

    `case` is the smallest that shows it, where the patch says that not every one does.
    """

    name: str
    patch: Path
    broken: str
    kinds: tuple[str, ...]
    variant: str
    case: str = CASE


def emulate_fault(root: Path, name: str, request: EmulateRequest) -> Run:
    """Break the kernel, emulate it, and judge whether that was noticed: missed is the failure."""
    how = request.emulation()
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    arch = choose_targets(kernel, request.arch, request.variant)[0][0]
    fault = read_fault(root, name, arch)
    with broken_tree(root, fault) as tree:
        kernel, built = _build(root, tree, fault, arch, request)
        asked = replace(request, case=request.case or fault.case)
        kernel, whole = plan_for(kernel, asked)
        observed = Plan(PLAN, tuple(s for s in whole.stages if s.kind is StageKind.SANITIZER))
        stage = Stage(fault.name, StageKind.CHECKSUM, observed.stages[0].case)
        plan = Plan(PLAN, (stage,))
        run, folder, place = open_emulation(root, kernel, built, plan, tree)
    try:
        needed = stages.launches(observed, kernel, Builds(built), place.remote)
        prepare_launches(folder, needed, kernel, Builds(built))
        first, *_ = stages.stage_jobs(observed, kernel, Builds(built), None, place.remote, how)
        home = rundir.stage_folder(folder, 1, stage.name)
        say(f"emulating {kernel.name} with {fault.name}: {fault.broken}")
        # The first of the stages holds the emulation that all of them share.
        result = run_job(replace(first, commands=first.commands[:1]), home)
        seen = stages.read_emulated(first.commands[0], result.commands[0], home, place)
    except CiError as e:
        return filing.finish(folder, run, [lost(run, stage, e)])
    record = lost(run, stage, CiError("not judged"))
    if isinstance(seen, Verdict):
        check = Check(f"{fault.name} is caught", seen)
    else:
        check = _judge(fault, seen, place)
    record = replace(
        record,
        verdict=check.verdict,
        checks=(check,),
        commands=result.commands,
        notes=(f"broken on purpose: {fault.broken}",),
        started_utc=result.commands[0].started_utc,
        seconds=sum(c.seconds for c in result.commands),
        build=built.key,
    )
    return filing.finish(folder, run, [record])


def read_fault(root: Path, name: str, arch: str) -> Fault:
    """Read the patch `name` of the arch's folder."""
    folder = root / PATCHES / arch.replace("_", "")
    known = [p.stem for p in sorted(folder.glob("*.patch"))]
    patch = folder / f"{choose(known, name, f'fault of {arch}')}.patch"
    head = dict(
        line.split(": ", 1)
        for line in patch.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
        if ": " in line
    )
    kinds = tuple(filter(None, head.get("shows as", "").split(", ")))
    broken, variant = head.get("broken", name), head.get("variant", "")
    return Fault(name, patch, broken, kinds, variant, head.get("case", CASE))


@contextmanager
def broken_tree(root: Path, fault: Fault) -> Iterator[Path]:
    """Yield a copy of the kernel folder with the fault in it, and our tools and builds beside."""
    store = root / "artifacts"
    store.mkdir(exist_ok=True)
    tree = Path(tempfile.mkdtemp(prefix=".fault-", dir=store))
    links = [tree / "artifacts" / name for name in ("builds", "tools")]
    try:
        shutil.copytree(root / "kernel", tree / "kernel")
        shutil.copy(root / "pyproject.toml", tree)  # it pins the tools that we have already
        # Below a work tree git would take the paths as that tree's, and skip them without a word.
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(store)}
        before = _sources(tree)
        done = run_process(
            ["git", "apply", "-p1", fault.patch], cwd=tree, env=env, timeout_s=LIMIT_S
        )
        if done.exit_code or _sources(tree) == before:
            why = (done.stderr.strip().splitlines() or ["it changes nothing"])[-1]
            raise ConfigError(f"{fault.patch.name} no longer applies to kernel/: {why}")
        (tree / "artifacts").mkdir()
        for link in links:
            (store / link.name).mkdir(exist_ok=True)
            link.symlink_to((store / link.name).resolve())
        yield tree
    finally:
        for link in links:  # what lies behind them stays
            link.unlink(missing_ok=True)
        shutil.rmtree(tree, ignore_errors=True)


def _sources(tree: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (tree / "kernel").iterdir() if p.is_file()}


def _build(
    root: Path, tree: Path, fault: Fault, arch: str, request: EmulateRequest
) -> tuple[Kernel, Build]:
    kernel = choose_kernel(config.load_kernels(tree), request.kernel)
    variant = request.variant or fault.variant
    wanted = build.Request(kernel, *choose_targets(kernel, arch, variant)[0])
    (built,) = build_requests(tree, [wanted], system_cuda=request.system_cuda)
    return kernel, build.load_build(root / "artifacts/builds" / built.folder.name)


def _judge(fault: Fault, seen: stages.Emulated, context: stages.Context) -> Check:
    """Caught is what shows as one of the kinds that the patch names, in whichever schedule."""
    title = f"{fault.name} is caught"
    found = stages.emulated_findings(seen, seen.errors, context)
    told = tuple(map(describe, found))
    facts = {"schedules": str(seen.run.schedules), "shows as": ", ".join(fault.kinds)}
    said = " or ".join(fault.kinds)
    if not found:
        verdict = failed(f"missed in {seen.run.schedules} schedules: its patch says {said}")
        return Check(title, verdict, facts=facts)
    own = [
        (f.schedule, text)
        for f, text in zip(seen.errors, told, strict=True)
        if f.kind in fault.kinds
    ]
    if not own:
        verdict = failed(f"not found as {said}, but as {told[0]}", *told[1:])
        return Check(title, verdict, findings=found, facts=facts)
    needed = min(own)[0] + 1
    facts["schedules needed"] = str(needed)
    others = tuple(text for text in told if text != min(own)[1])
    verdict = passed(f"caught in schedule {needed} of {seen.run.schedules}: {min(own)[1]}", *others)
    return Check(title, verdict, findings=found, facts=facts)
