"""Programs with one known cause of slowness each: what was planted, and reports of them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kernelrig.analyse.profile_report import read_report
from kernelrig.sass import Function

from tests.sass_fixture import Compile

VARIABLE = "KERNELRIG_PLANTED_REPORTS"
PROGRAMS = Path(__file__).parents[1] / "slow"
NAMES = re.compile(
    r"conflict|coalesc|serial|predicat|occupan|spill|idle|thrash|hot|power|needless|useless|extra"
    r"|slow|fast|planted|control",
    re.IGNORECASE,
)


@cache
def causes() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((PROGRAMS / "causes.json").read_text())
    return read


def test_every_program_has_its_cause_and_a_measured_gain() -> None:
    numbers = [path.stem.removeprefix("p") for path in sorted(PROGRAMS.glob("p??.cu"))]
    held = causes()
    assert numbers == [n for n in (*held["slow"], *held["controls"]) if f"p{n}.cu" in held["built"]]
    for row in held["slow"].values():
        slow, fast = sorted(row["slow_ms"])[1], sorted(row["fast_ms"])[1]
        assert len(row["slow_ms"]) == len(row["fast_ms"]) == 3
        assert fast >= 0.1  # the least that is measured well
        assert row["gain"] == pytest.approx(slow / fast, abs=0.005)
        assert row["gain"] > 1.03
    assert len({row["name"] for row in held["slow"].values()}) == len(held["slow"]) >= 12


def test_what_was_measured_and_said_again_is_of_every_program() -> None:
    again = causes()["again"]
    assert [f"p{n}.cu" for n in again["rows"]] == causes()["built"]
    held = 0
    for number, row in again["rows"].items():
        slow, fast = sorted(row["slow_ms"])[1], sorted(row["fast_ms"])[1]
        assert (row["said"] is None) == (number in causes()["controls"])
        if row["said"]:
            saved = 100 * (1 - fast / slow)
            held += row["said"]["least_percent"] <= saved <= row["said"]["most_percent"]
    assert held >= 9


def test_every_blind_program_has_its_cause_what_was_measured_and_what_was_said() -> None:
    rows = json.loads((PROGRAMS / "blind.json").read_text())["rows"]
    assert sorted(rows) == [path.stem for path in sorted(PROGRAMS.glob("[bcd]??.cu"))]
    for row in rows.values():
        slow, fast = sorted(row["slow_ms"])[1], sorted(row["fast_ms"])[1]
        assert row["gain"] == pytest.approx(slow / fast, abs=0.005)
        assert ("named" in row) != row.get("control", False)


@pytest.mark.parametrize("source", sorted(PROGRAMS.glob("*.cu*")), ids=lambda path: path.name)
def test_no_name_or_comment_in_a_source_says_the_cause(source: Path) -> None:
    assert NAMES.findall(source.read_text()) == []


@dataclass(frozen=True, slots=True)
class Forms:
    """The machine code of the two forms of a program."""

    slow: Function
    fast: Function

    def count(self, *roots: str) -> tuple[int, int]:
        """Return how many instructions of these mnemonics either form has."""
        slow, fast = (
            sum(i.root in roots for i in function.instructions)
            for function in (self.slow, self.fast)
        )
        return slow, fast


@pytest.mark.long
@pytest.mark.parametrize("program", ["p04", "p05", "p07", "p11", "p12"])
def test_the_compiler_keeps_the_cause_in_one_form_alone(
    program: str, compile_sass: Compile
) -> None:
    module = compile_sass(f"tests/slow/{program}.cu", "sm_90a", "-I", "kernel").module
    forms = Forms(*(module.function(f"_Z4workILi{form}EEvPKjPj") for form in (0, 1)))
    if program == "p04":
        assert forms.count("BAR") == (4, 1)
    elif program == "p05":
        assert [
            sum(i.conditional for i in f.instructions) > len(f.instructions) / 2
            for f in (forms.slow, forms.fast)
        ] == [True, False]
    elif program == "p07":
        slow, fast = forms.count("LDL", "STL")
        assert slow > 20
        assert fast == 0
    elif program == "p11":
        assert forms.count("MEMBAR") == (4, 0)
    else:
        slow, fast = forms.count("BAR")
        assert slow > fast == 1


def captured() -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} does not name the folder of the captured reports")
    return Path(folder)


@pytest.mark.long
@pytest.mark.parametrize("number", [*causes()["slow"], *causes()["controls"]])
def test_a_captured_report_holds_one_launch_with_its_code(number: str, ncu_report: Path) -> None:
    (launch,) = read_report(captured() / f"{number}.ncu-rep", ncu_report)
    assert launch.metrics["device__attribute_display_name"].text == causes()["gpu"]
    assert launch.instructions
    if f"p{number}.cu" in causes()["built"]:
        assert launch.kernel == "work"
        assert {Path(i.file).name for i in launch.instructions if i.line} >= {f"p{number}.cu"}
        assert NAMES.findall(launch.signature) == []
