"""Recorded launches: a replay finds what the program's own run found, and leaves the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.cudart.program_launch import HowToRun, LaunchRun
from kernelrig.emu.cudart.recorder import FILE, Recorder
from kernelrig.emu.cudart.replay import Replay, replay
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS
from kernelrig.emu.launch.sequence import read_sequence
from kernelrig.errors import ConfigError
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import Ran, run_compiled

SCHEDULES = 2


def recorded(
    folder: Path, name: str, tools: Toolchain, *words: str, arch: str, engine: str = "native"
) -> Ran:
    source = f"tests/emu/cudart/programs/{name}.cu"
    with Recorder(folder, source, SCHEDULES, 0) as recorder:
        ran = run_compiled(
            name, tools, *words, arch=arch, schedules=SCHEDULES, engine=engine, witness=recorder
        )
        recorder.finish()
    return ran


def replayed(folder: Path, engine: str = "native") -> Replay:
    how = HowToRun(Schedule(engine=engine), SCHEDULES, ALL_OBSERVERS, jobs=1)
    return replay(folder / FILE, read_sequence(folder / FILE), how, lambda _: None)


def comparable(launch: LaunchRun) -> LaunchRun:
    return replace(launch, wall_s=0.0, place="")


PROGRAMS = [
    ("basics", ("add", "300"), "sm_100a"),
    ("basics", ("race",), "sm_100a"),
    ("basics", ("beyond",), "sm_100a"),
    ("basics", ("after-free",), "sm_100a"),
    ("basics", ("cooperative",), "sm_100a"),
    ("tiles", (), "sm_90a"),
    ("tiles", ("symbols",), "sm_90a"),
    ("tiles", ("empty",), "sm_90a"),
    ("im2col", (), "sm_90a"),
]


@pytest.mark.parametrize(
    ("engine", "program"),
    [
        *(("native", program) for program in PROGRAMS),
        *(pytest.param("numpy", p, marks=pytest.mark.long) for p in PROGRAMS),
    ],
)
def test_a_replay_finds_the_same_and_leaves_the_same_bytes(
    engine: str,
    program: tuple[str, tuple[str, ...], str],
    tmp_path: Path,
    cuda_toolchain: Toolchain,
) -> None:
    name, words, arch = program
    ran = recorded(tmp_path / "made", name, cuda_toolchain, *words, arch=arch, engine=engine)
    again = replayed(tmp_path / "made", engine)
    assert list(map(comparable, again.launches)) == list(map(comparable, ran.run.launches))
    assert again.notes == (), "the hash of what each launch wrote is in the file"
    launches = json.loads((tmp_path / "made" / FILE).read_text())["launches"]
    assert len(launches) == len(ran.run.launches)


def changed(folder: Path, **keys: object) -> None:
    path = folder / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def test_a_file_that_was_changed_is_refused_until_its_hash_is_removed(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    folder = tmp_path / "made"
    ran = recorded(folder, "basics", cuda_toolchain, "add", "300", arch="sm_100a")
    described = json.loads((folder / FILE).read_text())
    launches, buffers = described["launches"], described["buffers"]
    (x,) = (n for n, b in buffers.items() if n != next(iter(launches[0]["left"])))
    fill = buffers[x]["fill"]
    np.save(folder / fill["path"], np.zeros(1200, np.uint8))
    with pytest.raises(ConfigError, match="is not the file that the launch file names"):
        replayed(folder)
    del fill["sha256"]
    changed(folder, buffers=buffers)
    again = replayed(folder)
    assert [len(one.findings) for one in again.launches] == [0, 0]
    assert len(again.notes) == 2
    assert "left other bytes in" in again.notes[0]
    assert len(ran.run.launches) == 2


def test_launches_that_are_asked_for_are_recorded_with_what_the_others_wrote(
    tmp_path: Path, cuda_toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made"
    with Recorder(folder, "basics.cu", SCHEDULES, 0) as recorder:
        ran = run_compiled(
            "basics", cuda_toolchain, "add", "300", schedules=SCHEDULES, launch=2, witness=recorder
        )
        recorder.finish()
    assert ran.printed == "300 right, no error\n"
    words = ["run", str(folder / FILE), "--schedules", "2", "--jobs", "1", "--dump"]
    y = next(iter(json.loads((folder / FILE).read_text())["launches"][0]["left"]))
    assert main([*words, f"{y}={tmp_path / 'y.npy'}"]) == 0
    said = capsys.readouterr().out
    assert said == f"pass: {folder / FILE}: no errors (emulated: 1 launch in 2 schedules)\n"
    left = np.load(tmp_path / "y.npy").view(np.float32)
    assert left.tolist() == [1 + 5.0 * i for i in range(300)]


@pytest.mark.parametrize("launch", [0, 2])
def test_what_ctas_that_were_not_run_would_have_written_is_no_error_of_a_replay(
    launch: int, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    folder = tmp_path / "made"
    with Recorder(folder, "features.cu", SCHEDULES, 0) as recorder:
        ran = run_compiled("features", cuda_toolchain, "launches", ctas=1, launch=launch,
                           witness=recorder)  # fmt: skip
        recorder.finish()
    again = replayed(folder)
    assert (again.exit_code, len(again.launches)) == (0, 1 if launch else 2)
    assert [f.severity for f in again.launches[-1].findings] == ["warning"]
    assert comparable(again.launches[-1]) == comparable(ran.run.launches[-1])
    changed(folder, launches=[
        {k: v for k, v in one.items() if k not in ("ctas", "incomplete", "left")}
        for one in json.loads((folder / FILE).read_text())["launches"][-1:]
    ])  # fmt: skip
    assert replayed(folder).exit_code == 1, "of a whole grid it is an error"


def test_of_a_large_allocation_the_parts_that_were_read_are_kept(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    folder = tmp_path / "made"
    with Recorder(folder, "basics.cu", 1, 0) as recorder:
        ran = run_compiled(
            "basics", cuda_toolchain, "add", "1000000", schedules=1, ctas=4, witness=recorder
        )
        recorder.finish()
    assert recorder.stored_bytes < 1 << 19, "of 8,000,000 that both arrays have"
    how = HowToRun(Schedule(engine="native"), 1, ALL_OBSERVERS, jobs=1)
    again = replay(folder / FILE, read_sequence(folder / FILE), how, lambda _: None)
    assert list(map(comparable, again.launches)) == list(map(comparable, ran.run.launches))
    assert (again.notes, [one.ctas for one in again.launches]) == ((), [4, 4])


def test_a_program_that_is_refused_leaves_no_folder(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    with (
        pytest.raises(ConfigError, match="attribute 77"),
        Recorder(tmp_path / "made", "basics.cu", SCHEDULES, 0) as recorder,
    ):
        run_compiled("basics", cuda_toolchain, "attribute", "77", witness=recorder)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is there already"), Recorder(tmp_path, "a.cu", 1, 0):
        pass
