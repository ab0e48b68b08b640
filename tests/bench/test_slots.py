from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

from kernelrig.bench import differences, interleave
from kernelrig.model import Environment, Slot


def letters(candidates: int, rounds: int) -> str:
    return "".join("ABC"[slot.candidate] for slot in interleave(candidates, rounds))


def test_the_card_is_warmed_up_then_a_is_compared_with_itself_then_neighbours_are_compared() -> (
    None
):
    assert letters(2, 4) == "AA" + "AB" + "BA" + "AB" + "BA"
    assert letters(3, 2) == "AA" + "ABC" + "CBA"
    assert interleave(2, 1) == (Slot(0, 0, 0), Slot(0, -1, 1), Slot(0, 1, 2), Slot(1, 1, 3))


def test_rounds_take_the_processes_of_a_candidate_in_turn() -> None:
    held = [slot.process for slot in interleave(2, 4, 3)]
    assert held == [0, 1, 0, 0, 1, 1, 2, 2, 0, 0]
    assert {slot.process for slot in interleave(2, 4, 1)} == {0}


def test_over_two_rounds_no_candidate_is_always_second() -> None:
    slots = interleave(3, 10)[2:]
    places = {c: sum(i for i, s in enumerate(slots) if s.candidate == c) for c in range(3)}
    assert len(set(places.values())) == 1


def test_the_same_build_is_its_own_neighbour_once_a_round() -> None:
    counted = interleave(2, 10)[1:]
    assert sum(x.candidate == y.candidate for x, y in pairwise(counted)) == 10


def test_differences_of_the_environment_are_named() -> None:
    here = Environment("GPU-1", "580.159.04", 700.0, "steady after 0.5 s", "images=1,ctas=0")
    there = Environment("GPU-2", "580.159.04", 500.0, "steady after 0.5 s", "images=1,ctas=0")
    assert differences([here, here]) == ()
    assert differences([here, there]) == (
        "GPU UUID GPU-1 and GPU-2",
        "power limit 500.0 and 700.0",
    )
    assert differences([here, Environment()])[0] == "GPU UUID GPU-1 and unknown"


def test_the_statistics_import_nothing_of_kernelrig_but_the_records() -> None:
    program = (
        "import sys, kernelrig.bench as bench; [getattr(bench, name) for name in bench.__all__];"
        " print(*sorted(m for m in sys.modules if m.startswith('kernelrig')))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    packages = {name.split(".")[1] for name in said if "." in name}
    assert packages == {"bench", "model"}
