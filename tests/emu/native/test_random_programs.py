"""Both engines on kernels that nobody thought of, and no finding where there is no fault."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.native.core_build import SANITIZED
from kernelrig.emu.numerics.arrays import Array, Mask
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.native.both_engines import Event, Recorder, run_every_way
from tests.emu.native.random_programs import make

MOST_STEPS = 20_000
EACH, MANY = 100, 10_000
SANITIZED_PROGRAMS = 500


def schedule(seed: int) -> Schedule:
    return Schedule(seed % 8, max_steps=MOST_STEPS, resident_ctas=1 + seed % 3)


def test_a_number_names_one_program() -> None:
    assert make(7) == make(7)
    assert make(7).text != make(8).text


def test_programs_have_statements_of_all_kinds() -> None:
    texts = [make(seed).text for seed in range(400)]
    kinds = (
        "div.s32", "fma.rn.f32", "fma.rn.f64", "fma.rn.bf16x2", "ld.local", "atom.global",
        "atom.shared", "brx.idx", "shfl.sync", "bar.red", "bar.arrive", "barrier.cluster",
        "mbarrier.try_wait", "cp.async.ca", "cp.async.mbarrier.arrive", "cp.async.bulk.shared",
        "cp.async.bulk.tensor.2d.shared", "cp.async.bulk.tensor.3d.shared", "multicast::cluster",
        "global.im2col.mbarrier", "cp.async.bulk.tensor.4d.shared",
        "cp.async.bulk.tensor.2d.global", "cp.reduce.async.bulk.tensor", "wgmma.mma_async",
        "tcgen05.mma", "tcgen05.ld", "tcgen05.st",
    )  # fmt: skip
    assert [kind for kind in kinds if sum(kind in text for text in texts) < 4] == []


def test_events_are_told_apart_by_their_lanes_and_places() -> None:
    machine = make(0).kernel().machine(Random(0), 1)
    batch = WarpBatch(machine, 0, np.arange(1), None, [])
    half = np.arange(32)[None] < 16
    index = np.arange(32)[None] * 4

    def event(mask: Mask, at: Array) -> Event:
        recorder = Recorder()
        recorder.accessed(batch, mask, "shared", at, 4, True)
        (said,) = recorder.events
        return said

    assert event(None, index) == event(np.ones((1, 32), np.bool_), index)
    assert event(half, index) == event(half, np.where(half, index, 7))
    assert event(half, index) != event(None, index)
    assert event(None, index) != event(None, index + 4)


def test_a_program_without_a_fault_has_no_error() -> None:
    clean = [p for p in map(make, range(40)) if p.clean]
    assert len(clean) > 10
    for program in clean:
        ran = run(program.kernel(), schedule(program.seed), [made() for made in OBSERVERS.values()])
        errors = [f.message for f in ran.findings if f.severity == "error"]
        assert errors == [], f"program {program.seed}"


@pytest.mark.parametrize("seed", [*range(16), 345, 365])  # the two read clocks beside such values
def test_engines_agree_on_a_random_program(seed: int) -> None:
    run_every_way(make(seed).kernel(), schedule(seed))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, MANY, EACH))
def test_engines_agree_on_many_random_programs(first: int) -> None:
    for seed in range(first, first + EACH):
        try:
            run_every_way(make(seed).kernel(), schedule(seed))
        except Exception as reason:
            raise AssertionError(f"program {seed}: {reason}") from reason


@pytest.mark.skipif(SANITIZED not in os.environ, reason="the core has no sanitizers here")
@pytest.mark.limit(1800)
@pytest.mark.parametrize("count", [SANITIZED_PROGRAMS])
def test_no_sanitizer_sees_anything_in_random_programs(count: int) -> None:
    for seed in range(MANY, MANY + count):
        for observers in ((), OBSERVERS.values()):
            native = replace(schedule(seed), engine=NATIVE)
            run(make(seed).kernel(), native, [made() for made in observers])
