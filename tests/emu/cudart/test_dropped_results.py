"""Whether a program drops what a refused copy returned, by its machine code."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.emu.cudart.dropped_results import MachineCode
from kernelrig.emu.cudart.messages import Noted
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled

LINES = (Path(__file__).parent / "programs/refused_copies.cu").read_text().splitlines()
DROPPED, LOOKED_AT = range(5), range(10, 17)


@pytest.mark.parametrize(
    ("optimised", "calls"),
    [
        ("-O2", (1, 3, 12, 13)),
        *(
            pytest.param(level, (*DROPPED, *LOOKED_AT), marks=pytest.mark.long)
            for level in ("-O0", "-O2", "-O3")
        ),
    ],
)
def test_an_error_is_only_what_a_program_drops(
    cuda_toolchain: Toolchain, optimised: str, calls: tuple[int, ...]
) -> None:
    for which in calls:
        ran = run_compiled(
            "refused_copies", cuda_toolchain, str(which), flags=("-Xcompiler", optimised)
        )
        kind = Noted.OVERLOOKED_COPY if which in DROPPED else Noted.REFUSED_COPY
        assert (ran.run.exit_code, ran.run.notes[-1].kind) == (0, kind), which


def test_a_function_of_a_header_that_was_inlined_is_looked_behind(
    cuda_toolchain: Toolchain,
) -> None:
    ran = run_compiled("refused_copies", cuda_toolchain, "3", flags=("-Xcompiler", "-O2"))
    line = next(i for i, text in enumerate(LINES, 1) if "case 3" in text)
    assert ran.run.notes[-1].place.endswith(f"refused_copies.cu:{line}")


def test_code_that_cannot_be_read_drops_nothing(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no executable")
    assert not MachineCode(text).drops_result([0x1000])
    assert not MachineCode(Path("/bin/true")).drops_result([1 << 40])
    assert not MachineCode(Path("/bin/true")).drops_result([])
