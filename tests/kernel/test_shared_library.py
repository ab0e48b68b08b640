"""A library loaded at run time: found, not found, and named by the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.proc import run_process

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/kernel/find_library.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("library") / "find_library")


def test_the_first_name_that_is_there_is_taken(program: Path) -> None:
    assert run_process([program, "libnone.so.1", "libm.so.6"]).stdout == "cos(0) = 1\n"


def test_one_that_is_not_there_is_one_sentence_with_what_mends_it(program: Path) -> None:
    assert run_process([program, "libnone.so.2", "libnone.so.1"]).stdout == (
        "libnone.so.2: cannot open shared object file: No such file or directory;"
        " set FIND_LIBRARY=PATH or LD_LIBRARY_PATH\n"
    )


def test_the_file_that_was_named_is_taken_or_none(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIND_LIBRARY", "/nowhere/libnone.so")
    said = run_process([program, "libm.so.6"]).stdout
    assert said.startswith("/nowhere/libnone.so: cannot open shared object file")
