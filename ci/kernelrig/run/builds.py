"""The builds of a run: of this tree, of a commit, of a tree with a fault, or given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernelrig import build, config
from kernelrig.build import toolchain
from kernelrig.build.cache import BUILDS
from kernelrig.build.worktree import checkout
from kernelrig.config.selection import choose_kernel
from kernelrig.errors import CiError
from kernelrig.model import Build, Toolchain
from kernelrig.proc import run_jobs
from kernelrig.run.fault import broken_tree
from kernelrig.run.spec import BuildSpec, extras_for, find_tools

Keep = Callable[[str, Build, Path], None]
"""(place, build, tree): called for each build while the tree that it was made from is there."""


def make_builds(
    root: Path,
    wanted: Mapping[str, BuildSpec],
    tools: Toolchain | None,
    keep: Keep = lambda *_: None,
    *,
    system_cuda: bool = False,
) -> dict[str, Build]:
    """Return a build for each place; what is unchanged since it was last built is not compiled."""
    here = {place: w.request for place, w in wanted.items() if w.here}
    made = {place: w.given for place, w in wanted.items() if w.given is not None}
    if here:
        assert tools is not None, "tools are looked for when the run is prepared"
        made |= dict(zip(here, build.build_all(root, tuple(here.values()), tools), strict=True))
    for kept in run_jobs([partial(keep, place, built, root) for place, built in made.items()]):
        kept.result()
    for place, w in wanted.items():
        if w.commit:
            made[place] = _of_commit(root, w, system_cuda=system_cuda)
            keep(place, made[place], root)
        elif w.patch is not None:
            with broken_tree(root, w.patch) as tree:
                made[place] = _in_tree(root, tree, w, system_cuda=system_cuda)
                keep(place, made[place], tree)
    return {place: made[place] for place in wanted}


def find_builds(
    root: Path, wanted: Mapping[str, BuildSpec], *, system_cuda: bool
) -> dict[str, Build] | None:
    """Return the builds that are there already, None unless all are; nothing is made or fetched."""
    requests = [w.request for w in wanted.values() if w.here]
    if requests and not (root / BUILDS).is_dir():
        return None  # the versions of the tools need not be asked for, and kept
    extras = {e for r in requests for e in extras_for(r, system_cuda=system_cuda)}
    if not system_cuda and any(r.kernel.cuda for r in requests):
        extras.add("cuda")
    if not all(toolchain.wheel_tree(root, extra).is_dir() for extra in extras):
        return None
    found: dict[str, Build] = {}
    with contextlib.suppress(CiError):
        tools = find_tools(root, requests, system_cuda=system_cuda)
        for place, w in wanted.items():
            there = w.given
            if w.here and tools is not None:
                there = build.find_build(root, w.request, tools)
            if there is None:
                return None
            found[place] = there
    return found if len(found) == len(wanted) else None


def _of_commit(root: Path, w: BuildSpec, *, system_cuda: bool) -> Build:
    """Build the sources of a commit, with today's tools."""
    with checkout(root, w.commit) as (tree, commit):
        tools, link = root / "artifacts/tools", tree / "artifacts/tools"
        try:
            tools.mkdir(parents=True, exist_ok=True)  # behind a dangling link no folder can be made
            link.symlink_to(tools.resolve())
            return _in_tree(root, tree, w, system_cuda=system_cuda)
        except CiError as e:
            e.message = f"at commit {commit[:12]}: {e.message}"
            raise
        finally:
            link.unlink(missing_ok=True)


def _in_tree(root: Path, tree: Path, w: BuildSpec, *, system_cuda: bool) -> Build:
    """Build from the files of another tree, which shares our store of builds."""
    kernel = choose_kernel(config.load_kernels(tree), w.request.kernel.name)
    request = replace(w.request, kernel=kernel)
    tools = find_tools(tree, [request], system_cuda=system_cuda)
    assert tools is not None
    (built,) = build.build_all(tree, [request], tools)
    stored = build.load_build(root / "artifacts/builds" / built.folder.name)
    return replace(stored, reused=built.reused, compile_s=built.compile_s)
