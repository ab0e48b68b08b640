"""Relocatable device code: which flags ask for it, and the stubs that stand for nvlink's."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.build.relocatable_code import (
    asks_for_relocatable,
    registering_functions,
    without_relocatable,
    write_stubs,
)


@pytest.mark.parametrize(
    ("flags", "asks"),
    [
        (["-rdc=true"], True),
        (["-rdc", "true"], True),
        (["--relocatable-device-code=true", "-O3"], True),
        (["-dc"], True),
        (["-rdc=false", "-DX"], False),
        ([], False),
    ],
)
def test_flags_ask_for_relocatable_code(flags: list[str], asks: bool) -> None:
    assert asks_for_relocatable(flags) is asks


def test_the_link_has_all_other_flags() -> None:
    flags = ["-Iinclude", "-rdc", "true", "-lm", "-dc", "-rdc=true"]
    assert without_relocatable(flags) == ["-Iinclude", "-lm"]


def test_stubs_are_written_for_what_the_linker_misses(tmp_path: Path) -> None:
    log = (
        "a.o: undefined reference to `__cudaRegisterLinkedBinary_32db_5_a_cu_x'\n"
        "b.o: undefined reference to `cudaMalloc'\n"
        "b.o: undefined reference to `__cudaRegisterLinkedBinary_32db_5_a_cu_x'\n"
    )
    names = registering_functions(log)
    assert names == ["__cudaRegisterLinkedBinary_32db_5_a_cu_x"]
    write_stubs(tmp_path / "stubs.c", names)
    assert (tmp_path / "stubs.c").read_text().count(names[0]) == 1
