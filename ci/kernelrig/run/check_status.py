"""Whether a build has passed the checks as they are now, according to the recorded runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernelrig import config
from kernelrig.errors import CiError, ConfigError, ProtocolError
from kernelrig.files import serialization
from kernelrig.files.manifest import is_unchanged
from kernelrig.model import Outcome, Run, StageRecord
from kernelrig.run import standards
from kernelrig.run.store import RUNS

OUTDATED = "outdated"
"""The status of a build that has not passed the checks in their current form begins with it."""


def check_status(
    root: Path,
    kernel: str,
    arch: str,
    variant: str,
    key: str,
    own: Sequence[StageRecord] = (),
    held: Iterable[str] = (),
) -> str:
    """Return whether exactly the build `key` passed the checks in their current form, or why not.

    `own` are records that are not on file yet, `held` are standards known to have been met.
    """
    try:
        wanted = _current(root, kernel, arch, variant)
    except CiError as e:
        return f"{OUTDATED}: {e.message}"
    left = {name: asked for name, asked in wanted.items() if asked not in held}
    met, runs = _met(root, key, left.values(), own)
    lacking = [name for name, asked in left.items() if not met.get(asked)]
    if lacking:
        return f"{OUTDATED}: this build has not passed {', '.join(lacking)} in their current form"
    return f"passed in {', '.join(runs)}" if runs else "passed"


def met_standards(root: Path, kernel: str, arch: str, variant: str, key: str) -> tuple[str, ...]:
    """Return the standards of the checks, in their current form, that the build has met.

    A build whose checks cannot be determined has met none.
    """
    try:
        wanted = _current(root, kernel, arch, variant).values()
    except CiError:
        return ()
    met, _ = _met(root, key, wanted, ())
    return tuple(dict.fromkeys(asked for asked in wanted if met.get(asked)))


def _current(root: Path, kernel: str, arch: str, variant: str) -> dict[str, str]:
    """Return the standards of the plan `default` that need no tool, by the name of the stage."""
    known = config.load_kernels(root).get(kernel)
    if known is None or arch not in known.archs_of(variant):
        raise ConfigError(f"kernels.yaml has no {kernel}-{arch}-{variant} any more")
    return standards.standards(known, arch, variant, config.load_plan(root, "default"))


_DECIDED = (Outcome.PASS, Outcome.FAIL)


def _met(
    root: Path, key: str, wanted: Iterable[str], own: Sequence[StageRecord]
) -> tuple[dict[str, bool], list[str]]:
    """Return whether each standard was met in the last run that judged it, and those runs.

    Runs that cannot be read are left out, and so are checks that were skipped or in error.
    """
    left, met, runs = set(wanted), dict[str, bool](), list[str]()
    for name, records_of in itertools.chain([("this run", own)], _recorded(root, key)):
        for record in records_of:
            outcome, asked = record.verdict.outcome, record.standard
            if record.build != key or asked not in left or outcome not in _DECIDED:
                continue
            met[asked] = met.get(asked, True) and outcome is Outcome.PASS
            runs.append(name)
        left -= met.keys()
        if not left:
            break
    return met, list(dict.fromkeys(runs))


def _recorded(root: Path, key: str) -> Iterator[tuple[str, Sequence[StageRecord]]]:
    """Yield the stages of each run that names the build, the last run first.

    A run counts if its run.json is as the manifest lists it: one that goes on has none yet.
    """
    for path in sorted((root / RUNS).glob("*/run.json"), reverse=True):
        try:
            if key.encode() in path.read_bytes() and is_unchanged(path.parent, path.name):
                yield path.parent.name, serialization.from_json(Run, path).stages
        except (ProtocolError, OSError):
            continue
