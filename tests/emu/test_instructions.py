"""Every case of every family: against exact arithmetic here, against a GPU with `--device gpu`."""

from __future__ import annotations

import json

import pytest

from tests.emu.gpu import Gpu
from tests.emu.instructions.case import trial
from tests.emu.instructions.emulated import digest, emulate, wrong
from tests.emu.instructions.families import FAMILIES
from tests.emu.instructions.hardware import cases_for, compare
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/instructions-h200-580.159.04.json"
EVERY = 17  # of 1024 threads: coprime to the number of edges of each kind


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_exact_arithmetic(family: str) -> None:
    made = trial(FAMILIES[family], "sm_100a", "9.0")
    results = made.results(emulate(made))
    pairs = zip(made.cases, results, strict=True)
    assert [line for case, found in pairs for line in wrong(case, found, EVERY)[:3]] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_all_results_are_those_a_gpu_gave(family: str) -> None:
    record = json.loads(RECORDED.read_text())
    known = record["families"].get(family)
    if not known:
        pytest.skip(f"an sm_{record['arch']} gave no exact results of these")
    made = trial(cases_for(family, record["arch"]))
    pairs = zip(made.cases, made.results(emulate(made)), strict=True)
    here = {case.text: digest(case, found) for case, found in pairs if case.text in known}
    assert here == known


@pytest.mark.parametrize("family", FAMILIES)
def test_emulator_and_gpu_agree_on_every_bit(family: str, gpu: Gpu) -> None:
    if not cases_for(family, gpu.arch):
        pytest.skip(f"an sm_{gpu.arch} has none of these")
    _, differing = compare(gpu, family)
    assert differing == {}
