"""`sweep --explain`: the profiles of two sets are found by their cubins, and compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from kernelrig.files.manifest import write_manifest
from kernelrig.files.rundir import build_folder
from kernelrig.files.serialization import to_json
from kernelrig.model import Build, StageKind
from kernelrig.run import store
from kernelrig.sweep.set_profiles import last_profile, profile_lines

from tests.run.test_profile_comparison import NEW, OLD, put, root
from tests.stages import bench

__all__ = ["root"]


def with_cubin(folder: Path, text: str) -> Build:
    """Write a build of which nothing but its device code is asked."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"k.cubin": text, bench.build().program: "a program"}
    for name, content in named.items():
        (folder / name).write_text(content)
    files = {name: hashlib.sha256(c.encode()).hexdigest() for name, c in named.items()}
    built = replace(bench.build(), folder=folder, files=files)
    (folder / "build.json").write_text(to_json(built))
    return built


def profiled(root: Path, name: str, report: str, cubin: str) -> None:
    run = put(root, name, report)
    (record,) = (s for s in run.stages if s.kind is StageKind.PROFILE)
    folder = root / store.RUNS / name
    place = "" if record.variant in ("", run.variant) else record.variant
    with_cubin(build_folder(folder, place), cubin)
    write_manifest(folder)


def test_the_last_profiles_of_two_cubins_are_compared(root: Path) -> None:
    profiled(root, OLD, "slow-again", "one")
    profiled(root, NEW, "more", "two")
    first, second = (with_cubin(root / text, text) for text in ("one", "two"))
    said = profile_lines(root, first, second)
    assert said[0] == f"profiles {OLD} and {NEW}"
    assert any("smsp__inst_executed.sum" in line for line in said), said


def test_a_set_without_a_profile_of_its_cubin_says_how_to_make_one(root: Path) -> None:
    profiled(root, OLD, "slow", "one")
    first, second = (with_cubin(root / text, text) for text in ("one", "two"))
    (said,) = profile_lines(root, first, second)
    assert said.startswith(f"no profile of B: `ci/invoke profile --build {root / 'two'} --remote")


def test_a_run_that_was_changed_since_it_ended_has_no_profile(root: Path) -> None:
    profiled(root, OLD, "slow", "one")
    own = with_cubin(root / "one", "one")
    assert last_profile(root, own) == OLD
    path = root / store.RUNS / OLD / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 7}))
    assert last_profile(root, own) == ""
