from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import sha256_file
from kernelrig.findings import Sources
from kernelrig.model import Finding
from kernelrig.model.frame import Frame
from kernelrig.stages.sanitizer.command import WANTED_OPTIONS
from kernelrig.stages.sanitizer.findings import Resolve, make_findings, no_chain
from kernelrig.stages.sanitizer.tool_log import parse_log, parse_xml

from tests.stages import bench
from tests.stages.bench import DATA

CAPTURES = DATA / "sanitizer"


NO_SOURCES = Sources(bench.build())


def found_in(
    tool: str,
    text: str,
    sources: Sources = NO_SOURCES,
    kernel: str = "",
    resolve: Resolve = no_chain,
) -> tuple[Finding, ...]:
    main = "cuda_patch_embed_fp8.cu"
    return make_findings(tool, parse_xml(text).reports, sources, main, kernel, resolve)


def capture_text(capture: str) -> str:
    return (CAPTURES / f"{capture}.xml").read_text()


def findings_of(tool: str, capture: str) -> tuple[Finding, ...]:
    return found_in(tool, capture_text(capture))


@pytest.mark.parametrize(
    ("capture", "total", "not_listed"),
    [
        ("2025.3.1-memcheck-clean", 0, 0),
        ("2025.3.1-racecheck-clean", 0, 0),
        ("2025.3.1-memcheck-oob", 2, 0),
        ("2025.3.1-initcheck-oob", 1, 0),
        ("2025.3.1-initcheck-uninit", 3072, 2972),
        ("2025.3.1-racecheck-race", 3, 0),
        ("2025.3.1-synccheck-divergent", 64, 0),
        ("2026.4.0-racecheck-race", 3, 0),
        ("2026.4.0-memcheck-oob", 2, 0),
    ],
)
def test_the_printed_summary_is_counted(capture: str, total: int, not_listed: int) -> None:
    log = parse_log((CAPTURES / f"{capture}.stdout.txt").read_text())
    assert (log.total, log.not_listed, log.summaries) == (total, not_listed, 1)


def test_warnings_count_as_much_as_errors() -> None:
    log = parse_log("========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n")
    assert log.total == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERROR SUMMARY: 0 errors\n",
        "========= ERROR SUMMARY: 0 err",
        "done========= ERROR SUMMARY: 0 errors\n",
        (CAPTURES / "2025.3.1-memcheck-nocuda.stdout.txt").read_text(),
    ],
)
def test_what_is_no_summary_is_not_taken_for_one(text: str) -> None:
    assert parse_log(text).total is None


def test_complaints_are_the_tools_own_and_not_the_heads_of_records() -> None:
    race = parse_log((CAPTURES / "2025.3.1-racecheck-race.stdout.txt").read_text())
    assert race.complaints == ()
    dead = parse_log((CAPTURES / "2025.3.1-racecheck-oob.stdout.txt").read_text())
    assert dead.complaints == ("Target application returned an error",)
    nocuda = parse_log((CAPTURES / "2025.3.1-memcheck-nocuda.stdout.txt").read_text())
    assert nocuda.complaints == (
        "Error: Target application terminated before first instrumented API call",
    )


def test_an_out_of_bounds_store_is_a_finding_with_its_line_and_thread() -> None:
    store, api = findings_of("memcheck", "2025.3.1-memcheck-oob")
    assert (store.kind, store.kernel, store.line) == ("Invalid __global__ write", "oob_kernel", 14)
    assert store.file == "/tmp/cap/kernels.cu"
    assert store.threads == "thread (127,0,0) of CTA (7,0,0)"
    assert (api.kind, api.file, api.line) == ("cudaErrorLaunchFailure", "", 0)


def test_the_same_race_of_three_launches_is_one_finding() -> None:
    (race,) = findings_of("racecheck", "2025.3.1-racecheck-race")
    assert (race.kind, race.count, race.line) == ("Race condition", 3, 19)
    assert race.message == (
        "Race condition between Write in race_kernel at kernels.cu:19"
        " and Read in race_kernel at kernels.cu:20"
    )


def test_both_versions_of_the_tool_give_the_race_one_fingerprint() -> None:
    (old,) = findings_of("racecheck", "2025.3.1-racecheck-race")
    (new,) = findings_of("racecheck", "2026.4.0-racecheck-race")
    assert old.fingerprint == new.fingerprint


def test_uninitialised_reads_of_many_threads_are_one_finding() -> None:
    (read,) = findings_of("initcheck", "2025.3.1-initcheck-uninit")
    assert read.kind == "Uninitialized __global__ memory read"
    assert (read.count, read.kernel, read.line) == (100, "uninit_kernel", 24)
    assert read.threads.endswith(" and 99 more")


def test_a_record_without_a_level_is_an_error() -> None:
    (barrier,) = findings_of("synccheck", "2025.3.1-synccheck-divergent")
    assert barrier.message == "Barrier error: Divergent thread(s) in warp"
    assert (barrier.count, barrier.line) == (64, 28)


def test_an_unwritten_output_that_the_host_copies_has_no_line_and_is_found() -> None:
    (copied,) = findings_of("initcheck", "2025.3.1-initcheck-oob")
    assert (copied.kind, copied.line) == ("Host API uninitialized memory access", 0)


def test_warning_records_count_and_info_records_do_not() -> None:
    text = (CAPTURES / "2025.3.1-racecheck-race.xml").read_text()
    assert parse_xml(text.replace("<level>Error", "<level>Warning")).count == 3
    assert parse_xml(text.replace("<level>Error", "<level>Info")).count == 0


def test_a_fingerprint_survives_a_rerun_and_moved_lines() -> None:
    text = (CAPTURES / "2025.3.1-memcheck-oob.xml").read_text()
    rerun = text.replace("0x7f3fb3802ffc", "0x7eee00000ffc").replace("<line>14<", "<line>99<")
    moved = rerun.replace("/tmp/cap/", "/builder/kernel/").replace("<x>127<", "<x>126<")
    first = found_in("memcheck", text)[0]
    second = found_in("memcheck", moved)[0]
    assert second.line == 99
    assert first.fingerprint == second.fingerprint


def test_another_function_tool_or_source_line_has_another_fingerprint(tmp_path: Path) -> None:
    source = bench.write(tmp_path, {"kernels.cu": "\n" * 13 + "  out[i] = x;\n"}) / "kernels.cu"
    named = Sources(bench.build(inputs={"kernels.cu": sha256_file(source)}), tmp_path)
    text = (CAPTURES / "2025.3.1-memcheck-oob.xml").read_text()
    other = text.replace("<func>oob_kernel<", "<func>other_kernel<")
    prints = {
        found_in("memcheck", text)[0].fingerprint,
        found_in("memcheck", other)[0].fingerprint,
        found_in("racecheck", text)[0].fingerprint,
        found_in("memcheck", text, named)[0].fingerprint,
    }
    assert len(prints) == 4


def test_two_lines_that_look_alike_never_share_a_fingerprint() -> None:
    text = (CAPTURES / "2025.3.1-memcheck-oob.xml").read_text()
    record = text[text.index("  <record>") : text.index("</record>") + len("</record>\n")]
    twice = text.replace(record, record + record.replace("<line>14<", "<line>15<"))
    first, second, _ = found_in("memcheck", twice)
    assert second.fingerprint == f"{first.fingerprint}-2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<ComputeSanitizerOutput>",
        "<Other/>",
        "<ComputeSanitizerOutput><oops/></ComputeSanitizerOutput>",
        (CAPTURES / "2025.3.1-memcheck-oob.xml").read_text()[:1500],
    ],
)
def test_xml_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_xml(text)


def test_an_inlined_function_is_the_location_and_its_calls_are_the_chain() -> None:
    store, *api = findings_of("memcheck", "2025.3.1-memcheck-inlined")
    assert (store.kernel, store.line, store.count) == ("patch_embed_gemm", 161, 64)
    assert [(f.line, f.function) for f in store.frames] == [
        (161, "store_four"),
        (173, "store"),
        (203, "patch_embed_gemm"),
    ]
    assert store.message == (
        "Invalid __global__ write of size 8 bytes is out of bounds"
        " in store_four at cuda_patch_embed_fp8.cu:161 in store at cuda_patch_embed_fp8.cu:173"
    )
    assert [f.kind for f in api] == ["cudaErrorLaunchFailure"] * 2


def test_a_race_of_many_ends_is_a_finding_for_each_pair_of_lines() -> None:
    text = capture_text("2025.3.1-racecheck-inlined")
    found = found_in("racecheck", text, kernel="patch_embed_gemm")
    assert (parse_xml(text).count, len(found)) == (32, 4)
    assert {f.kernel for f in found} == {"patch_embed_gemm"}
    assert found[0].message == (
        "Race condition between Write in publish_lines at cuda_patch_embed_fp8.cu:106"
        " and Read in load_eight at cuda_patch_embed_fp8.cu:133"
    )


def test_a_race_whose_ends_swap_roles_in_a_rerun_is_the_same_race() -> None:
    text = (CAPTURES / "2025.3.1-racecheck-race.xml").read_text()
    swapped = text.replace("source>", "x>").replace("destination>", "source>")
    swapped = swapped.replace("x>", "destination>").replace("        <count>4096</count>\n", "")
    (first,) = found_in("racecheck", text)
    (again,) = found_in("racecheck", swapped)
    assert (again.message, again.fingerprint) == (first.message, first.fingerprint)


def test_a_dump_of_launches_counts_as_an_error_and_is_therefore_never_asked_for() -> None:
    log = parse_log((CAPTURES / "2026.4.0-memcheck-launches.stdout.txt").read_text())
    assert log.total == 1
    assert findings_of("memcheck", "2026.4.0-memcheck-launches") == ()
    assert "--dump-kernel-launches" not in [option for _, option, _ in WANTED_OPTIONS]


def test_the_fingerprints_of_the_captures_are_those_that_were_reviewed() -> None:
    captures = ("memcheck-oob", "memcheck-inlined", "racecheck-race", "synccheck-divergent")
    assert {
        name: findings_of(name.split("-")[0], f"2025.3.1-{name}")[0].fingerprint
        for name in captures
    } == {
        "memcheck-oob": "7e1da90e00d76216",
        "memcheck-inlined": "0ad23eb045dcce98",
        "racecheck-race": "b8a4864e6432949c",
        "synccheck-divergent": "e0853189b9350486",
    }


def test_a_race_in_helpers_is_located_at_the_lines_that_call_them() -> None:
    """racecheck names the innermost frame alone; the disassembly has the chain at its offset."""
    main = "/builder/kernel/cuda_patch_embed_fp8.cu"
    text = capture_text("2025.3.1-racecheck-race")
    text = text.replace("/tmp/cap/kernels.cu", "/builder/kernel/ptx.cuh")

    def resolve(frame: Frame, offset: int) -> tuple[Frame, ...]:
        return (frame, Frame(main, 300 + frame.line, "stage_row"), Frame(main, 600, "gemm"))

    (race,) = found_in("racecheck", text, resolve=resolve)
    assert (race.file, race.line) == (main, 319)
    assert [f.line for f in race.frames] == [19, 319, 600]
    assert [f.line for f in race.related] == [320]
    assert race.message == (
        "Race condition between Write in stage_row at cuda_patch_embed_fp8.cu:319"
        " and Read in stage_row at cuda_patch_embed_fp8.cu:320"
    )
    (alone,) = found_in("racecheck", text)
    assert alone.line == 19
    assert race.fingerprint == alone.fingerprint


def test_a_name_that_the_tool_cut_inside_of_its_parameters_is_left_out() -> None:
    text = (CAPTURES / "2025.3.1-memcheck-inlined.xml").read_text()
    name = re.findall("<func>(.*?)</func>", text)[0]
    cut = text.replace(f"<func>{name}</func>", "<func>Clock&lt;false&gt; &amp;)</func>")
    functions = {f.function for r in parse_xml(cut).reports for f in r.frames}
    assert name not in functions
    assert "" in functions
    assert not any("&)" in r.message or "in  at" in r.message for r in parse_xml(cut).reports)
