"""A large launch is run, compared and brought back as a small one, where memory is free for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.launch import expect, exploration, loader, memory_need
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import Outcome, emulate, schedules_of
from kernelrig.emu.launch.file import read_launch
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.memory_need import free_bytes
from kernelrig.emu.launch.memory_need import memory_need as need
from kernelrig.errors import ConfigError

from tests.emu.harness import kernel_text
from tests.emu.places import places

ROWS, COLUMNS = 64, 8
BODY = places(c=4) + "mov.u32 %r191, %ctaid.x; mad.lo.u32 %r190, %r191, 32, %r190;"
STORE = BODY + "mul.wide.u32 %rd2, %r191, 128; add.s64 %rd1, %rd1, %rd2;"


def launch(folder: Path, **more: object) -> Path:
    """A launch of 16 CTAs of which each writes four rows of C, right but for one element."""
    store = STORE + "setp.ne.u32 %p1, %r190, 330; @%p1 st.global.u32 [%rd1], %r190;"
    (folder / "k.ptx").write_text(kernel_text(store, ["c"], "sm_100a"))
    wanted = np.arange(ROWS * COLUMNS, dtype=np.uint32).reshape(ROWS, COLUMNS)
    np.save(folder / "c.npy", wanted)
    described = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [16, 1, 1],
        "block": [32, 1, 1],
        "buffers": {"C": {"dtype": "u32", "shape": [ROWS, COLUMNS], "fill": {"kind": "zero"}}},
        "args": [{"buffer": "C"}],
        "expect": {"C": {"path": "c.npy"}},
        **more,
    }
    (folder / "launch.json").write_text(json.dumps(described))
    return folder / "launch.json"


def ran(path: Path, spill: Path) -> Outcome:
    return emulate(load(path), schedules_of(Schedule(), 3), dump=("C",), jobs=2, spill=spill)


def test_a_process_a_schedule_and_blocks_say_what_one_process_and_the_whole_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = launch(tmp_path)
    small = ran(path, tmp_path)
    monkeypatch.setattr(exploration, "LARGE_BYTES", 64)
    monkeypatch.setattr(expect, "BLOCK", 5 * COLUMNS)
    monkeypatch.setattr(loader, "BLOCK", 7)
    monkeypatch.setattr(loader, "MAPPED_BYTES", 0)
    before = sorted(p.name for p in tmp_path.iterdir())
    large = ran(path, tmp_path)
    assert [f.message for f in small.findings] == [
        "1 of 512 elements of C differ in row 41, column 2: in all of them the element is 0; "
        "C[41, 2] is 0, wanted 330; the first was written last by st.global.u32 (PTX line 13)"
    ]
    (message,) = [f.message for f in large.findings]
    assert message == small.findings[0].message.replace("in all", "of rows 40 to 44: in all")
    assert np.array_equal(large.buffers["C"], small.buffers["C"])
    assert (large.rows, large.counters, large.steps) == (small.rows, small.counters, small.steps)
    assert large.others == small.others == {}
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_large_buffer_is_accepted_where_the_user_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = {"dtype": "u8", "shape": [1 << 30], "fill": {"kind": "undefined"}}
    path = launch(tmp_path, buffers={"C": huge}, expect={})
    with pytest.raises(ConfigError, match="over a GiB of 8-byte elements; --large allows"):
        read_launch(path)
    assert memory_need.memory_need(read_launch(path, large=True), ("sync",), 1) > 2 << 30
    monkeypatch.setattr(memory_need, "free_bytes", lambda: 10**9)
    assert main(["run", str(path), "--large", "--schedules", "2", "--jobs", "2"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "error: the launch needs about 12.4 GB of memory for 2 at a time, 1.0 GB"
    )
    assert said.endswith("; emulate a smaller launch, or pass fewer observers or --jobs 1\n")


def test_memory_is_needed_by_each_process_for_what_it_writes(tmp_path: Path) -> None:
    entry = read_launch(launch(tmp_path))
    one, two = need(entry, (), 1), need(entry, (), 2)
    size = ROWS * COLUMNS * 4
    assert two - one == 2 * size + size // 4 + (600 << 20)
    assert need(entry, ("memory", "races"), 1) - one == 2 * size + 6 * size // 5


def test_what_is_free_is_the_least_of_the_machine_and_of_the_control_groups(tmp_path: Path) -> None:
    meminfo, cgroup, groups = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "groups"
    meminfo.write_text("MemTotal: 4000 kB\nMemAvailable:    2000 kB\n")
    cgroup.write_text("0::/outer/inner\n")
    (groups / "outer/inner").mkdir(parents=True)
    (groups / "outer/inner/memory.max").write_text("max\n")
    assert free_bytes(meminfo, cgroup, groups) == 2000 << 10
    (groups / "outer/memory.max").write_text("1500000\n")
    (groups / "outer/memory.current").write_text("600000\n")
    assert free_bytes(meminfo, cgroup, groups) == 900_000
    assert free_bytes(tmp_path / "none", cgroup, groups) == 0
