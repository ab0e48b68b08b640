from __future__ import annotations

from pathlib import Path

from kernelrig.stages.harness.hang import describe_wait, parse_triage, read_triage

from tests.stages.bench import DATA, write

HANG = (DATA / "cuda-gdb/13.0-hang.gdb.txt").read_text()


def test_the_triage_names_every_range_of_threads_still_on_the_gpu() -> None:
    waiting = parse_triage(HANG)
    assert len(waiting) == 8
    first = waiting[0]
    assert (first.kernel, first.warps, first.threads) == ("hang_kernel", "warp 1", 32)
    assert (first.first_block, first.first_thread) == ("(0,0,0)", "(32,0,0)")
    assert first.place == "kernels.cu:38"
    assert [w.first_block for w in waiting][4] == "(4,0,0)"


def test_the_sentence_names_kernel_warp_and_line() -> None:
    assert describe_wait(parse_triage(HANG)).sentence == (
        "hang_kernel hangs: warp 1 of CTA (0,0,0) waits at kernels.cu:38 and 7 more"
    )


def test_the_odd_one_out_comes_before_the_crowd_that_waits_for_it() -> None:
    crowd = (DATA / "cuda-gdb/13.0-crowd.gdb.txt").read_text()
    assert describe_wait(parse_triage(crowd)).sentence == (
        "patch_embed_gemm hangs: warp 3 of CTA (0,0,0) waits at cuda_patch_embed_fp8.cu:180;"
        " warps 0 to 2 of CTA (0,0,0) wait at cuda_patch_embed_fp8.cu:212 and 1 more"
    )


def test_a_triage_that_names_no_thread_is_empty(tmp_path: Path) -> None:
    assert parse_triage("") == ()
    assert parse_triage("No CUDA threads.\n") == ()
    assert read_triage(tmp_path, "integer-0") == ()
    write(tmp_path, {"integer-0.gdb.txt": HANG})
    assert len(read_triage(tmp_path, "integer-0")) == 8
