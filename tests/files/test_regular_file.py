"""A file that somebody named is read if it is one, up to a size, and waited for in no case."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.emu.launch.file import read_launch
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular

from tests.cpu_project import make_cpu_project


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_sparse(path: Path) -> None:
    with path.open("wb") as f:
        f.truncate(2 << 30)


Make = Callable[[Path], None]
ODD = [
    (make_fifo, "not a regular file"),
    (make_folder, "is a directory"),
    (link_to_zeros, "not a regular file"),
    (make_sparse, "it has more than"),
]


def test_a_file_is_read_to_its_end_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(path, 4)
    with pytest.raises(OSError, match="its name holds a NUL byte"):
        read_regular(tmp_path / "a\0b", 4)
    assert read_regular(Path("/proc/self/stat"), 1 << 16) != b""  # of size 0, as it is listed


@pytest.mark.parametrize(("make", "said"), ODD)
def test_configuration_that_is_no_file_is_a_sentence(tmp_path: Path, make: Make, said: str) -> None:
    root = make_cpu_project(tmp_path / "p")
    (root / "kernel/kernels.yaml").unlink()
    make(root / "kernel/kernels.yaml")
    with pytest.raises(ConfigError) as error:
        config.load_kernels(root)
    assert str(error.value).startswith(f"cannot read kernel/kernels.yaml: {said}")


@pytest.mark.parametrize(("make", "said"), ODD)
def test_a_launch_file_that_is_no_file_is_a_sentence(tmp_path: Path, make: Make, said: str) -> None:
    path = tmp_path / "launch.json"
    make(path)
    with pytest.raises(ConfigError) as error:
        read_launch(path)
    assert str(error.value).startswith(f"cannot read the launch file {path}: {said}")
