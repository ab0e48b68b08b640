"""The random numbers of a run, which the core draws too."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from kernelrig.emu.native.core_calls import core_calls


class NativeRandom(random.Random):
    """The core's generator: what Python draws comes from the stream that its choices come from."""

    def __init__(self, core: int, state: tuple[Any, ...]) -> None:
        self._core = core
        self._calls = core_calls()
        super().__init__(0)
        self.setstate(state)

    def seed(self, *_: object, **__: object) -> None:
        """Do nothing: its state is given."""

    def random(self) -> float:
        drawn: float = self._calls.core_random_uniform(self._core)
        return drawn

    def getrandbits(self, k: int) -> int:
        drawn = shift = 0
        while k > 0:
            word = self._calls.core_random_word(self._core)
            drawn |= (word >> 32 - k if k < 32 else word) << shift
            shift += 32
            k -= 32
        return drawn

    def getstate(self) -> tuple[Any, ...]:
        words = np.empty(625, np.uint32)
        self._calls.core_get_random(self._core, words.ctypes.data)
        return (3, tuple(words.tolist()), None)

    def setstate(self, state: tuple[Any, ...]) -> None:
        words = np.array(state[1], np.uint32)
        self._calls.core_set_random(self._core, words.ctypes.data)
