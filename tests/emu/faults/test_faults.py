"""Faults put into small kernels: each is found, and what it was put into is clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pytest
from kernelrig.emu.launch import exploration
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.progress import Progress

from tests.emu.faults.kernels import KERNELS, Kernel
from tests.emu.faults.table import FAULTS, Fault
from tests.emu.native.both_engines import emulate_both, run_every_way

SCHEDULES = 4
MANY_SCHEDULES = 200
STEPS = 20_000
EXIT_BARRIER = ("// @exit arrive", "// @exit wait")


class _Here:
    """Workers that are this process: forking that of pytest costs more than a schedule of these."""

    count, busy = 1, ()

    def __init__(
        self, run: Callable[[Schedule, Progress], object], *_: object, **__: object
    ) -> None:
        self._run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, schedules: Sequence[Schedule], *_: object) -> dict[int, object]:
        return {n: self._run(schedule, Progress()) for n, schedule in enumerate(schedules)}


@pytest.fixture(autouse=True)
def _no_process_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "Workers", _Here)


def broken(fault: Fault, folder: Path) -> Loaded:
    kernel = KERNELS[fault.kernel]
    text = kernel.with_line(fault.place, fault.line) if fault.place else kernel.text
    return kernel.load(folder, text, fault.change)


def found(loaded: Loaded, number: int) -> tuple[Finding, ...]:
    return emulate(loaded, [Schedule(number, max_steps=STEPS)], jobs=1).findings


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{f.kernel}: {f.name}" for f in FAULTS])
def test_a_fault_is_found_with_its_line(fault: Fault, tmp_path: Path) -> None:
    kernel, loaded = KERNELS[fault.kernel], broken(fault, tmp_path)
    lines = [kernel.line(mark) if mark else 0 for mark in fault.marks]
    seen: list[Finding] = []
    for number in range(SCHEDULES):
        seen += found(loaded, number)
        if any(
            (f.severity, f.kind) == (fault.severity, fault.kind)
            and f.ptx_line in lines
            and fault.words in f"{f.message}; {f.advice}"
            for f in seen
        ):
            return
    said = [(f.kind, f.ptx_line, f.message, f.advice) for f in seen]
    pytest.fail(f"no {fault.kind} in lines {lines}: {said}")


FIRST = {fault.kernel: fault.name for fault in reversed(FAULTS)}
"""A fault of each kernel."""


@pytest.mark.parametrize(
    "fault",
    [f if FIRST[f.kernel] == f.name else pytest.param(f, marks=pytest.mark.long) for f in FAULTS],
    ids=[f"{f.kernel}: {f.name}" for f in FAULTS],
)
def test_both_engines_find_the_same(fault: Fault, tmp_path: Path) -> None:
    loaded = broken(fault, tmp_path)
    emulate_both(loaded, [Schedule(number, max_steps=STEPS) for number in range(SCHEDULES)])
    run_every_way(loaded.kernel, Schedule(SCHEDULES, max_steps=STEPS))


def clean(kernel: Kernel, folder: Path, schedules: range) -> None:
    loaded = kernel.load(folder, kernel.text)
    all_of_them = [Schedule(number, max_steps=STEPS) for number in schedules]
    assert emulate(loaded, all_of_them, jobs=1).findings == ()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_what_the_faults_were_put_into_is_clean(kernel: Kernel, tmp_path: Path) -> None:
    clean(kernel, tmp_path, range(SCHEDULES))


def test_a_pair_needs_no_barrier_behind_its_deallocs(tmp_path: Path) -> None:
    """PTX 9.7.16.5: a warp may exit at once after the dealloc."""
    pair = KERNELS["pair"]
    lines = [line for line in pair.text.splitlines() if not line.endswith(EXIT_BARRIER)]
    assert len(lines) == len(pair.text.splitlines()) - len(EXIT_BARRIER)
    loaded = pair.load(tmp_path, "\n".join(lines))
    emulated = [Schedule(number, max_steps=STEPS) for number in range(SCHEDULES)]
    assert emulate(loaded, emulated, jobs=1).findings == ()


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_is_clean_in_many_schedules(kernel: Kernel, tmp_path: Path) -> None:
    clean(kernel, tmp_path, range(SCHEDULES, MANY_SCHEDULES))


def test_fault_and_twin_differ_by_one_line_or_one_key() -> None:
    for fault in FAULTS:
        twin = KERNELS[fault.kernel].text.splitlines()
        if fault.place:
            lines = KERNELS[fault.kernel].with_line(fault.place, fault.line).splitlines()
            assert sum(a != b for a, b in zip(twin, lines, strict=True)) == 1
        else:
            assert len(fault.change) == 1
