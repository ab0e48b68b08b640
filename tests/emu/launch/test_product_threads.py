"""Products of a schedule run on one thread, whoever starts it."""

from __future__ import annotations

import numpy as np
from kernelrig.emu.machine.machine_state import Hooks, Machine
from threadpoolctl import threadpool_info, threadpool_limits

from tests.emu.harness import run_ptx


class Threads(Hooks):
    def __init__(self) -> None:
        self.counts: set[int] = set()

    def started(self, machine: Machine) -> None:
        self.counts |= _threads()


def _threads() -> set[int]:
    """Return the threads of the libraries that compute products: SciPy's own computes none."""
    libraries = [
        library for library in threadpool_info() if "scipy.libs" not in library["filepath"]
    ]
    return {library["num_threads"] for library in libraries}


def test_a_schedule_computes_on_one_thread_and_leaves_the_number_as_it_was() -> None:
    seen = Threads()
    with threadpool_limits(2):
        run_ptx("", {"a": np.zeros(1, np.uint32)}, observers=[seen])
        assert (seen.counts, _threads()) == ({1}, {2})
