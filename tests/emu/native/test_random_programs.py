"""Both engines on kernels that nobody thought of, and no finding where there is no fault."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.native.both_engines import run_both
from tests.emu.native.random_programs import make

MOST_STEPS = 20_000
EACH, MANY = 100, 10_000


def schedule(seed: int) -> Schedule:
    return Schedule(seed % 8, max_steps=MOST_STEPS, resident_ctas=1 + seed % 3)


def test_a_number_names_one_program() -> None:
    assert make(7) == make(7)
    assert make(7).text != make(8).text


def test_a_program_without_a_fault_has_no_error() -> None:
    clean = [p for p in map(make, range(40)) if p.clean]
    assert len(clean) > 10
    for program in clean:
        ran = run(program.kernel(), schedule(program.seed), [made() for made in OBSERVERS.values()])
        errors = [f.message for f in ran.findings if f.severity == "error"]
        assert errors == [], f"program {program.seed}"


@pytest.mark.parametrize("seed", range(16))
def test_engines_agree_on_a_random_program(seed: int) -> None:
    run_both(make(seed).kernel(), schedule(seed))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, MANY, EACH))
def test_engines_agree_on_many_random_programs(first: int) -> None:
    for seed in range(first, first + EACH):
        program = make(seed)
        try:
            run_both(program.kernel(), schedule(seed))
        except Exception as reason:
            raise AssertionError(f"program {seed}: {reason}") from reason
