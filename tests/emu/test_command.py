"""`python -m kernelrig.emu`: what it writes beside its findings, and a part of them taken out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.native.library import library
from kernelrig.files.rundir import sha256_file

from tests.emu.harness import kernel_text

ROOT = Path(__file__).parents[2]

# Two warps store their number to one place: the last one is any of them.
LAST_WINS = """
ld.param.u64 %rd0, [c]; mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;
bar.warp.sync 0xffffffff; st.global.u32 [%rd0], %r1;
"""
BEYOND = "ld.param.u64 %rd0, [c]; mov.u32 %r1, 1; st.global.u32 [%rd0+4096], %r1;"

LOOP = """
mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 16; selp.u32 %r1, 4, 3, %p0; mov.u32 %r2, 0;
AGAIN: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra AGAIN;
"""
"""Half a warp goes through it four times, the other half and the other warp three times."""
ENDLESS = """
mov.u32 %r1, 0;
AGAIN:
add.u32 %r1, %r1, 1;
bra AGAIN;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    launch = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [1, 1, 1],
        "block": [64, 1, 1],
        "buffers": {"C": {"dtype": "u32", "shape": [1], "fill": {"kind": "zero"}}},
        "args": [{"buffer": "C"}],
    }
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    (tmp_path / "k.ptx").write_text(kernel_text(LAST_WINS, ["c"], "sm_100a"))
    return tmp_path


def emulate(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    path = folder / "found.json"
    argv = ["run", str(folder / "launch.json"), "--jobs", "1", "--json", str(path), *words]
    return main(argv), json.loads(path.read_text())


def split(folder: Path, observe: str) -> int:
    words = ["--observe", observe, "--json", str(folder / "part.json")]
    return main(["split", str(folder / "found.json"), *words])


def test_what_was_run_is_written_with_the_findings(folder: Path) -> None:
    code, found = emulate(folder, "--observe", "memory,sync", "--schedules", "2", "--seed", "7")
    assert (code, found["findings"]) == (0, [])
    assert found["run"] == {
        "observed": ["memory", "sync"],
        "schedules": 2,
        "seed": 7,
        "accumulate": "fp32",
        "engine": "native",
        "engine_note": "",
        "module_sha256": sha256_file(folder / "k.ptx"),
        "stopped": [],
        "lost": {},
        "severities": {},
        "strict": False,
        "dumps": {},
    }


def test_warp_instructions_are_counted_each_time_a_warp_executes_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "k.ptx").write_text(kernel_text(LOOP, ["c"], "sm_100a"))
    _, found = emulate(folder, "--observe", "memory", "--schedules", "3")
    whole = 4 + 3 * 3 + 1  # before the loop, three times through it, behind it
    split = whole + 3
    assert found["stats"]["instructions"] == 3 * (whole + split)
    assert f"native engine: {3 * (whole + split)} warp-instructions, " in capsys.readouterr().out


def test_without_a_compiler_the_engine_is_numpy_and_the_reason_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    library.cache_clear()
    why = "no native engine: no g++ on PATH; install it with: sudo apt-get install g++"
    words = ("--observe", "memory", "--schedules", "1", "--engine")
    _, found = emulate(folder, *words, "auto")
    assert (found["run"]["engine"], found["run"]["engine_note"]) == ("numpy", why)
    assert capsys.readouterr().err == f"{why}: the engine is numpy, which is many times slower\n"
    (folder / "found.json").unlink()
    assert main(["run", str(folder / "launch.json"), *words, "native"]) == 2
    assert capsys.readouterr().err == f"error: {why}; or pass --engine numpy\n"


def test_a_dump_has_a_file_for_each_thing_that_schedules_left(folder: Path) -> None:
    dump = f"C={folder / 'c.npy'}"
    _, found = emulate(folder, "--observe", "memory", "--schedules", "8", "--dump", dump)
    files = found["run"]["dumps"]["C"]
    assert (len(files), files[0]) == (8, "c.npy")
    left = {name: int(np.load(folder / name)[0]) for name in set(files)}
    assert set(left.values()) == {0, 1}
    assert [n for n, v in left.items() if v == left["c.npy"]] == ["c.npy"]


def test_a_schedule_that_does_not_reach_the_end_is_named(folder: Path) -> None:
    code, found = emulate(folder, "--schedules", "1", "--max-steps", "1", "--observe", "memory")
    assert (code, found["run"]["stopped"]) == (1, [0])
    (limit,) = found["findings"]
    assert limit["kind"] == "step-limit"


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_a_loop_without_an_end_is_named_by_its_line(
    folder: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "k.ptx").write_text(kernel_text(ENDLESS, ["c"], "sm_100a"))
    line = (folder / "k.ptx").read_text().split("\n").index("add.u32 %r1, %r1, 1;") + 1
    words = ("--schedules", "2", "--max-steps", "500", "--observe", "memory", "--engine", engine)
    code, _ = emulate(folder, *words)
    assert code == 1
    said = capsys.readouterr().out
    verdict, found = said.splitlines()[:2]
    assert verdict.startswith("fail: emulated: 2 schedules, 1 error, 0 warnings, ")
    assert said.splitlines()[-1] == verdict
    assert found.startswith(f"error: step-limit: PTX line {line}, 2 times over all")
    assert (
        "these CTAs still run after 500 steps, and were here then: a hang, or too much work\n"
        in said
    )


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_the_step_limit_is_of_a_wave_of_ctas_and_not_of_the_grid(folder: Path, engine: str) -> None:
    launch = json.loads((folder / "launch.json").read_text())
    (folder / "k.ptx").write_text(kernel_text(LOOP, ["c"], "sm_100a"))

    def steps_of(ctas: int, limit: int) -> tuple[int, int]:
        (folder / "launch.json").write_text(json.dumps({**launch, "grid": [ctas, 1, 1]}))
        words = (
            "--schedules",
            "1",
            "--max-steps",
            str(limit),
            "--observe",
            "sync",
            "--engine",
            engine,
        )
        code, found = emulate(folder, *words)
        return code, found["stats"]["steps"]

    of_a_wave = steps_of(16, 10_000)[1]
    code, of_all = steps_of(16 * 8, 2 * of_a_wave)
    assert code == 0
    assert of_all > 4 * of_a_wave
    assert steps_of(16 * 8, of_a_wave // 2)[0] == 1


def test_a_part_has_the_findings_of_its_observers_and_their_exit_code(folder: Path) -> None:
    (folder / "k.ptx").write_text(kernel_text(BEYOND, ["c"], "sm_100a"))
    code, found = emulate(folder, "--observe", "memory,sync", "--schedules", "1")
    assert (code, [f["kind"] for f in found["findings"]]) == (1, ["out-of-bounds"])
    assert split(folder, "sync") == 0
    part = json.loads((folder / "part.json").read_text())
    assert part == {**found, "findings": [], "others": found["findings"], "split": ["sync"]}
    assert split(folder, "memory") == 1
    part = json.loads((folder / "part.json").read_text())
    assert part == {**found, "others": [], "split": ["memory"]}


def test_a_part_of_what_was_not_observed_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emulate(folder, "--observe", "memory", "--schedules", "1")
    assert split(folder, "races") == 2
    assert capsys.readouterr().err == "error: found.json: was not made with races observed\n"
    assert not (folder / "part.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 1, "run": 3}'])
def test_a_part_of_no_findings_file_is_rejected(folder: Path, text: str) -> None:
    (folder / "found.json").write_text(text)
    assert split(folder, "sync") == 2
    assert not (folder / "part.json").exists()


def test_an_end_that_was_not_reached_is_an_error_whoever_observes(folder: Path) -> None:
    waits = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 64; bar.sync 1, 96;"
    (folder / "k.ptx").write_text(kernel_text(waits, ["c"], "sm_100a"))
    code, found = emulate(folder, "--observe", "memory", "--schedules", "1")
    assert code == 1
    assert "deadlock" in [f["kind"] for f in found["findings"]]


@pytest.mark.parametrize("observe", ["", ","])
def test_a_run_that_observes_nothing_is_refused(
    observe: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / "launch.json"), f"--observe={observe}"]) == 2
    assert capsys.readouterr().err.startswith("error: --observe names no observer; known: ")


def test_a_launch_file_that_cannot_be_read_is_named_with_its_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = folder / "gone.json"
    assert main(["run", str(gone)]) == 2
    said = f"error: cannot read the launch file {gone}: no such file or directory\n"
    assert capsys.readouterr().err == said


LOCATED = """
.loc 2 40 3, function_name $L__info_string0, inlined_at 1 12 5
.loc 1 12 5
ld.param.u64 %rd0, [c]; mov.u32 %r1, 1;
.loc 1 12 5
.loc 2 40 3, function_name $L__info_string0, inlined_at 1 12 5
st.global.u32 [%rd0+4096], %r1;
"""
FILES = '\n.file 1 "/proc/self/cwd/kernel/k.cu"\n.file 2 "/proc/self/cwd/kernel/ptx.cuh"\n'
NAMES = "\n.section .debug_str {\n$L__info_string0:\n.b8 115,116,111,114,101,0\n}\n"


def test_a_finding_is_located_in_the_kernels_sources_with_its_chain(folder: Path) -> None:
    text = kernel_text(LOCATED, ["c"], "sm_100a") + FILES + NAMES
    (folder / "k.ptx").write_text(text)
    code, found = emulate(folder, "--schedules", "2", "--source", "kernel/k.cu")
    (one,) = found["findings"]
    assert (code, found["schema"]) == (1, 3)
    assert one["source"] == "kernel/k.cu:12 k"
    assert [(f["file"], f["line"], f["function"]) for f in one["frames"]] == [
        ("kernel/ptx.cuh", 40, "store"),
        ("kernel/k.cu", 12, "k"),
    ]
    assert (one["count"], one["schedules"], one["warps"], one["ctas"]) == (128, 2, 2, 1)
    assert (one["objects"], one["cause"]) == (["C"], None)


def test_a_deadlock_names_the_barrier_its_progress_and_the_fix(folder: Path) -> None:
    waits = """
    .shared .align 8 .b64 full;
    mov.u32 %r1, full; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
    """
    (folder / "k.ptx").write_text(kernel_text(waits, ["c"], "sm_100a"))
    _, found = emulate(folder, "--schedules", "1")
    (one,) = found["findings"]
    assert (one["kind"], one["rule"], one["objects"]) == ("deadlock", "mbarrier-bytes", ["full"])
    assert one["message"].startswith(
        "CTA 0 warps 0, 1 wait for the mbarrier full (shared 0x400) of CTA 0, phase 0: 1 of 1"
        " arrivals, 0 of 64 bytes, at mbarrier.try_wait"
    )
    assert one["section"] == "9.7.13.15.5 and .6"
    assert "expect in each phase the bytes" in one["fix"]


def test_a_part_keeps_the_causes_of_its_findings_also_among_the_others(folder: Path) -> None:
    _, found = emulate(folder, "--schedules", "1")
    kinds = (("race", None), ("deadlock", 0), ("barrier-misuse", 1), ("uninitialised", 0))
    findings = [{"kind": k, "cause": c, "severity": "error"} for k, c in kinds]
    (folder / "found.json").write_text(json.dumps({**found, "findings": findings}))
    assert split(folder, "sync") == 1
    part = json.loads((folder / "part.json").read_text())
    assert [(f["kind"], f["cause"]) for f in (*part["findings"], *part["others"])] == [
        ("deadlock", 2),
        ("barrier-misuse", 0),
        ("race", None),
        ("uninitialised", 2),
    ]


def test_a_reader_that_leaves_early_is_no_failure_of_the_emulator() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    argv = [sys.executable, "-m", "kernelrig.emu", "rules"]
    done = subprocess.run(argv, stdout=writes, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (4, b"")
