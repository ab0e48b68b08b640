"""Every case of every family: against exact arithmetic here, against a GPU with `--device gpu`."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest
from kernelrig.emu.isa import bits, compare, convert, half, integer, logic, move, warp
from kernelrig.emu.isa import float as floats
from kernelrig.emu.isa._forms import ON_H200
from kernelrig.emu.isa.families import instruction_table
from kernelrig.emu.machine.instruction_table import Row
from kernelrig.ptx import parse_ptx

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES
from tests.emu.instructions.case import trial
from tests.emu.instructions.emulated import digest, emulate, wrong
from tests.emu.instructions.families import FAMILIES
from tests.emu.instructions.hardware import cases_for
from tests.emu.instructions.hardware import compare as compare_with
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/instructions-h200-580.159.04.json"
MODULES = (bits, compare, convert, floats, half, integer, logic, move, warp)
EVERY = 17  # of 1024 threads: coprime to the number of edges of each kind


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_exact_arithmetic(family: str) -> None:
    made = trial(FAMILIES[family], "sm_100a", "9.0")
    results = made.results(emulate(made))
    pairs = zip(made.cases, results, strict=True)
    assert [line for case, found in pairs for line in wrong(case, found, EVERY)[:3]] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_both_engines_leave_the_same_bits(family: str) -> None:
    made = trial(FAMILIES[family], "sm_100a", "9.0")
    pairs = zip(made.cases, *(made.results(emulate(made, e)) for e in ENGINES), strict=True)
    differing = [case.text for case, *left in pairs if not np.array_equal(*left)]
    assert differing == []


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
@pytest.mark.parametrize("family", FAMILIES)
def test_all_results_are_those_a_gpu_gave(family: str, engine: str) -> None:
    record = json.loads(RECORDED.read_text())
    known = record["families"].get(family)
    if not known:
        pytest.skip(f"an sm_{record['arch']} gave no exact results of these")
    made = trial(cases_for(family, record["arch"]))
    pairs = zip(made.cases, made.results(emulate(made, engine)), strict=True)
    here = {case.text: digest(case, found) for case, found in pairs if case.text in known}
    assert here == known


def test_rows_marked_as_compared_have_cases_with_all_of_their_words() -> None:
    record = json.loads(RECORDED.read_text())
    table = instruction_table()
    tried: dict[Row, set[str]] = defaultdict(set)
    for family in FAMILIES:
        known = record["families"].get(family, {})
        cases = [c for c in cases_for(family, record["arch"]) if c.bound or c.text in known]
        entry = parse_ptx(trial(cases).text, "cases.ptx").function("k") if cases else None
        for instruction in entry.instructions if entry else ():
            if instruction.opcode != "ret":
                tried[table.find(instruction)] |= instruction.flags
    marked = [r for module in MODULES for r in module.ROWS if r.checked == ON_H200]
    assert [r.name for r in marked if r not in tried] == []
    assert [(r.name, left) for r in marked if (left := r.takes - tried[r])] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_emulator_and_gpu_agree_on_every_bit(family: str, engine: str, gpu: Gpu) -> None:
    if not cases_for(family, gpu.arch):
        pytest.skip(f"an sm_{gpu.arch} has none of these")
    _, differing = compare_with(gpu, family, engine)
    assert differing == {}
