"""What a profile measures is decided, and refused, before a compiler or a connection is started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.model import Profiling, Purpose
from kernelrig.run.prepare import prepare_run
from kernelrig.run.requests import RunRequest

ROOT = Path(__file__).parents[2]
REMOTES = """\
schema: 2
remotes:
  h200: {arch: sm_90a, host: nobody-listens.invalid}
  b200: {arch: sm_100a, host: nobody-listens.invalid}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "kernel", made / "kernel")
    (made / "remotes.yaml").write_text(REMOTES)
    return made


def profiling(root: Path, remote: str, *plans: str) -> Profiling | None:
    request = RunRequest(
        remote=remote,
        kernel="patch_embed",
        plan="profile",
        purpose=Purpose.PROFILE,
        profile_plans=plans,
    )
    return prepare_run(root, request).profiling


@pytest.mark.parametrize(("remote", "chip"), [("h200", "gh100"), ("b200", "gb100")])
def test_all_plans_of_the_remotes_chip_are_one_run(root: Path, remote: str, chip: str) -> None:
    found = profiling(root, remote)
    assert found is not None
    assert (found.chip, found.ncu, len(found.runs)) == (chip, "2025.3.1", 1)
    names = {plan.name for plan in found.plans}
    assert ("tmem" in names) == (chip == "gb100")
    assert set(found.runs[0].plans) == names


def test_the_plans_that_are_named_are_those_that_are_measured(root: Path) -> None:
    found = profiling(root, "h200", "stores", "stalls")
    assert found is not None
    assert [plan.name for plan in found.plans] == ["stores", "stalls"]


def test_a_plan_of_another_chip_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="plan tmem is for gb100, not gh100"):
        profiling(root, "h200", "tmem")


def test_a_wrong_metric_in_a_plan_next_to_the_kernel_is_refused(root: Path) -> None:
    own = root / "kernel/profile-own.yaml"
    own.write_text(
        "schema: 1\nquestion: a\nhypothesis: b\nmetrics: [smsp__sass_warp_efficiency.avg]\n"
    )
    try:
        with pytest.raises(ConfigError, match=r"^kernel/profile-own\.yaml:4: .*pred_on\.sum"):
            profiling(root, "h200", "own")
    finally:
        own.unlink()


def test_a_plan_without_a_profile_measures_nothing(root: Path) -> None:
    request = RunRequest(remote="h200", kernel="patch_embed")
    assert prepare_run(root, request).profiling is None
