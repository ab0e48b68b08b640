"""The library that measures kernels from within, under a stand-in for CUPTI and for the driver."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from kernelrig.build.kernel_timer.shipped_timer import CUPTI, LIBRARY, fetch_kernel_timer
from kernelrig.build.toolchain import fetch_wheels
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.toolchain_fixture import HOME, REPOSITORY

STAND_INS = Path(__file__).parents[1] / "data/kernel_timer"


@pytest.fixture(scope="module")
def shipped(cuda_toolchain: Toolchain) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)  # where pip's index settings may lie
        return fetch_kernel_timer(REPOSITORY)


@pytest.fixture(scope="module")
def made(
    shipped: Path, cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the real library beside a stand-in for CUPTI, and a program."""
    folder = tmp_path_factory.mktemp("timer")
    with tarfile.open(shipped) as tar:
        held = tar.extractfile(LIBRARY)
        assert held is not None
        (folder / LIBRARY).write_bytes(held.read())
    cupti = fetch_wheels(REPOSITORY, "cupti") / "nvidia/cu13/include"
    for source, out, more in (
        ("cupti.cpp", CUPTI, ("-shared", "-fPIC", "-isystem", cupti)),
        ("program.cpp", "program", ()),
    ):
        words = ("g++", "-isystem", cuda_toolchain.root / "include", *more)
        done = run_process((*words, STAND_INS / source, "-o", folder / out))
        assert done.exit_code == 0, done.stderr
    return folder


def start(made: Path, folder: Path, *words: str, **env: str) -> None:
    known = {
        "CUDA_INJECTION64_PATH": str(made / LIBRARY),
        "STAND_IN_CUPTI": str(made / CUPTI),
        "KERNELRIG_KERNEL_TIMES": "out.kernels",
    }
    done = run_process((made / "program", *words), cwd=folder, env={**os.environ, **known, **env})
    assert (done.exit_code, done.stderr) == (0, "")


def run(made: Path, folder: Path, *words: str, **env: str) -> dict[str, Any]:
    """Return what the program's one file holds; nothing where it is empty."""
    start(made, folder, *words, **env)
    (file, *more) = sorted(folder.iterdir())
    assert (file.name, more) == ("out.kernels.1.json", [])
    held: dict[str, Any] = json.loads(file.read_text() or "{}")
    return held


def test_the_same_sources_and_tools_are_shipped_as_one_tar(shipped: Path) -> None:
    assert fetch_kernel_timer(REPOSITORY) == shipped
    with tarfile.open(shipped) as tar:
        assert [(m.name, m.mode) for m in tar] == [(CUPTI, 0o755), (LIBRARY, 0o755)]


def test_each_launch_is_kept_by_the_name_of_its_kernel(made: Path, tmp_path: Path) -> None:
    held = run(made, tmp_path, "launch", "fork", "away", "launch")
    assert {k["name"]: k["durations_ns"] for k in held.pop("kernels")} == {
        "_Z3sumPfi": [32, 128],
        "_Z4fillPf": [4000, 4000],
    }
    assert held == {
        **{"schema": 1, "cupti": 130001, "error": ""},
        **{"dropped": 0, "unmeasured": 0, "left_out": 0},
    }


def test_what_a_context_holds_is_fetched_before_it_is_destroyed(made: Path, tmp_path: Path) -> None:
    held = run(made, tmp_path, "launch", "reset", "launch")
    assert [k["launches"] for k in held["kernels"]] == [2, 2]


def test_more_records_than_a_buffer_holds(made: Path, tmp_path: Path) -> None:
    held = run(made, tmp_path, "twenty-thousand")
    assert [(k["launches"], len(k["durations_ns"])) for k in held["kernels"]] == [(20000, 20000)]


def test_what_is_not_whole_is_counted(made: Path, tmp_path: Path) -> None:
    held = run(made, tmp_path, "launch", "untimed", STAND_IN_REFUSES="a record")
    assert (held["unmeasured"], held["dropped"]) == (1, 1)


def test_a_process_that_ends_without_exit_handlers_leaves_an_empty_file(
    made: Path, tmp_path: Path
) -> None:
    assert run(made, tmp_path, "launch", "abrupt") == {}


def test_each_process_has_a_file_of_its_own(made: Path, tmp_path: Path) -> None:
    (tmp_path / "out.kernels.1.json").touch()
    start(made, tmp_path, "launch")
    assert (tmp_path / "out.kernels.1.json").read_text() == ""
    assert json.loads((tmp_path / "out.kernels.2.json").read_text())["cupti"] == 130001


@pytest.mark.parametrize("refusing", [True, False])
def test_without_cupti_the_program_runs_and_the_file_says_why(
    made: Path, tmp_path: Path, refusing: bool
) -> None:
    if refusing:
        held = run(made, tmp_path, "launch", STAND_IN_REFUSES="cuptiActivityEnable")
        said = "cuptiActivityEnable: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
    else:
        alone, out = tmp_path / "alone", tmp_path / "out"
        alone.mkdir()
        out.mkdir()
        (alone / LIBRARY).write_bytes((made / LIBRARY).read_bytes())
        held = run(made, out, "launch", CUDA_INJECTION64_PATH=str(alone / LIBRARY))
        said = f"{alone}/{CUPTI}: cannot open shared object file: No such file or directory"
    assert (held["error"], held["kernels"]) == (said, [])
