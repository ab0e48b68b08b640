"""The end-to-end tests' own program does what its flags say, and its project is a good one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import CiError
from kernelrig.model import Remote
from kernelrig.proc import Completed, run_process

from tests.cpu_project import SOURCE, make_cpu_project


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled program."""
    path = tmp_path_factory.mktemp("cpu_program") / "cpu_program"
    built = run_process(
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", path, SOURCE / "cpu_program.cpp"]
    )
    assert built.exit_code == 0, built.stderr
    return path


def run(program: Path, folder: Path, *flags: str) -> Completed:
    return run_process([program, *flags], cwd=folder, env={"NAME": "value"}, timeout_s=60)


def test_it_does_what_it_is_told_in_order(program: Path, tmp_path: Path) -> None:
    done = run(
        program, tmp_path,
        "--say", "a b", "--complain", "c", "--env", "NAME", "--env", "NONE", "--built-as",
        "--write", "made.txt", "text", "--wait-for", "made.txt", "--exit", "3", "--say", "never",
    )  # fmt: skip
    said = "a b\nNAME=value\nNONE=\nbuilt as nothing in particular\n"
    assert (done.exit_code, done.stdout, done.stderr) == (3, said, "c\n")
    assert (tmp_path / "made.txt").read_text() == "text\n"


def test_it_crashes_by_the_signal_after_its_output(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path, "--say", "before", "--crash", "11")
    assert (done.exit_code, done.stdout) == (-signal.SIGSEGV, "before\n")


def test_it_floods_and_fills_by_the_megabyte(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path, "--flood", "2", "--fill", "3")
    assert done.exit_code == 0
    assert len(done.stdout) == 2 << 20
    assert (tmp_path / "ballast").stat().st_size == 3 << 20


def test_it_says_when_the_disk_is_full(program: Path, tmp_path: Path) -> None:
    (tmp_path / "ballast").symlink_to("/dev/full")
    done = run(program, tmp_path, "--fill", "1")
    assert (done.exit_code, done.stderr) == (28, "cpu_program: ballast: No space left on device\n")


def test_it_hangs(program: Path, tmp_path: Path) -> None:
    with pytest.raises(CiError, match=r"did not end within 1 s"):
        run_process([program, "--hang"], cwd=tmp_path, timeout_s=1)


def test_its_stray_outlives_it_in_a_session_of_its_own(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path, "--stray", "stray.pid", "--say", "out")
    stray = int((tmp_path / "stray.pid").read_text())
    try:
        assert (done.exit_code, done.stdout) == (0, "out\n")
        command = Path(f"/proc/{stray}/cmdline").read_bytes().split(b"\0")
        assert command[1:3] == [b"--stray", b"stray.pid"]
        assert os.getsid(stray) not in (0, os.getsid(0), stray)
    finally:
        os.kill(stray, signal.SIGKILL)


@pytest.mark.parametrize("flags", [["--exit"], ["--unknown"]])
def test_it_refuses_what_it_does_not_know(program: Path, tmp_path: Path, flags: list[str]) -> None:
    assert run(program, tmp_path, *flags).exit_code == 2


def test_its_project_is_read_whole(tmp_path: Path) -> None:
    host = Remote("box", "sm_90a", host="127.0.0.1", port=2222)
    root = make_cpu_project(
        tmp_path / "project",
        remotes=[host],
        kernels={"waits": ["--wait-for", str(tmp_path / "go")]},
    )
    kernels = config.load_kernels(root)
    assert list(kernels) == [
        "passes", "fails", "says_the_wrong_thing", "crashes", "hangs", "strays",
        "hangs_and_strays", "floods", "fills_the_disk", "guarded", "waits",
    ]  # fmt: skip
    assert {(k.level, k.cuda) for k in kernels.values()} == {(0, False)}
    assert kernels["waits"].args == ("--wait-for", str(tmp_path / "go"))
    assert config.load_remotes(root) == {
        "local": Remote("local", "sm_90a", kind="embedded"),
        "box": host,
    }
    assert [s.name for s in config.load_plan(root, "quick").stages] == [
        "preflight", "program", "again", "after",
    ]  # fmt: skip
