"""What a build is judged by at present: a fingerprint of each check.

A verdict counts for as long as the question is the same. Part of it is what kernels.yaml and the
plan ask, and the text of the modules that judge, without comments: a corrected rule is another
rule. What kernel/accepted.json holds is no part: figures are accepted of builds that pass.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from kernelrig.files.validation import adapter
from kernelrig.model import Kernel, Plan, Stage, StageKind

_HERE = Path(__file__).parents[1]
JUDGES: Mapping[StageKind, tuple[str, ...]] = {
    StageKind.CHECK: ("static", "sass", "ptx", "config/expression.py"),
    StageKind.CHECKSUM: (
        "reference",
        "config/expression.py",
        "config/operation_sizes.py",
        "stages/chains.py",
        "stages/checksum",
        "stages/context.py",
        "stages/harness",
        "stages/numbers.py",
        "stages/plain",
        "stages/record.py",
        "stages/verdicts.py",
    ),
}
"""Folders and modules whose code decides. A test compares them with what the readers import."""


def standard(kernel: Kernel, arch: str, variant: str, stage: Stage) -> str:
    """Return the fingerprint of what `stage` asks of a build, empty if it is no check."""
    if stage.kind not in JUDGES:
        return ""
    asked = _static(kernel, arch, variant)
    if stage.kind is StageKind.CHECKSUM:
        asked = _of_outputs(kernel, arch, variant, stage)
    digest = hashlib.sha256(_judges(stage.kind).encode())
    digest.update(json.dumps(adapter(dict).dump_python((asked,), mode="json")).encode())
    return digest.hexdigest()[:16]


def standards(kernel: Kernel, arch: str, variant: str, plan: Plan) -> dict[str, str]:
    """Return each check that `plan` makes of a build, by its stage's name.

    A stage that runs another variant judges that one; a CPU program has nothing to be read from.
    """
    return {
        s.name: standard(kernel, arch, variant, s)
        for s in plan.stages
        if s.kind in JUDGES
        and s.variant in ("", variant)
        and (kernel.cuda or s.kind is not StageKind.CHECK)
    }


def _static(kernel: Kernel, arch: str, variant: str) -> dict[str, object]:
    return {
        "budget": kernel.budgets.get(arch, {}).get(variant),
        "sass": kernel.sass.get(arch),
        "cases": kernel.cases,
        "kernel_regex": kernel.kernel_regex,
        "tuned": kernel.tuned(arch, variant),
    }


def _of_outputs(kernel: Kernel, arch: str, variant: str, stage: Stage) -> dict[str, object]:
    if not kernel.level:
        start = kernel.invocation(stage.case)
        more = {
            "env": start.env,
            "files": start.files,
            "must_print": kernel.must_print,
            "must_not_print": kernel.must_not_print,
        }
        said = {"args": start.args, "expected_lines": kernel.expected_lines}
        return said | {key: value for key, value in more.items() if value}
    return {
        "case": kernel.cases.get(stage.case or "full"),
        "patterns": stage.patterns,
        "seeds": stage.seeds,
        "accum_tol": kernel.accum_tol.get(arch),
        "shape": kernel.shape,
        "function": kernel.variants[variant].function,
        **({"operation": _operation(kernel)} if kernel.is_operation else {}),
    }


def _operation(kernel: Kernel) -> dict[str, object]:
    keys = ("inputs", "outputs", "reference_text")
    return {key: getattr(kernel, key) for key in keys}


@cache
def _judges(kind: StageKind) -> str:
    """Hash the code that judges a kind of check, line by line."""
    digest = hashlib.sha256()
    for path in sorted(_modules(kind)):
        digest.update(f"{path.relative_to(_HERE).as_posix()}\n".encode())
        for line in path.read_text(encoding="utf-8").splitlines():
            if (text := line.strip()) and not text.startswith("#"):
                digest.update(f"{text}\n".encode())
    return digest.hexdigest()


def _modules(kind: StageKind) -> Iterator[Path]:
    for name in JUDGES[kind]:
        path = _HERE / name
        if path.is_dir():
            yield from path.rglob("*.py")
        else:
            yield path
