"""The patches of the plain kernels that must be detected still apply, and the result compiles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request, build_all
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.compilations import build_to_describe, share_builds
from tests.kernel.bad_kernels import FAULTS, PATCHES, TIMED_FAULTS, make_bad_project
from tests.stages.test_spot_checks import BAD


def request(root: Path) -> Request:
    return Request(config.load_kernels(root)["patch_embed_cuda"], "sm_90a", "production")


def test_every_patch_is_a_known_fault() -> None:
    assert sorted(p.stem for p in PATCHES.glob("*.patch")) == list(FAULTS)


@pytest.mark.parametrize("fault", [*FAULTS, *TIMED_FAULTS])
def test_a_patch_applies_and_says_what_it_breaks_and_who_must_see_it(
    fault: str, tmp_path: Path
) -> None:
    make_bad_project(fault, tmp_path / "project")
    broken, caught, *_ = (PATCHES / f"{fault}.patch").read_text().splitlines()
    assert broken.startswith("broken: ")
    assert caught.startswith("caught by: ")


def test_a_patch_that_no_longer_applies_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (PATCHES / "dropped-k-step.patch").read_text()
    (tmp_path / "dropped-k-step.patch").write_text(old.replace("multiply(acc", "multiplied(acc"))
    monkeypatch.setattr("tests.kernel.bad_kernels.PATCHES", tmp_path)
    with pytest.raises(
        AssertionError, match=r"^dropped-k-step\.patch no longer applies to kernel/"
    ):
        make_bad_project("dropped-k-step", tmp_path / "project")


def test_a_patch_is_not_skipped_below_a_work_tree(tmp_path: Path) -> None:
    made = run_process(["git", "init", "-q", tmp_path], env={**os.environ})
    assert made.exit_code == 0, made.stderr
    make_bad_project("dropped-k-step", tmp_path / "deep" / "project")


@pytest.mark.long
def test_the_uninitialised_read_compiles_and_describes_its_workspace(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    """The largest patch: it adds a buffer and a parameter."""
    root = share_builds(make_bad_project("uninitialised-read", tmp_path / "project"))
    built = build_to_describe(root, request(root), cuda_toolchain)
    described = run_process(
        [built.binary, "--mode", "describe", "--case", "images=2", "--out", tmp_path]
    )
    assert described.exit_code == 0, described.stderr
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert launch["buffers"]["workspace"] == {
        "dtype": "u8",
        "shape": [1024],
        "fill": {"kind": "undefined"},
    }
    assert launch["args"][-1] == {"buffer": "workspace"}


def test_every_kernel_that_computes_only_while_it_is_checked_was_judged() -> None:
    assert [Path(fault).name for fault in TIMED_FAULTS] == sorted(BAD)


@pytest.mark.long
@pytest.mark.parametrize("fault", TIMED_FAULTS)
def test_a_kernel_that_computes_only_while_it_is_checked_compiles(
    fault: str, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    root = make_bad_project(fault, tmp_path / "project")
    kernel = config.load_kernels(root)["patch_embed"]
    (built,) = build_all(root, [Request(kernel, "sm_90a", "production")], cuda_toolchain)
    assert built.binary.is_file()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_compiles_without_spills(
    fault: str, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    root = make_bad_project(fault, tmp_path / "project")
    (built,) = build_all(root, [request(root)], cuda_toolchain)
    (kernel,) = (f for f in built.resources if f.name == "patch_embed_gemm")
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)
