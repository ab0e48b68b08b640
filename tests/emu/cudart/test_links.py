"""PTX that a program links while it runs, by cuLink*."""

from __future__ import annotations

from pathlib import Path

from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled


def test_ptx_of_memory_and_of_a_file_is_linked_and_its_logs_are_empty(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    ran = run_compiled("links", cuda_toolchain, str(tmp_path / "maker.ptx"), schedules=1)
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("0 wrong\n", 0, [])
    missing, no_kernel = ran.run.notes  # which the program asks for
    assert "cuLinkAddFile" in missing.text
    assert "cuModuleGetFunction" in no_kernel.text  # of a module that is linked of nothing
