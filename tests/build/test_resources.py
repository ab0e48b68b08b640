"""What ptxas prints becomes records; what a program needs of its host is read from its ELF file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.build.elf import highest_glibc, is_relocatable, needed_versions
from kernelrig.build.resources import minimum_driver, parse_ptxas_log
from kernelrig.errors import ProtocolError
from kernelrig.model import FunctionResources, Toolchain
from kernelrig.model.symbol import base_name
from kernelrig.proc import run_process

DATA = Path(__file__).parents[1] / "data" / "build"

SPILLER = FunctionResources(
    name="_Z7spillerPfi",
    registers=32,
    stack_bytes=688,
    spill_store_bytes=552,
    spill_load_bytes=692,
    shared_bytes=1200,
    barriers=1,
)


def test_registers_spills_and_shared_memory_are_read_per_function() -> None:
    functions = parse_ptxas_log((DATA / "ptxas-13.0.88-spills.txt").read_text())
    assert [f.name for f in functions] == [
        "_ZN2ns36_GLOBAL__N__c1a35f9c_4_s_cu_09d379b94gemmILi3EEEvPf",
        "_Z7spillerPfi",
        "_Z6helperPfi",
    ]
    assert functions[0].registers == 8
    assert functions[1] == SPILLER
    assert functions[2].registers == 0


def test_the_kernel_that_was_named_stands_first() -> None:
    log = (DATA / "ptxas-13.0.88-spills.txt").read_text()
    assert parse_ptxas_log(log, "^spiller$")[0] == SPILLER


def test_a_log_without_functions_gives_none() -> None:
    assert parse_ptxas_log("ptxas info    : 0 bytes gmem\n") == ()


def test_a_log_that_stops_after_the_name_is_not_believed() -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_ptxas_log("ptxas info    : Function properties for _Z1fv\n")
    assert caught.value.message == (
        "ptxas -v gives no stack frame after 'ptxas info    : Function properties for _Z1fv'"
    )


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z16patch_embed_gemmPKhS0_", "patch_embed_gemm"),
        ("_ZL6hiddenPi", "hidden"),
        ("_ZN2ns36_GLOBAL__N__c1a35f9c_4_s_cu_09d379b94gemmILi3EEEvPf", "gemm"),
        ("plain_c_name", "plain_c_name"),
    ],
)
def test_a_mangled_name_is_read_as_the_user_wrote_it(mangled: str, name: str) -> None:
    assert base_name(mangled) == name


@pytest.mark.parametrize(
    ("cuda", "arch", "driver"),
    [
        ("13.0.88", "sm_90a", "580"),
        ("13.0.88", "sm_100a", "580"),
        ("12.8.93", "sm_100a", "570"),
        ("12.9.41", "sm_103a", "575"),
        ("12.4.99", "sm_90a", "525"),
    ],
)
def test_the_driver_must_know_the_runtime_and_the_gpu(cuda: str, arch: str, driver: str) -> None:
    assert minimum_driver(cuda, arch) == driver


def test_the_glibc_a_program_needs_is_what_objdump_sees(
    tmp_path: Path, host_toolchain: Toolchain
) -> None:
    source, program = tmp_path / "a.cpp", tmp_path / "a"
    source.write_text('#include <cstdio>\nint main() { std::puts("a"); }\n')
    run_process([host_toolchain.host_compiler, source, "-o", program])
    seen = set(re.findall(r"\((\w+_[\d.]+)\)", run_process(["objdump", "-T", program]).stdout))
    glibc = {tuple(map(int, v[6:].split("."))) for v in seen if v.startswith("GLIBC_")}
    assert seen
    assert set(needed_versions(program)) >= seen
    assert highest_glibc(program) == ".".join(map(str, max(glibc)))


def test_what_is_no_elf_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(ProtocolError, match="is not a 64-bit little-endian ELF file"):
        needed_versions(path)
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(40))
    with pytest.raises(ProtocolError, match="is cut short"):
        needed_versions(path)


def test_an_object_is_told_from_a_program(tmp_path: Path, host_toolchain: Toolchain) -> None:
    source = tmp_path / "a.cpp"
    source.write_text("int main() {}\n")
    for flags, relocatable in ((["-c"], True), ([], False)):
        run_process([host_toolchain.host_compiler, *flags, source, "-o", tmp_path / "out"])
        assert is_relocatable((tmp_path / "out").read_bytes()) is relocatable
