"""Counters by instruction: tests.analyse.listings is counted by hand, the captures are real."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.analyse.source import analyse_source, launch_counters, read_counter_page
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import Instruction, Metric, ProfiledLaunch, SourceAnalysis, SourceRole
from kernelrig.model.frame import Frame
from kernelrig.report import render_graph, render_source
from kernelrig.run.analyses import analyse_counters

from tests.analyse.captures import b200
from tests.analyse.listings import PIPELINE, page, row
from tests.command_server import run_command

ROOT = Path(__file__).parents[2]
H200 = ROOT / "tests/data/ncu/2025.3.1-h200-sm90a-source.csv.gz"


def analyse(text: str = "", kernel: str = "", tiles: int = 0, **predict: str) -> SourceAnalysis:
    return analyse_source(read_counter_page(text or page(), kernel), predict, tiles)


def role(found: SourceAnalysis, name: str) -> SourceRole:
    (one,) = (r for r in found.roles if r.name == name)
    return one


def test_samples_are_counted_once_and_by_reason() -> None:
    found = analyse()
    assert (found.kernel, found.instructions, found.samples) == ("gemm", 49, 102)
    assert found.samples_executed == 101  # one lies on a loop that the counting pass did not enter
    assert [(s.reason, s.samples) for s in found.stalls] == [
        ("long_sb", 68),
        ("wait", 16),
        ("selected", 11),
        ("barrier", 7),
    ]
    assert found.stalls[0].share == 68 / 102
    (note,) = found.notes
    assert note.startswith("1 of the samples lie on instructions that the counting pass did not")


def test_roles_are_found_inside_a_loop_of_every_warp() -> None:
    found = analyse()
    assert (found.warps, found.tiles) == (4, 10)
    assert [(r.name, r.warps) for r in found.roles] == [
        ("load", "W0"),
        ("MMA", "W1"),
        ("epilogue", "W2 to W3"),
    ]
    # Without the test for its lane, and without the wait that is tried again aside.
    load = role(found, "load")
    assert (load.per_iteration, load.iterations, load.per_tile, load.retried) == (5, 20, 10, 70)
    mma = role(found, "MMA")
    assert (mma.per_iteration, mma.iterations, mma.per_tile) == (7, 10, 7)
    epilogue = role(found, "epilogue")
    assert (epilogue.per_iteration, epilogue.iterations, epilogue.per_tile) == (28, 40, 112)
    assert (epilogue.samples, epilogue.share) == (65, 65 / 102)


def test_a_loop_inside_a_role_is_a_region_of_its_own() -> None:
    rest, loop = role(analyse(), "epilogue").regions
    assert (rest.at, rest.loop, rest.per_time, rest.samples) == (28 * 16, False, 4, 0)
    assert (loop.at, loop.loop, loop.per_time, loop.times) == (30 * 16, True, 6, 160)
    assert loop.what == "1 global loads, 1 shared memory"
    assert [(s.reason, s.samples) for s in loop.stalls] == [
        ("long_sb", 50),
        ("selected", 10),
        ("wait", 5),
    ]


def test_matrix_instructions_have_their_stalls() -> None:
    (mma,) = analyse().tensor
    assert (mma.opcode, mma.instructions, mma.executed, mma.samples) == ("UTCQMMA.2CTA", 2, 20, 8)
    assert [(s.reason, s.samples) for s in mma.stalls] == [("wait", 8)]


def test_a_wait_has_its_branch_and_the_loop_that_tries_again() -> None:
    waits = {w.at: w for w in analyse().waits}
    load = waits[15 * 16]
    assert (load.role, load.passes, load.retries, load.samples) == ("load W0", 20, 70, 1 + 4 + 2)
    mma = waits[21 * 16]
    assert (mma.passes, mma.retries, mma.samples) == (10, 0, 10 + 1)
    assert (waits[41 * 16].passes, waits[41 * 16].samples) == (8, 7)


def test_a_stalled_instruction_names_what_it_waits_for() -> None:
    first, second, *_ = analyse().top
    assert (first.sass, first.samples, first.reason) == (
        "IMAD.U32 R31, R30, 0x10000, RZ",
        60,
        "long_sb",
    )
    assert first.waits_for == "R30, which LDG.E at 0x1e0 writes"
    assert second.sass == "@!P0 BRA 0x2e0", "addresses count from the kernel's start"
    assert second.waits_for == "P0, which SYNCS.PHASECHK.TRANS64.TRYWAIT at 0x150 writes"


def test_bank_conflicts_and_the_mix_are_counted() -> None:
    found = analyse()
    worst = found.excess[0]
    assert (worst.sass, worst.moved, worst.needed) == ("STS [R10], R31", 320, 160)
    assert worst.unit == "wavefronts of shared memory"
    mix = {m.what: m.executed for m in found.mix}
    assert (mix["TMA"], mix["tensor core"], mix["tensor memory"]) == (40, 20, 40)
    assert sum(mix.values()) == found.executed


def test_predicted_counts_are_compared_with_measured_ones() -> None:
    found = analyse(UTCQMMA="2*tiles", STG="tiles*2*2", UTMALDG="tiles*warps*ctas")
    assert [(p.opcode, p.predicted, p.measured) for p in found.predictions] == [
        ("UTCQMMA", 20, 20),
        ("STG", 40, 40),
        ("UTMALDG", 80, 40),
    ]
    shown = render_source(found)
    assert re.search(r"STG +tiles\*2\*2 +40 +40 +equal", shown)
    assert re.search(r"UTMALDG .* 80 +40 +differs", shown)


def test_a_count_that_cannot_be_predicted_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        analyse(STC="1")
    assert refused.value.message == "--predict: the kernel has no instruction STC"
    scalar = tuple(r for r in PIPELINE if "UTCQMMA" not in r[0])
    scalar = tuple((re.sub(r"@(\d+)$", "@40", t), n, s) for t, n, s in scalar)
    with pytest.raises(ConfigError) as refused:
        analyse(page(scalar), STG="tiles")
    assert refused.value.message == "--predict: the number of tiles is not known"
    assert analyse(page(scalar), tiles=40, STG="tiles").predictions[0].predicted == 40


def test_the_layout_has_every_block_and_where_it_goes() -> None:
    found = analyse()
    blocks = {b.at: b for b in found.layout}
    assert sum(b.size for b in found.layout) == 16 * len(PIPELINE)
    loop = blocks[30 * 16]
    assert (loop.role, loop.depth, loop.executed, loop.to) == (
        "epilogue W2 to W3",
        2,
        160,
        (30 * 16, 36 * 16),
    )
    assert "0x01e0  96     epilogue W2 to W3  2      160" in render_source(found, layout=True)
    graph = render_graph(found)
    assert graph.count("[label=") == len(found.layout)
    assert '"0x1e0" -> "0x1e0";' in graph


@pytest.mark.parametrize("group", [",", ".", "\u202f", "'"])
def test_counts_are_read_as_any_locale_groups_them(group: str) -> None:
    # Six counters of more than three digits: threads are 32 times the warps.
    assert analyse(page(group=group)) == analyse()


def test_what_else_was_printed_is_no_part_of_the_page() -> None:
    before = "kernel on a GPU, 3 runs\n==PROF== Connected to process 5 (/x/gemm)\n\nChecksum, 1"
    after = "==PROF== Disconnected from process 5\n\n"
    assert analyse(page(before=before) + after) == analyse()
    assert analyse(page().replace("\n", "\r\n")) == analyse()


def test_a_page_that_is_cut_short_is_refused_or_the_same() -> None:
    text, whole = page(), analyse()
    for end in range(0, len(text), 97):
        try:
            found = analyse(text[:end] or "\n")
        except ProtocolError:
            continue
        assert found == whole, text[:end][-80:]


def test_of_several_launches_one_must_be_named() -> None:
    both = page() + page(kernel="void ns::other<int>(float *)")
    with pytest.raises(ConfigError) as refused:
        analyse(both)
    assert refused.value.message == (
        "the text has 2 launches: gemm(const float *, float *), void ns::other<int>(float *)"
    )
    assert analyse(both, "^gemm") == analyse()
    assert analyse(both, "other").kernel == "ns::other"
    with pytest.raises(ConfigError, match="no kernel 'third' in the text"):
        analyse(both, "third")
    with pytest.raises(ConfigError) as refused:
        analyse(page() + page())
    assert refused.value.hint == "export one launch: --launch-count 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n", "no SourceCounters table in the text"),
        ("==WARNING== No kernels were profiled.\n", "no SourceCounters table in the text"),
        ('"ID","Process ID","Kernel Name"\n"0","1","gemm"\n', "this is another page of a report"),
        (page(()), "the table of gemm is cut short: it has no instruction"),
        (page().replace("stall_", "slept_"), "the table of gemm has no column stall_...: it was"),
        (
            page().replace('"Instructions Executed"', '"Instructions"'),
            "the table of gemm has no column 'Instructions Executed'",
        ),
        (page().replace('"160"', '"many"', 1), "'many' at 0x7f00000001e0 is no count"),
        (page((row("      EXIT", 0),)), "no instruction of gemm was counted as executed"),
    ],
)
def test_what_is_no_page_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        analyse(text)
    assert refused.value.message.startswith(said)


def test_a_line_that_is_missing_leaves_roles_to_the_counts() -> None:
    """Of 20 instructions with one count it is known that the same warps execute them."""
    alike = tuple(row("      UTCQMMA.2CTA gdesc[UR4], gdesc[UR6]", 10, wait=1) for _ in range(20))
    text = page((row("      NOP", 8), *alike, row("      NOP", 8), row("      EXIT", 8)))
    lines = text.splitlines()
    found = analyse("\n".join([*lines[:-2], lines[-1]]) + "\n")
    assert [(r.name, r.warps, r.per_iteration, r.per_tile) for r in found.roles] == [
        ("20 tensor core", "10 times", 20, 20)
    ]
    assert "roles are by execution counts, as the graph is not known" in found.notes[0]
    assert (found.layout, found.waits) == ((), ())


def test_a_kernel_without_roles_has_one_for_every_warp() -> None:
    plain = (
        row("      MOV R1, RZ", 8),
        row("      LDG.E R2, desc[UR4][R4.64]", 80, long_sb=1),
        row("      STG.E desc[UR4][R6.64], R2", 80, long_sb=9),
        row("@P0   BRA @1", 80),
        row("      EXIT", 8),
    )
    found = analyse(page(plain))
    assert [(r.name, r.warps, r.per_iteration, r.iterations) for r in found.roles] == [
        ("store", "every warp", 3, 80)
    ]
    assert (found.warps, found.tiles) == (0, 0)


def test_what_a_page_says_is_escaped_where_it_is_shown() -> None:
    shown = render_source(analyse(page(kernel="gemm\x1b[31m")))
    assert "\x1b" not in shown


def test_the_command_answers_with_records(tmp_path: Path) -> None:
    file, graph = tmp_path / "page.csv", tmp_path / "graph.dot"
    file.write_text(page())
    words = ["analyze-source", str(file), "--predict", "STG=4*tiles", "--top", "2"]
    done = run_command(*words, "--graph", graph, "--json")
    assert done.exit_code == 0, done.stderr
    counters = json.loads(done.stdout)["counters"]
    assert [r["name"] for r in counters["roles"]] == ["load", "MMA", "epilogue"]
    assert len(counters["top"]) == 2
    assert graph.read_text().startswith('digraph "gemm" {')


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["README.md"], 5, "README.md: no SourceCounters table in the text"),
        (["README.md", "--predict", "STG"], 2, "--predict must be NAME=VALUE"),
    ],
)
def test_what_cannot_be_analysed_is_one_sentence(words: list[str], code: int, said: str) -> None:
    done = run_command("analyze-source", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith(said)


def test_an_h200s_page_has_the_roles_of_the_kernel() -> None:
    found = analyse(gzip.decompress(H200.read_bytes()).decode(), QGMMA="tiles*24*4")
    # 928256 rows in tiles of 64, three slices of columns; four warps of a consumer each.
    assert (found.warps, found.tiles) == (12, 14504 * 3)
    assert [(r.name, r.warps) for r in found.roles] == [("load", "W0"), ("consumer", "W4 to W11")]
    assert role(found, "load").iterations == 21756
    assert role(found, "consumer").iterations == 174048
    assert [(t.instructions, t.executed) for t in found.tensor] == [(24, 24 * 174048)]
    assert found.predictions[0].predicted == found.predictions[0].measured
    loops = [(r.times, r.per_time) for r in role(found, "load").regions if r.loop]
    assert loops == [(25344, 10), (130536, 30), (130536, 30)]  # B once, then A: 6 steps a tile
    assert sum(s.samples for s in found.stalls) == found.samples == 71749
    assert {s.reason: s.samples for s in found.stalls}["unnamed"] == 856


def test_the_b200_capture_has_the_figures_of_its_notes() -> None:
    text = b200("source_counters_raw.csv").read_text()
    found = analyse(text, UTCQMMA="24*tiles", UTMALDG="tiles*2*12", STG="tiles*4*8*10")
    assert (found.samples, found.samples_executed) == (32868, 32739)
    assert found.stalls[0].reason == "long_sb"
    assert f"{100 * found.stalls[0].share:.1f}" == "44.2"
    assert (found.warps, found.tiles) == (7, 10878)
    assert [(r.name, r.warps) for r in found.roles] == [
        ("load", "W0"),
        ("MMA", "W1"),
        ("epilogue", "W2 to W6"),
    ]
    w1 = role(found, "MMA")
    assert (w1.per_iteration, w1.per_tile, w1.iterations) == (411, 411, 10878)
    (mma,) = found.tensor
    assert (mma.instructions, mma.executed) == (24, 261072)
    assert found.predictions[0].measured == found.predictions[1].measured == 261072
    assert found.predictions[2].predicted == found.predictions[2].measured == 3480960
    first = found.waits[0]
    assert (first.role, first.passes, first.retries) == ("epilogue W2 to W6", 108780, 2193504)
    sectors = [e for e in found.excess if e.unit == "sectors of global memory"]
    assert sum(e.moved - e.needed for e in sectors) == 44556288


def test_a_report_says_the_same_as_its_page() -> None:
    """With the warps of a CTA, and without what only looks like an address."""
    counters = read_counter_page(page())
    parts: dict[str, dict[int, float]] = {}
    for c in counters.instructions:
        values: dict[str, float] = {
            "inst_executed": c.executed,
            "thread_inst_executed": c.threads,
            "thread_inst_executed_true": c.predicated_on,
            "smsp__pcsamp_sample_count": c.samples,
            "smsp__pcsamp_warps_issue_stalled_wait_not_issued": c.not_issued,
            "smsp__pcsamp_warps_issue_stalled_long_scoreboard": c.stalls.get("long_sb", 0),
            "smsp__pcsamp_warps_issue_stalled_barrier": c.stalls.get("barrier", 0),
            "smsp__pcsamp_warps_issue_stalled_selected": c.stalls.get("selected", 0),
            "smsp__pcsamp_warps_issue_stalled_wait": c.stalls.get("wait", 0),
            "memory_l1_wavefronts_shared": c.counters.get("L1 Wavefronts Shared", 0),
            "memory_l1_wavefronts_shared_ideal": c.counters.get("L1 Wavefronts Shared Ideal", 0),
        }
        for name, value in values.items():
            parts.setdefault(name, {})[c.address] = value
    metrics = {name: Metric(name, sum(of.values()), by_pc=of) for name, of in parts.items()}
    metrics["launch__block_size"] = Metric("launch__block_size", 128.0)
    code = [Instruction(c.address, c.sass.strip(), "/k/gemm.cu", 7) for c in counters.instructions]
    launch = ProfiledLaunch("gemm", "gemm()", metrics, instructions=(Instruction(3, "NOP"), *code))
    found = analyse_source(launch_counters(launch))
    said = analyse()
    assert found.top[0].line == Frame("/k/gemm.cu", 7)
    assert render_source(found).count("gemm.cu:7") > 3
    assert (found.warps, found.stalls, found.mix) == (4, said.stalls, said.mix)
    assert [replace(r, regions=()) for r in found.roles] == [
        replace(r, regions=()) for r in said.roles
    ]
    for missing in ("inst_executed", "smsp__pcsamp_sample_count"):
        fewer = replace(launch, metrics={n: m for n, m in metrics.items() if n != missing})
        with pytest.raises(ProtocolError, match=f"has no {missing} by instruction"):
            launch_counters(fewer)


def test_code_alone_has_its_roles_and_its_layout() -> None:
    path = ROOT / "tests/data/cuda-gdb/waits-sm_90a-nvdisasm-13.5.37.sass"
    words = ("analyze-source", path, "--layout")
    done = run_command(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("the code has 4 kernels; --kernel is one of _Z4mbarPi, ")
    done = run_command(*words, "--kernel", "mbar")
    assert done.exit_code == 0, done.stderr
    assert "note: nothing was measured: this is the code alone" in done.stdout
    assert re.search(r"^0x0000 +\d+ ", done.stdout, re.MULTILINE)
    assert "samples, " not in done.stdout


def test_a_report_of_ncu_is_read_with_its_source_lines(ncu_report: Path) -> None:
    reports = ROOT / "tests/data/ncu/2025.3.1-reports"
    found = analyse_counters(ROOT, str(reports / "good.ncu-rep"), {})
    assert found.executed > 0
    assert found.samples == sum(s.samples for s in found.stalls)
    assert any(t.line and t.line.file.endswith(".cu") for t in found.top)
    with pytest.raises(ConfigError, match="no launch of 'nothing' was profiled; there are"):
        analyse_counters(ROOT, str(reports / "good.ncu-rep"), {}, kernel="nothing")
