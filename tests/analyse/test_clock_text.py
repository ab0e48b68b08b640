"""Phases as timing builds print them. PIPELINE is made up, in the form of the seed's program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.analyse.phases import analyse_phases, parse_changes, read_clock_text
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import Bound, TimingAnalysis
from kernelrig.report import render_phases

from tests.analyse.captures import b200
from tests.kernel.test_role_report import REPORT

DATA = Path(__file__).parents[1] / "data"
H200 = DATA / "phases/h200-580.159.04-sm90a.stdout.txt"
PIPELINE = """\
Some kernel (6 warps [4 epi], cluster of 2)
Custom kernel: 0.020 ms  12.34 TFLOPS

=== W1 TIMING (clock64, 8 tiles across 2 clusters) ===
  Per-tile averages (cycles / ns at 2.0 GHz):
    Epilogue mbar wait:     1000 cycles /  500.0 ns
    TMA stage-0 wait:        600 cycles /  300.0 ns
    K-loop (6 ki \N{MULTIPLICATION SIGN} 4 MMA):    3000 cycles / 1500.0 ns
    Total tile:             4601 cycles / 2300.5 ns
    Overhead (epi+tma0):    1600 cycles /  800.0 ns  (34.8% of tile)
  K-loop range: min=2000 max=9000 (4.5x spread)
  Total tile range: min=3000 max=9500 (3.2x spread)
  Expected total cycles (wall clock): 20000

=== EPILOGUE PER-WARP PHASE 1 TIMING (W2-W3, 6 tiles across 2 clusters) ===
  Per-warp Phase 1 (cycles):
    W2 (ew=0, rg=2):  avg=2900  min=2500  max=3300  p95=3200
    W3 (ew=1, rg=3):  avg=3200  min=2600  max=9000  p95=3400
  Spread of per-warp averages: 300 cycles (max_avg - min_avg)
  Inter-warp spread per tile (max-min Phase 1 across warps):
    Average: 600 cycles
    Min: 10  Max: 5000  P95: 1500 cycles
  => ASYMMETRIC (avg spread 300 >= 200 cyc): port-queued or bank-conflict bias

=== EPILOGUE PHASE TIMING (W3/ew=1, 6 tiles across 2 clusters) ===
  Per-tile averages (cycles / ns at 2.0 GHz):
    Mainloop mbar wait:       1200 cycles /  600.0 ns  (25.5%)
    Phase 1 (TMEM->SMEM):     3200 cycles / 1600.0 ns  (68.1%)
    Phase 2 (SMEM->global):     300 cycles /  150.0 ns  (6.4%)
    Total (wait+work):        4700 cycles / 2350.0 ns
    Work only (P1+P2):        3500 cycles / 1750.0 ns
  Mainloop wait range: min=100 max=8000 (80.0x spread)
  Phase 1 range: min=2600 max=9000 (3.5x spread)
  Phase 2 range: min=290 max=400 (1.4x spread)
"""


def analyse(text: str, what_if: str = "", production_ms: float = 0.0) -> TimingAnalysis:
    return analyse_phases(read_clock_text(text), parse_changes(what_if), production_ms)


def ceiling(found: TimingAnalysis, role: str, without: str) -> str:
    (factor,) = (c.factor for c in found.ceilings if (c.role, c.without) == (role, without))
    return f"{factor:.2f}"


def test_the_epilogue_binds_where_it_holds_the_accumulator_for_longer() -> None:
    found = analyse(PIPELINE)
    assert found.equilibrium is not None
    e = found.equilibrium
    assert e.bound is Bound.EPILOGUE
    # 4700 - 300: it hands the accumulator back before its stores. 600 + 3000 against it.
    assert (e.effective, e.productive, e.deficit) == (4400, 3600, 800)
    assert e.amplification == 1000 / 800
    # The printed total, which the rounded parts miss by one.
    assert e.cycle == 4601
    # No role needs more than the MMA warp's 3600: 3200 + 300, and (3600 + 3200) / 2.
    assert e.floor == 3600
    assert e.critical_share == pytest.approx(4601 / (3600 + 3500))


def test_the_mma_warp_binds_where_it_hardly_waits() -> None:
    fewer = PIPELINE.replace("wait:     1000 cycles", "wait:      100 cycles")
    fewer = fewer.replace("Total tile:             4601", "Total tile:             3700")
    fewer = fewer.replace("Mainloop mbar wait:       1200", "Mainloop mbar wait:        300")
    fewer = fewer.replace("Total (wait+work):        4700", "Total (wait+work):        3800")
    found = analyse(fewer)
    assert found.equilibrium is not None
    assert (found.equilibrium.bound, found.equilibrium.amplification) == (Bound.MMA, None)
    assert found.headline.startswith("MMA-bound: the MMA warp needs 3,600 cycles a tile")


def test_a_build_that_stores_first_holds_the_accumulator_for_its_whole_row() -> None:
    from dataclasses import replace

    late = replace(read_clock_text(PIPELINE), released_before_stores=False)
    found = analyse_phases(late).equilibrium
    assert found is not None
    assert (found.effective, found.deficit) == (4700, 1100)


def test_each_wait_has_its_ceiling() -> None:
    found = analyse(PIPELINE)
    assert ceiling(found, "W1", "the accumulator wait") == "1.28"  # 4601 / 3600
    assert ceiling(found, "W1", "the stage-0 wait") == "1.15"  # 4601 / 4000
    assert ceiling(found, "W1", "both waits") == "1.53"  # 4601 / 3000
    assert ceiling(found, "W3", "the accumulator wait") == "1.34"  # 4700 / 3500


def test_warps_that_are_always_slower_are_told_from_those_that_vary() -> None:
    (found,) = analyse(PIPELINE).contention
    assert (found.phase, found.spread_of_means, found.in_a_row) == ("read-back", 300, 600)
    assert (found.asymmetric, found.fat_tails) == (True, ("W3",))
    assert "W3 slower" in found.text
    assert "50% of it always the same warps'" in found.text


def test_jitter_names_a_fat_tail() -> None:
    said = {(j.role, j.phase): j.text for j in analyse(PIPELINE).jitter}
    assert said["W2", "read-back"] == "varies: the slowest is 1.1 times the mean"
    assert said["W3", "read-back"] == "fat tail: the slowest is 2.6 times p95"
    assert said["W1", "K loop"] == "varies: the slowest is 3.0 times the mean"


def test_the_rows_are_compared_with_the_launch() -> None:
    found = analyse(PIPELINE, production_ms=0.008)
    assert found.coverage is not None
    assert (found.coverage.measured, found.coverage.launch) == (4 * 4601, 20000)
    assert "(92.0%)" in found.coverage.text
    assert "+25.0%" in found.production  # 20000 cycles at 2 GHz: 0.010 ms


def test_what_if_is_an_interval_from_the_floor_to_all_of_the_change() -> None:
    found = analyse(PIPELINE, "phase1=-200,kloop=-10%").projection
    assert found is not None
    assert found.changes == (("read-back", -200), ("K loop", -300))
    assert found.least == 4601 - 500
    assert found.most == 4601 - 300  # the floor sinks with the K loop: 3600 to 3300
    assert found.estimated == pytest.approx(4601 - 500 * 4601 / 7100)
    assert "estimated" in found.text


def test_a_shorter_epilogue_alone_may_bring_nothing() -> None:
    found = analyse(PIPELINE, "Phase 1=-200").projection
    assert found is not None
    assert (found.least, found.most) == (4401, 4601)


@pytest.mark.parametrize(
    ("what_if", "said"),
    [
        ("phase9=-1", "--what-if: no phase 'phase9' in this capture"),
        ("phase1", "--what-if: 'phase1' is not a change of a phase"),
        ("phase1=fast", "--what-if: 'phase1=fast' is not a change of a phase"),
        ("kloop=-1,K-loop=-2", "--what-if: 'K-loop' is changed twice"),
        ("kloop=-1,", None),
        (",", "--what-if must be changes of phases, not ','"),
        ("kloop=-99999", "--what-if: K loop takes 3,000 cycles, 99,999 cannot go"),
        (
            "epi_wait=-100",
            "--what-if: 'epi_wait' is a wait for another role and follows from its work",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused_by_name(what_if: str, said: str | None) -> None:
    if said is None:
        assert analyse(PIPELINE, what_if).projection is not None
        return
    with pytest.raises(ConfigError) as refused:
        analyse(PIPELINE, what_if)
    assert refused.value.message == said


def test_what_is_cut_short_anywhere_is_refused_or_the_same() -> None:
    whole = analyse(PIPELINE)
    for end in range(0, len(PIPELINE), 7):
        try:
            found = analyse(PIPELINE[:end])
        except ProtocolError:
            continue
        assert found == whole, PIPELINE[:end][-60:]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3000 cycles /", "3100 cycles /", "the phases of W1 add up to 4700 cycles, its"),
        ("avg=3200", "avg=3201", "W3's read-back is 3201 cycles in one section and 3200"),
        ("range: min=2000", "range: min=3001", "the mean of K loop, 3000, is not from 3001"),
        ("W1 TIMING (clock64, 8 tiles", "W1 TIMING (clock64, 0 tiles", "recorded no tile"),
        ("K-loop (6", "Q-loop (6", "the section 'W1 TIMING' is cut short: it has no K loop"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(old: str, new: str, said: str) -> None:
    assert old in PIPELINE
    with pytest.raises(ProtocolError, match=re.escape(said)):
        analyse(PIPELINE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no clock64 phases in the text"),
        ("hello\n" * 3, "no clock64 phases in the text"),
        (PIPELINE + PIPELINE, "the text holds 'W1 TIMING' twice: pass one capture"),
        (PIPELINE + "x", None),
        (PIPELINE.replace("2.0 GHz", "2,0 GHz").replace("500.0 ns", "500,0 ns"), None),
    ],
)
def test_no_capture_and_two_captures_are_one_sentence(text: str, said: str | None) -> None:
    if said is None:
        assert analyse(text) == analyse(PIPELINE)
        return
    with pytest.raises(ProtocolError, match=re.escape(said)):
        analyse(text)


def test_our_own_report_by_role_is_read() -> None:
    found = analyse(REPORT)
    assert [b.role for b in found.budgets] == ["W0", "W1", "W3"]
    e = found.equilibrium
    assert e is not None
    # 510 + 4200, and 500 + 4000: the figures of the report.
    assert (e.bound, e.effective, e.productive) == (Bound.EPILOGUE, 4710, 4500)
    assert not any(c.role == "W0" for c in found.ceilings), "no tile ends sooner for it"


def test_two_warpgroups_in_turn_on_an_h200() -> None:
    found = analyse(H200.read_text(), "mmas=-10%")
    e = found.equilibrium
    assert e is not None
    assert e.bound is Bound.MMA
    assert e.cycle == 1081735
    # The MMAs of one begin before those of the other are done: they cannot bind the row alone.
    assert e.floor < e.cycle < 2 * 661245
    assert e.deficit == (147069 + 151980) / 2
    assert ceiling(found, "WG1", "the table and turn") == "1.16"
    assert [c.asymmetric for c in found.contention] == [False, False]
    assert found.projection is not None
    assert found.projection.estimated == pytest.approx(e.cycle - 66124.55)


def test_a_table_that_is_cut_short_is_refused() -> None:
    text = H200.read_text()
    with pytest.raises(ProtocolError, match="the table of phases is cut short: 'WG1: store"):
        analyse(text[: text.index("8.4%")])


def test_a_kernel_without_roles_has_a_budget_and_no_equilibrium() -> None:
    table = "phase  mean cycles  share  min cycles  p95 cycles  max cycles   rows of 4\n"
    table += "fetch          300  75.0%         200         400         900      4\n"
    table += "multiply       100  25.0%          90         110         120      4\n"
    found = analyse(table, "fetch=-100")
    assert found.equilibrium is None
    assert found.headline == "all warps: fetch is 75.0% of its 400 cycles"
    assert found.projection is not None
    assert (found.projection.least, found.projection.most) == (300, 300)


def test_what_is_shown_ends_no_line_and_starts_no_command() -> None:
    text = H200.read_text().replace("WG1: store", "WG1: \x1b[31mstore")
    text = text.replace("WG2: store", "WG2: \x1b[31mstore")
    assert "\x1b" not in render_phases(analyse(text))


def test_the_b200_capture_has_the_figures_of_its_notes() -> None:
    found = analyse(b200("clock64_timing_f31.txt").read_text())
    w1, epilogue = found.budgets
    assert (w1.total, [line.cycles for line in w1.lines]) == (6066, [1344, 662, 4059])
    assert (epilogue.total, [line.cycles for line in epilogue.lines]) == (6156, [1538, 4345, 273])
    e = found.equilibrium
    assert e is not None
    assert (e.bound, e.effective, e.productive, e.deficit) == (Bound.EPILOGUE, 5883, 4721, 1162)
    assert ceiling(found, "W1", "the accumulator wait") == "1.28"
    assert ceiling(found, "W1", "both waits") == "1.49"
    (read_back,) = found.contention
    assert (read_back.spread_of_means, read_back.in_a_row) == (269, 745)
    assert found.coverage is not None
    assert found.coverage.measured == 147 * 6066
