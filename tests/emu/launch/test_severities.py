"""Severities: a line for each rule, changed by a flag or by the launch file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.severities import SHOWN_BY_HARDWARE, TABLE, read_severities
from kernelrig.emu.machine.findings import Finding, Sighting
from kernelrig.emu.machine.grouping import grouped
from kernelrig.errors import ConfigError
from kernelrig.ptx.rules import ISA_RULES

from tests.emu.harness import kernel_text

ZERO = """
ld.param.u64 %rd0, [c]; mov.u64 %rd1, 0; div.u64 %rd2, %rd0, %rd1;
"""
BEYOND = "ld.param.u64 %rd0, [c]; mov.u32 %r1, 1; st.global.u32 [%rd0+4096], %r1;"


def run(folder: Path, body: str, *words: str, severities: dict[str, str] | None = None) -> int:
    launch = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "buffers": {"C": {"dtype": "u32", "shape": [1], "fill": {"kind": "zero"}}},
        "args": [{"buffer": "C"}],
        "severities": severities or {},
    }
    (folder / "launch.json").write_text(json.dumps(launch))
    (folder / "k.ptx").write_text(kernel_text(body, ["c"], "sm_100a"))
    argv = ["run", str(folder / "launch.json"), "--jobs", "1", "--schedules", "1"]
    return main([*argv, "--engine", "numpy", "--json", str(folder / "found.json"), *words])


def severities(folder: Path) -> dict[str, str]:
    found = json.loads((folder / "found.json").read_text())["findings"]
    return {f["rule"]: f["severity"] for f in found}


def test_strict_makes_errors_of_warnings(tmp_path: Path) -> None:
    assert run(tmp_path, ZERO) == 0
    assert severities(tmp_path) == {"division-by-zero": "warning"}
    assert run(tmp_path, ZERO, "--strict") == 1
    assert severities(tmp_path) == {"division-by-zero": "error"}


def test_an_error_is_a_warning_where_the_launch_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, BEYOND) == 1
    assert run(tmp_path, BEYOND, severities={"out-of-bounds": "warning"}) == 0
    assert severities(tmp_path) == {"out-of-bounds": "warning"}
    assert "severities: out-of-bounds=warning" in capsys.readouterr().out


def test_who_calls_the_emulator_decides_whether_a_launch_file_may_soften_it(
    tmp_path: Path,
) -> None:
    assert run(tmp_path, BEYOND, severities={"out-of-bounds": "off"}) == 0
    loaded = load(tmp_path / "launch.json")
    assert loaded.entry.severities
    assert emulate(loaded, (Schedule(),), jobs=1).failed


def test_the_command_goes_before_the_launch_file(tmp_path: Path) -> None:
    said = {"division-by-zero": "error"}
    assert run(tmp_path, ZERO, severities=said) == 1
    assert run(tmp_path, ZERO, "--severity", "division-by-zero=off", severities=said) == 0
    assert severities(tmp_path) == {}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("race", "takes RULE=error"),
        ("race=loud", "takes RULE=error"),
        ("races=off", "no rule is called 'races'"),
        ("mismatch=off", "is always an error"),
    ],
)
def test_what_cannot_be_said_is_refused(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_severities([word])


def test_what_follows_from_a_finding_that_is_off_says_so() -> None:
    seen = Sighting(schedules=frozenset({0}))
    misuse = Finding(
        "barrier-misuse", "error", "too many", rule="mbarrier-arrive", objects=("full",),
        sighting=seen,
    )  # fmt: skip
    hang = Finding("deadlock", "error", "waits", rule="deadlock", objects=("full",), sighting=seen)
    for word, left in (
        ("mbarrier-arrive=warning", [("deadlock", "waits"), ("barrier-misuse", "too many")]),
        (
            "mbarrier-arrive=off",
            [("deadlock", "waits; follows from mbarrier-arrive, which is off")],
        ),
    ):
        said = read_severities([word])
        linked = grouped(said.apply([hang, misuse]))
        assert [(f.kind, f.message) for f in said.shown(linked)] == left
        assert all(f.cause is None for f in said.shown(linked))


def test_the_table_has_a_line_for_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(TABLE)
    assert ISA_RULES.keys() <= TABLE.keys()
    assert SHOWN_BY_HARDWARE.keys() <= TABLE.keys()
