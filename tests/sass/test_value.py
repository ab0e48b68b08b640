"""What a register holds, thread by thread; and that what is not understood is not known."""

from __future__ import annotations

import pytest
from kernelrig.sass import Values

from tests.sass.text import flow_of

TID = "S2R R0, SR_TID.X"


def value(*lines: str, register: str = "R1", thread: int = 70) -> int | None:
    """Return what `register` holds for `thread` where the first block of `lines` ends."""
    flow = flow_of(*lines, "EXIT")
    last = max(flow.graph)
    return Values(flow).number(register, (last, len(flow.blocks[last].instructions) - 1), thread)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("MOV R1, R0", 70),
        ("IMAD.MOV.U32 R1, RZ, RZ, R0", 70),
        ("IMAD.MOV.U32 R1, RZ, RZ, -0x1", 0xFFFFFFFF),
        ("SHF.R.U32.HI R1, RZ, 0x5, R0", 2),
        ("SHF.L.U32 R1, R0.reuse, 0x1, RZ", 140),
        ("LOP3.LUT R1, R0, 0x1f, RZ, 0xc0, !PT", 6),  # and
        ("LOP3.LUT R1, R0, 0x1, RZ, 0x3c, !PT", 71),  # exclusive or
        ("LOP3.LUT R1, RZ, R0, RZ, 0x33, !PT", 0xFFFFFFB9),  # not
        ("VIADD R1, R0, 0xfffffff0", 54),
        ("IADD3 R1, PT, PT, R0, 0x2, R0", 142),
        ("IADD3 R1, R0, 0x2, R0", 142),  # as before sm_100
        ("SHFL.IDX PT, R1, R0, RZ, 0x1f", 64),
        ("S2R R1, SR_LANEID", 6),
        ("LDC R1, c[0x0][0x380]", None),
        ("IMAD.HI.U32 R1, R0, R0, RZ", None),
        ("IADD3 R1, P1, PT, R0, 0x2, R0", None),
        ("S2R R1, SR_CTAID.X", None),
        ("SHFL.BFLY PT, R1, R0, 0x1, 0x1f", None),
    ],
)
def test_a_result_follows_from_the_index_or_is_not_known(line: str, result: int | None) -> None:
    assert value(TID, line) == result


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("ISETP.NE.AND P0, PT, R0, 0x46, PT", False),
        ("ISETP.GT.U32.AND P0, PT, R0, 0x1f, PT", True),
        ("ISETP.GT.U32.AND P0, PT, R0, -0x1, PT", False),
        ("ISETP.GT.AND P0, PT, R0, -0x1, PT", True),
        ("ISETP.LE.OR P0, PT, R0, 0x1f, !PT", False),
        ("LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT", False),
        ("LOP3.LUT P0, RZ, R0, 0x2, RZ, 0xc0, !PT", True),
        ("PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0", True),
        ("PLOP3.LUT P0, PT, PT, !PT, PT, 0x80, 0x0", False),
        ("PLOP3.LUT PT, P0, PT, PT, PT, 0x80, 0x0", False),
        ("PLOP3.LUT P0, PT, PT, PT, P1, 0x80, 0x0", None),
        ("ELECT P0, URZ, PT", None),
        ("ISETP.GE.AND P0, PT, R0, R7, PT", None),
    ],
)
def test_a_branch_is_taken_or_not_or_nobody_knows(line: str, result: bool | None) -> None:
    flow = flow_of(TID, line, "@P0 BRA `(.L_x_1)", "EXIT", ".L_x_1:", "EXIT")
    assert Values(flow).takes(0, 70) is result


def test_a_branch_by_uniform_register_is_followed() -> None:
    flow = flow_of(
        TID,
        "SHF.R.U32.HI R0, RZ, 0x5, R0",
        "SHFL.IDX PT, R0, R0, RZ, 0x1f",
        "R2UR UR4, R0",
        "UISETP.NE.AND UP0, UPT, UR4, 0x1, UPT",
        "BRA.U UP0, `(.L_x_1)",
        "EXIT",
        ".L_x_1:",
        "EXIT",
    )
    assert [Values(flow).takes(0, thread) for thread in (0, 31, 32, 63, 64)] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_a_warp_that_has_diverged_does_the_same_elsewhere() -> None:
    flow = flow_of("BRA.DIV UR4, `(.L_x_1)", "EXIT", ".L_x_1:", "EXIT")
    assert Values(flow).takes(0, 0) is False


def test_a_wide_result_may_have_overwritten_it() -> None:
    assert value(TID, "MOV R1, R0", "LDG.E.64 R2, desc[UR4][R8.64]") == 70
    assert value(TID, "MOV R1, R0", "LDG.E.64 R0, desc[UR4][R8.64]") is None
    assert value(TID, "MOV R1, R0", "STRANGE R0, R9") is None
    assert value(TID, "MOV R1, R0", "STG.E desc[UR4][R8.64], R1") == 70


def test_a_guarded_write_counts_for_the_threads_that_do_it() -> None:
    lines = (
        TID,
        "MOV R1, 0x7",
        "ISETP.GT.U32.AND P0, PT, R0, 0x1f, PT",
        "@P0 MOV R1, 0x9",
    )
    assert value(*lines, thread=70) == 9
    assert value(*lines, thread=7) == 7


def test_paths_that_disagree_leave_nothing_known() -> None:
    lines = (
        TID,
        "ISETP.GE.AND P0, PT, R5, R7, PT",
        "MOV R1, 0x7",
        "@P0 BRA `(.L_x_1)",
        "MOV R1, {}",
        ".L_x_1:",
    )
    assert value(*(line.format("0x9") for line in lines)) is None
    assert value(*(line.format("0x7") for line in lines)) == 7


def test_what_hangs_on_itself_is_not_known() -> None:
    flow = flow_of(
        "MOV R1, 0x0",
        ".L_x_1:",
        "VIADD R1, R1, 0x1",
        "ISETP.NE.AND P0, PT, R1, 0x9, PT",
        "@P0 BRA `(.L_x_1)",
        "EXIT",
    )
    assert Values(flow).takes(0x10, 0) is None


def test_what_was_never_written_is_not_known() -> None:
    assert value("NOP") is None


def test_a_call_may_have_changed_anything() -> None:
    flow = flow_of(
        TID,
        "MOV R2, 0x30",
        "CALL.REL.NOINC `($g)",
        "ISETP.NE.AND P0, PT, R0, 0x9, PT",
        "@P0 BRA `(.L_x_1)",
        "EXIT",
        ".L_x_1:",
        "EXIT",
        "$g():",
        "RET.REL.NODEC R2 `(f)",
    )
    assert Values(flow).takes(0x30, 0) is None
