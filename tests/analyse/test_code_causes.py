"""Causes in what the compiler makes of the source, each by a listing that is made up."""

from __future__ import annotations

from tests.analyse.evidence import of_code
from tests.analyse.listings import row

SPILLED = (
    row("      LDC R1, c[0x0][0x28]", 8),
    row("      STL [R1], R4", 8),
    row("      LDL R5, [R1]", 800),
    row("      FFMA R6, R5, R7, R6", 800, long_sb=90),
    row("      ISETP.NE.AND P0, PT, R10, 0x4, PT", 800),
    row("@P0   BRA @2", 800, selected=50),
    row("      STG.E desc[UR4][R12.64], R6", 8),
    row("      EXIT", 8),
)


def test_loads_of_local_memory_and_what_waits_for_them_are_spills() -> None:
    assert list(of_code(SPILLED)) == ["local-memory"]
    kept = (r for r in SPILLED if "STL" not in r[0])
    loads = tuple((t.replace("LDL R5,", "LDS R5,"), n, s) for t, n, s in kept)
    assert "local-memory" not in of_code(loads)


DIVIDED = (
    row("      LDG.E R4, desc[UR4][R12.64]", 100),
    row("      I2F.U32.RP R0, UR6", 800, wait=20),
    row("      MUFU.RCP R0, R0", 800, wait=20),
    row("      VIADD R2, R0, 0xffffffe", 800, wait=20),
    row("      F2I.FTZ.U32.TRUNC.NTZ R3, R2", 800, wait=20),
    row("      IMAD R5, R5, UR6, RZ", 800, wait=20, selected=40),
    row("      STG.E desc[UR4][R12.64], R5", 100),
    row("      EXIT", 8),
)


def test_divisions_by_what_the_compiler_does_not_know_are_named() -> None:
    assert next(iter(of_code(DIVIDED))) == "divisions"
    converted = tuple((t.replace("MUFU.RCP", "FMUL"), n, s) for t, n, s in DIVIDED)
    assert "divisions" not in of_code(converted)


DOUBLED = (
    row("      LDG.E R4, desc[UR4][R12.64]", 800),
    row("      F2F.F64.F32 R6, R4", 800, wait=30),
    row("      DFMA R6, R6, R6, R8", 800, wait=20),
    row("      F2F.F32.F64 R5, R6", 800, wait=30),
    row("      STG.E desc[UR4][R14.64], R5", 800, selected=40),
    row("      EXIT", 8),
)


def test_values_that_are_doubles_on_the_way_alone_are_named() -> None:
    assert next(iter(of_code(DOUBLED))) == "double-precision"
    meant = tuple((t.replace("F2F.F32.F64 R5, R6", "DADD R4, R6, R8"), n, s) for t, n, s in DOUBLED)
    assert "double-precision" not in of_code(meant), "the results are of 64 bits"


LOOKED_UP = (
    row("      LDG.E R4, desc[UR4][R12.64]", 800),
    row("      LDC R6, c[0x3][R4]", 800, wait=60),
    row("      STG.E desc[UR4][R14.64], R6", 800, selected=40),
    row("      EXIT", 8),
)


def test_constants_that_lanes_look_up_are_named() -> None:
    assert next(iter(of_code(LOOKED_UP))) == "constant-look-ups"
    same = tuple((t.replace("c[0x3][R4]", "c[0x3][0x40]"), n, s) for t, n, s in LOOKED_UP)
    assert "constant-look-ups" not in of_code(same)


POLLED = (
    row("      MOV R10, RZ", 8),
    row("      LDS R8, [UR4+0x400]", 4000, wait=90),
    row("      ISETP.NE.AND P0, PT, R8, R5, PT", 4000, wait=90),
    row("@P0   BRA @1", 4000, wait=20),
    row("      FFMA R6, R5, R7, R6", 800, selected=40),
    row("      STG.E desc[UR4][R14.64], R6", 800),
    row("      EXIT", 8),
)


def test_a_lock_that_warps_try_for_is_a_busy_wait() -> None:
    tried = "ATOMG.E.CAS.STRONG.GPU PT, R8, [R4], R6, R7"
    lock = tuple((t.replace("LDS R8, [UR4+0x400]", tried), n, s) for t, n, s in POLLED)
    assert next(iter(of_code(lock))) == "busy-waits"
    largest = row("      FMNMX R6, R8, R5, !PT", 4000, wait=10)
    assert "busy-waits" not in of_code((*lock[:2], largest, *lock[2:])), "an atomic maximum"
    counted = tuple((t.replace(".CAS", ".ADD"), n, s) for t, n, s in lock)
    assert "busy-waits" not in of_code(counted)


def test_loops_that_only_look_at_one_place_are_busy_waits() -> None:
    assert next(iter(of_code(POLLED))) == "busy-waits"
    next_word = tuple(
        (t.replace("[UR4+0x400]", "[R10]").replace("ISETP.NE.AND P0", "VIADD R10"), n, s)
        for t, n, s in POLLED
    )
    assert "busy-waits" not in of_code(next_word), "each turn loads another word"


SUMMED = (
    row("      MOV R10, RZ", 8),
    row("      LDG.E R8, desc[UR4][R12.64]", 800),
    row("      FADD R6, R6, R8", 800, long_sb=90),
    row("      STG.E desc[UR4][R14.64], R6", 800),
    row("      IADD3 R12, R12, 0x4, RZ", 800),
    row("      ISETP.NE.AND P0, PT, R12, R9, PT", 800, selected=40),
    row("@P0   BRA @1", 800),
    row("      EXIT", 8),
)


def test_a_sum_that_is_stored_each_time_is_named() -> None:
    assert "sums-in-memory" in of_code(SUMMED)
    other = tuple((t.replace("IADD3 R12, R12", "IADD3 R14, R14"), n, s) for t, n, s in SUMMED)
    assert "sums-in-memory" not in of_code(other), "each turn stores another word"
