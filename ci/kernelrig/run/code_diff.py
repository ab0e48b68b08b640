"""`invoke sass-diff`: what changed between the SASS of two builds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelrig import build, config
from kernelrig.errors import ConfigError
from kernelrig.files.validation import nearest
from kernelrig.model import Build
from kernelrig.run.builds import make_builds
from kernelrig.run.spec import BuildSpec, find_tools
from kernelrig.static import diff_sass, read_module


def compare_code(root: Path, a: str, b: str, *, system_cuda: bool = False) -> str:
    """Show what changed between the SASS of two builds, each a folder or KERNEL-ARCH-VARIANT."""
    first, second = _named(root, (a, b), system_cuda=system_cuda)
    lines = diff_sass(first, second, read_module(first), read_module(second))
    return "\n".join(lines)


def _named(root: Path, names: Sequence[str], *, system_cuda: bool) -> tuple[Build, ...]:
    """Return the build that each name means: a folder's, or that of KERNEL-ARCH-VARIANT, now."""
    kernels = config.load_kernels(root)
    known = {
        f"{k.name}-{a}-{v}": build.Request(k, a, v)
        for k in kernels.values()
        for a in k.sources
        for v in k.variants
        if k.cuda and not k.lacks(v, a)
    }
    for name in names:
        if name not in known and not Path(name).is_dir():
            near = nearest(name, known)
            raise ConfigError(
                f"'{name}' is neither a folder of a build nor a KERNEL-ARCH-VARIANT{near}",
                "see `ls artifacts/builds`, and kernel/kernels.yaml",
            )
    # A folder that is called like a build is the folder: it can be named in no other way.
    given = {n: build.load_build(Path(n)) for n in names if Path(n).is_dir()}
    wanted = {n: BuildSpec(known[n]) for n in dict.fromkeys(names) if n not in given}
    requests = [w.request for w in wanted.values()]
    tools = find_tools(root, requests, system_cuda=system_cuda)
    made = given | make_builds(root, wanted, tools, system_cuda=system_cuda)
    return tuple(made[n] for n in names)
