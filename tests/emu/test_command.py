"""`python -m kernelrig.emu`: what it writes beside its findings, and a part of them taken out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.__main__ import main
from kernelrig.files.rundir import sha256_file

from tests.emu.harness import kernel_text

# Two warps store their number to one place: the last one is any of them.
LAST_WINS = """
ld.param.u64 %rd0, [c]; mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;
bar.warp.sync 0xffffffff; st.global.u32 [%rd0], %r1;
"""
BEYOND = "ld.param.u64 %rd0, [c]; mov.u32 %r1, 1; st.global.u32 [%rd0+4096], %r1;"


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


def test_what_was_run_stands_beside_the_findings(folder: Path) -> None:
    code, found = emulate(folder, "--observe", "memory,sync", "--schedules", "2", "--seed", "7")
    assert (code, found["findings"]) == (0, [])
    assert found["run"] == {
        "observed": ["memory", "sync"],
        "schedules": 2,
        "seed": 7,
        "accumulate": "fp32",
        "module_sha256": sha256_file(folder / "k.ptx"),
        "stopped": [],
        "dumps": {},
    }


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
    assert [f["kind"] for f in found["findings"]] == ["step-limit"]


def test_a_part_has_the_findings_of_its_observers_and_their_exit_code(folder: Path) -> None:
    (folder / "k.ptx").write_text(kernel_text(BEYOND, ["c"], "sm_100a"))
    code, found = emulate(folder, "--observe", "memory,sync", "--schedules", "1")
    assert (code, [f["kind"] for f in found["findings"]]) == (1, ["out-of-bounds"])
    assert split(folder, "sync") == 0
    part = json.loads((folder / "part.json").read_text())
    assert part == {**found, "findings": [], "split": ["sync"]}
    assert split(folder, "memory") == 1
    part = json.loads((folder / "part.json").read_text())
    assert part == {**found, "split": ["memory"]}


def test_a_part_of_what_was_not_observed_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emulate(folder, "--observe", "memory", "--schedules", "1")
    assert split(folder, "races") == 2
    assert capsys.readouterr().err == "error: found.json: was not made with races observed\n"
    assert not (folder / "part.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 1, "run": 3}'])
def test_a_part_of_no_findings_at_all_is_refused(folder: Path, text: str) -> None:
    (folder / "found.json").write_text(text)
    assert split(folder, "sync") == 2
    assert not (folder / "part.json").exists()


def test_an_end_that_was_not_reached_is_an_error_whoever_observes(folder: Path) -> None:
    waits = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 64; bar.sync 1, 96;"
    (folder / "k.ptx").write_text(kernel_text(waits, ["c"], "sm_100a"))
    code, found = emulate(folder, "--observe", "memory", "--schedules", "1")
    assert code == 1
    assert "deadlock" in [f["kind"] for f in found["findings"]]


def test_a_failure_of_the_emulator_itself_reads_as_no_finding(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("kernelrig.emu.__main__.emulate", broken)
    assert main(["run", str(folder / "launch.json")]) == 2
    assert "the emulator itself failed, KeyError at test_command.py" in capsys.readouterr().err
