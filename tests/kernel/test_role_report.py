"""The report of a timing build for a given table of cycles; every figure was computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import Phase
from kernelrig.proc import run_process
from kernelrig.stages.harness.result import PhaseTrace, Roles

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/kernel/print_report.cpp"

REPORT = """\
=== W0 TIMING (clock64, 5 tiles across 2 clusters) ===
  Not recorded and left out: 1 of 6
  Per-tile averages (cycles / ns at 2.0 GHz):
    Ring wait:                  300 cycles /  150.0 ns  (81.1%)
    Issue:                       70 cycles /   35.0 ns  (18.9%)
    Total tile:                 370 cycles /  185.0 ns
  Ring wait range: min=100 max=500 (5.0x spread)
  Issue range: min=50 max=90 (1.8x spread)

=== W1 TIMING (clock64, 5 tiles across 2 clusters) ===
  Not recorded and left out: 1 of 6
  Per-tile averages (cycles / ns at 2.0 GHz):
    Epilogue mbar wait:        1000 cycles /  500.0 ns
    TMA stage-0 wait:           500 cycles /  250.0 ns
    K-loop (6 ki \N{MULTIPLICATION SIGN} 4 MMA):     4000 cycles / 2000.0 ns
    Total tile:                5500 cycles / 2750.0 ns
    Overhead (epi+tma0):       1500 cycles /  750.0 ns  (27.3% of tile)
  K-loop range: min=3200 max=4800 (1.5x spread)
  Total tile range: min=3900 max=7100 (1.8x spread)
  Expected total cycles (wall clock): 6000

=== EPILOGUE PER-WARP READ-BACK TIMING (W2-W5, 3 tiles across 2 clusters) ===
  Not recorded and left out: 1 of 4
  Per-warp read-back (cycles):
    W2 (ew=0, rg=2):  avg=4400  min=4000  max=4800  p95=4800
    W3 (ew=1, rg=3):  avg=4200  min=4100  max=4300  p95=4300
    W4 (ew=2, rg=0):  avg=4600  min=4200  max=5000  p95=5000
    W5 (ew=3, rg=1):  avg=4700  min=4300  max=5100  p95=5100
  Spread of per-warp averages: 500 cycles (max_avg - min_avg)
  Inter-warp spread per tile (max-min read-back across warps):
    Average: 533 cycles
    Min: 300  Max: 800  P95: 800 cycles
  => ASYMMETRIC (avg spread 500 >= 200 cyc): some warps are systematically slower: look for a queue or bank conflicts

=== EPILOGUE PHASE TIMING (W3/ew=1, 3 tiles across 2 clusters) ===
  Not recorded and left out: 1 of 4
  Per-tile averages (cycles / ns at 2.0 GHz):
    Mainloop mbar wait:         510 cycles /  255.0 ns  (10.3%)
    Read-back (TMEM->SMEM):    4200 cycles / 2100.0 ns  (84.7%)
    Stores (SMEM->global):      250 cycles /  125.0 ns  (5.0%)
    Total (wait+work):         4960 cycles / 2480.0 ns
    Work (read-back+stores):   4450 cycles / 2225.0 ns
  Mainloop wait range: min=310 max=710 (2.3x spread)
  Read-back range: min=4100 max=4300 (1.0x spread)
  Stores range: min=210 max=290 (1.4x spread)
"""  # noqa: E501 - as it is printed
PLAIN = """\
phase                       mean cycles   share     min cycles     p95 cycles     max cycles   rows of 4
all warps: fetch                     25    7.7%             10             40             40      4
all warps: multiply                 300   92.3%            100            500            500      3
all warps: never         not recorded
"""  # noqa: E501 - as it is printed


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("report") / "print_report")


def say(program: Path, *words: str) -> str:
    done = run_process([program, *words])
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_p95_is_the_smallest_value_that_95_percent_do_not_exceed(program: Path) -> None:
    """Of the whole numbers from 1 up: how many, mean, min, max, p95."""
    assert say(program, "figures").splitlines() == [
        "1: 1 1 1 1",
        "10: 5.5 1 10 10",
        "20: 10.5 1 20 19",
        "21: 11 1 21 20",
        "100: 50.5 1 100 95",
    ]


def test_the_plain_table_counts_what_was_recorded_alone(program: Path) -> None:
    assert say(program, "plain") == PLAIN


def test_the_report_by_role_leaves_out_what_nobody_wrote_and_what_nothing_overlaps(
    program: Path,
) -> None:
    assert say(program, "roles") == REPORT


def test_warps_are_called_asymmetric_from_200_cycles_on(program: Path) -> None:
    verdicts = [
        next(line for line in say(program, "even", more).splitlines() if "=>" in line)
        for more in ("199", "200")
    ]
    assert verdicts == [
        "  => SYMMETRIC (avg spread 199 < 200 cyc): no warp is systematically slower",
        "  => ASYMMETRIC (avg spread 200 >= 200 cyc): "
        "some warps are systematically slower: look for a queue or bank conflicts",
    ]


def test_with_one_tile_a_cluster_the_epilogue_has_nothing_to_show(program: Path) -> None:
    text = say(program, "drained")
    assert text.endswith(
        "\n=== EPILOGUE PER-WARP READ-BACK TIMING (W2-W5, 0 tiles across 6 clusters) ===\n"
        "\n=== EPILOGUE PHASE TIMING (W3/ew=1, 0 tiles across 6 clusters) ===\n"
    )


def test_phases_that_are_not_those_of_the_roles_are_refused(program: Path) -> None:
    assert say(program, "misnamed") == (
        "a report by role of 5 epilogue warps cannot have 17 phases\n"
    )


def test_a_trace_has_what_was_recorded_and_times_from_the_earliest_start_on(
    program: Path, tmp_path: Path
) -> None:
    """Of two rows of 8 phases and the records of W0 (96 marks), WG1 and WG2 (12 each)."""
    words = np.full((2, 8 + 195 + 27 + 27), 2**64 - 1, np.uint64)
    words[0, 8:17] = [5 << 32 | 131, 3, 1000, 0, 1032, 1, 1064, 0, 1064]
    words[1, 8 + 195 : 8 + 195 + 27] = [6 << 32 | 7, 40, 1010, *[2, 1500] * 12]
    words[1, -27:-24] = [6 << 32 | 7, 1, 1020]  # whose mark was never written
    (tmp_path / "words").write_bytes(words.tobytes())
    (tmp_path / "trace.json").write_text(say(program, "trace", "2", str(tmp_path / "words")))
    trace = from_json(PhaseTrace, tmp_path / "trace.json")
    assert trace.phases[5:] == ("WG2: table and turn", "WG2: MMAs", "WG2: store")
    first, second, third = trace.clocks
    assert (first.row, first.first_phase, first.cta, first.sm) == (0, 0, 5, 131)
    assert (first.marked, first.start, first.marks) == (3, 0, ((0, 32), (1, 64), (0, 64)))
    assert (second.row, second.first_phase, second.cta, second.sm) == (1, 2, 6, 7)
    assert (second.marked, second.start, second.marks) == (40, 10, ((2, 500),) * 12)
    assert third.marks == ((2**64 - 1, 2**64 - 1 - 1000),)  # no phase and no time: a reader says so


def test_the_result_file_has_the_same_figures(program: Path, tmp_path: Path) -> None:
    (tmp_path / "roles.json").write_text(say(program, "json"))
    roles = from_json(Roles, tmp_path / "roles.json")
    assert (roles.tiles, roles.clusters, roles.k_steps, roles.drained_tiles) == (6, 2, 6, 2)
    assert (roles.sm_ghz, roles.launch_ms) == (2.0, 0.003)
    assert (roles.spread_of_means_cycles, roles.symmetric) == (500.0, False)
    figures = {phase.name: phase for phase in roles.figures}
    assert len(figures) == 24
    assert figures["W0: total"] == Phase("W0: total", 5, 370.0, 150, 590, 590)
    assert figures["W1: K loop"] == Phase("W1: K loop", 5, 4000.0, 3200, 4800, 4800)
    assert figures["W5: read-back"] == Phase("W5: read-back", 3, 4700.0, 4300, 5100, 5100)
    assert figures["W3: total"] == Phase("W3: total", 3, 4960.0, 4620, 5300, 5300)
    spread = figures["epilogue: spread of read-back"]
    assert spread == Phase("epilogue: spread of read-back", 3, 533.333333, 300, 800, 800)
