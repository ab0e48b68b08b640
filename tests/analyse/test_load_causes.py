"""Causes in loads and stores of global memory, on numbers and code that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.launch_evidence import MOST_STALLED, Evidence
from kernelrig.analyse.source import analyse_source, read_counter_page
from kernelrig.model import CountedInstruction, SourceCounters

from tests.analyse.evidence import LAUNCH, QUIET, of_code
from tests.analyse.listings import Row, page, row

SECTORS = "L2 Theoretical Sectors Global"


def loading(loads: int, width: str = "") -> tuple[Row, ...]:
    """Return a loop that loads so often before it waits."""
    sums = tuple(
        row(f"      FADD R6, R6, R{20 + 4 * i}", 800, long_sb=90 // loads) for i in range(loads)
    )
    return (
        *(
            row(f"      LDG.E{width} R{20 + 4 * i}, desc[UR4][R12.64+{16 * i:#x}]", 800)
            for i in range(loads)
        ),
        *sums,
        row("      IADD3 R12, R12, 0x40, RZ", 800, selected=40),
        row("      ISETP.NE.AND P0, PT, R12, R9, PT", 800),
        row("@P0   BRA @0", 800),
        row("      EXIT", 8),
    )


def test_loads_that_are_waited_for_one_by_one_are_too_few() -> None:
    assert list(of_code(loading(1))) == ["few-loads"]
    assert "few-loads" not in of_code(loading(4, ".128"))
    counters = read_counter_page(page(loading(1)))
    source = analyse_source(counters, top=MOST_STALLED)
    full = Evidence(LAUNCH, QUIET | {"dram": 0.8}, counters.instructions, source)
    assert "few-loads" not in {c.name for c in find_causes(full)}


def test_words_that_l1_holds_and_that_are_loaded_again_are_named() -> None:
    counters = read_counter_page(page(loading(2)))
    source = analyse_source(counters, top=MOST_STALLED)

    def found(hits: float, l1: float) -> set[str]:
        values = LAUNCH | {"l1tex__t_sector_hit_rate.pct": hits}
        units = QUIET | {"l1": l1}
        evidence = Evidence(values, units, counters.instructions, source)
        return {c.name for c in find_causes(evidence)}

    assert "loaded-again" in found(95.0, 0.9)
    assert "loaded-again" not in found(50.0, 0.9)
    assert "loaded-again" not in found(95.0, 0.4)


def test_sectors_that_dram_moves_once_are_no_gain() -> None:
    """Sixteen words are loaded by as many instructions: caches keep the rest of each sector."""
    moved = {SECTORS: 32000.0, f"{SECTORS} Ideal": 8000.0}
    line = CountedInstruction(
        0, "LDG.E R4, desc[UR4][R2.64]", 99, 0, 1000, 32000, 32000, {"long_sb": 99}, moved
    )
    code = (line, CountedInstruction(16, "EXIT", 0, 0, 32, 1024, 1024))
    source = analyse_source(SourceCounters("k", code), top=MOST_STALLED)

    def most(dram_bytes: float) -> float:
        values = LAUNCH | {"dram__bytes_read.sum": dram_bytes}
        evidence = Evidence(values, QUIET | {"dram": 0.85, "l2": 0.85}, code, source)
        return sum(c.most_percent for c in find_causes(evidence) if c.name == "uncoalesced")

    assert most(32 * 8000.0) < 8
    assert most(32 * 32000.0) > 30


STRIDED = (
    CountedInstruction(0, "LDG.E R4, desc[UR4][R2.64]", 5, 0, 1000, 32000, 32000),
    CountedInstruction(16, "IMAD.WIDE R6, R4, 0x4, R10", 99, 0, 1000, 32000, 32000),
    CountedInstruction(32, "LDG.E R8, desc[UR4][R6.64]", 5, 0, 1000, 32000, 32000),
    CountedInstruction(48, "EXIT", 0, 0, 32, 1024, 1024),
)


@pytest.mark.parametrize(
    ("cause", "address", "moved"),
    [("uncoalesced", 0, 32000), ("scattered", 32, 32000), ("", 32, 4000)],
)
def test_sectors_of_look_ups_by_what_was_loaded_have_a_name_of_their_own(
    cause: str, address: int, moved: float
) -> None:
    counters = {SECTORS: moved, f"{SECTORS} Ideal": 4000.0}
    lines = tuple(
        replace(c, counters=counters, stalls={"long_sb": c.samples})
        if c.address == address
        else replace(c, stalls={"long_sb": c.samples})
        for c in STRIDED
    )
    source = analyse_source(SourceCounters("k", lines), top=MOST_STALLED)
    evidence = Evidence(LAUNCH, QUIET | {"dram": 0.85, "l2": 0.85}, lines, source)
    found = [c.name for c in find_causes(evidence)]
    assert (found[:1] or [""]) == [cause]


def test_no_load_waits_for_sectors_that_stores_write_in_part() -> None:
    def most(sass: str) -> float:
        moved = {SECTORS: 32000.0, f"{SECTORS} Ideal": 4000.0}
        line = CountedInstruction(0, sass, 9, 0, 1000, 32000, 32000, {"wait": 9}, moved)
        load = CountedInstruction(16, "FADD R9, R8, R8", 99, 0, 1000, 32000, 32000, {"long_sb": 99})
        lines = (line, load, CountedInstruction(32, "EXIT", 0, 0, 32, 1024, 1024))
        source = analyse_source(SourceCounters("k", lines), top=MOST_STALLED)
        e = Evidence(LAUNCH, QUIET | {"dram": 0.5, "l2": 0.7, "l1": 0.6}, lines, source)
        return {c.name: c.most_percent for c in find_causes(e)}["uncoalesced"]

    assert most("STG.E desc[UR4][R2.64], R4") < most("LDG.E R4, desc[UR4][R2.64]") / 1.5
