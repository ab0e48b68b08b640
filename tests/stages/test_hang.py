from __future__ import annotations

from pathlib import Path

from ci.stages.hang import describe_wait, parse_triage, read_triage
from tests.stages.bench import DATA, write

HANG = (DATA / "cuda-gdb/13.0-hang.gdb.txt").read_text()


def test_the_triage_names_every_range_of_threads_still_on_the_gpu() -> None:
    waiting = parse_triage(HANG)
    assert len(waiting) == 8
    first = waiting[0]
    assert (first.kernel, first.warp, first.threads) == ("hang_kernel", 1, 32)
    assert (first.first_block, first.first_thread) == ("(0,0,0)", "(32,0,0)")
    assert first.place == "kernels.cu:38"
    assert [w.first_block for w in waiting][4] == "(4,0,0)"


def test_the_sentence_names_warp_line_and_kernel() -> None:
    assert describe_wait(parse_triage(HANG)) == (
        "warp 1 of CTA (0,0,0) waits at kernels.cu:38 in hang_kernel,"
        " 7 more ranges of threads with it"
    )


def test_threads_elsewhere_are_named_too() -> None:
    moved = HANG.replace(
        "(7,0,0)  (63,0,0)    32 0x00007f3a6f7a0240 /tmp/cap/kernels.cu    38",
        "(7,0,0)  (63,0,0)    32 0x00007f3a6f7a0240 /tmp/cap/kernels.cu    40",
    )
    assert describe_wait(parse_triage(moved)).endswith("; others at kernels.cu:40")


def test_a_triage_that_names_nobody_is_empty(tmp_path: Path) -> None:
    assert parse_triage("") == ()
    assert parse_triage("No CUDA threads.\n") == ()
    assert read_triage(tmp_path, "integer-0") == ()
    write(tmp_path, {"integer-0.gdb.txt": HANG})
    assert len(read_triage(tmp_path, "integer-0")) == 8
