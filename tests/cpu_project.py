"""A complete small project whose kernels need no GPU: the host compiler builds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelrig import config
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Remote

SOURCE = Path(__file__).parent / "data/cpu_program"

_REMOTES = "schema: 1\nremotes:\n  local: {kind: embedded, arch: sm_90a}\n"


def make_cpu_project(
    root: Path,
    *,
    remotes: Sequence[Remote] = (),
    kernels: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a project into `root` and return it.

    Its kernels are those of tests/data/cpu_program/kernels.yaml; `kernels` adds more, name -> the
    program's arguments. Plans: the package's, and two whose limits are small: `quick`, and
    `guarded`, of which a stage has a variant of its own. Remotes: `local`, an embedded one, and
    `remotes`, as `remote-add` would write them.
    """
    (root / "kernel").mkdir(parents=True)
    (root / "ci/plans").mkdir(parents=True)
    shutil.copy(SOURCE / "cpu_program.cpp", root / "kernel")
    for plan in ("quick.yaml", "guarded.yaml"):
        shutil.copy(SOURCE / plan, root / "ci/plans")
    text = (SOURCE / "kernels.yaml").read_text()
    for name, args in (kernels or {}).items():
        text += f"  {name}: {json.dumps(_kernel(args))}\n"  # JSON is YAML
    write_atomic(root / "kernel/kernels.yaml", text)
    write_atomic(root / "remotes.yaml", _REMOTES)
    for remote in remotes:
        config.add_remote(root, remote)
    return root


def _kernel(args: Sequence[str]) -> dict[str, object]:
    return {
        "level": 0,
        "cuda": False,
        "sources": {"sm_90a": "cpu_program.cpp"},
        "variants": {"production": {"program": "cpu_program"}},
        "args": list(args),
    }
