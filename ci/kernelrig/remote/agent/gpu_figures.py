"""What the CUDA driver says of each GPU, from a separate process: a broken driver may hang."""

from __future__ import annotations

import json
import sys

from . import gpu_query
from .daemon import boot_id
from .kept import Kept
from .module_text import source
from .process_table import run_tool
from .refusal import Json
from .tools import PROBE_S

PROGRAM = source(gpu_query)
SHOWN = 200
WHY_NONE = "no figures"
"""The field of a GPU that says why it has none of the driver's."""

MOST = (1 << 31) - 1
"""cuDeviceGetAttribute gives a C int."""


class FiguresOfBoot:
    """The figures of GPUs, for which the driver is asked once a boot: to start it takes 0.3 s, more
    with each GPU. They are those of a GPU under a driver, in a mode of MIG.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.asked: dict[str, dict[str, str]] | str | None = None

    def prepare(self) -> None:
        """Ask the driver where nothing is known yet of this boot; beside other probes."""
        if self.kept.get(f"figures of boot {boot_id()}") is None:
            self.asked = driver_figures()

    def figures(self, gpus: list[dict[str, str]]) -> dict[str, dict[str, str]] | str:
        """Return the figures of these GPUs by UUID, or why there are none."""
        keys = {gpu["uuid"]: self._key(gpu) for gpu in gpus}
        known = {uuid: self.kept.get(key) for uuid, key in keys.items()}
        if self.asked is None and all(map(is_figures, known.values())):
            return known
        found = driver_figures() if self.asked is None else self.asked
        if isinstance(found, dict):
            good = {u: found[u] for u in keys if found.get(u) and WHY_NONE not in found[u]}
            for uuid, figures in good.items():
                self.kept.put(keys[uuid], figures)
            if good:
                self.kept.put(f"figures of boot {boot_id()}", True)
        return found

    def _key(self, gpu: dict[str, str]) -> str:
        named = (gpu["uuid"], gpu["driver_version"], gpu.get("mig.mode.current", ""), boot_id())
        return f"figures {' '.join(named)}"


def is_figures(value: object) -> bool:
    """Return whether a kept value is what the driver says of a GPU."""
    return isinstance(value, dict) and all(
        name in gpu_query.FIGURES and isinstance(text, str) and text.isdecimal()
        for name, text in value.items()
    )


def driver_figures() -> dict[str, dict[str, str]] | str:
    """Return the driver's figures of each GPU by its UUID, or why there are none."""
    code, output = run_tool([sys.executable or "python3", "-c", PROGRAM], PROBE_S)
    try:
        answer = json.loads(output.strip().splitlines()[-1])
        return {str(gpu["uuid"]): checked_figures(gpu) for gpu in answer}
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        said = output.strip().splitlines()[-1:] or ["no output"]
        return f"the CUDA driver was asked and did not answer (exit {code}): {said[0][:SHOWN]}"


def checked_figures(gpu: Json) -> dict[str, str]:
    """Return the figures of one GPU as text, or why it has none: one that no attribute can be."""
    figures = {name: gpu[name] for name in gpu_query.FIGURES if name in gpu}
    for name, value in figures.items():
        if type(value) is not int or not 0 <= value <= MOST:
            return {WHY_NONE: f"the CUDA driver gives {name} {value!r:.{SHOWN}}"}
    return {name: str(value) for name, value in figures.items()}


def with_figures(
    gpus: list[dict[str, str]], figures: dict[str, dict[str, str]] | str
) -> list[dict[str, str]]:
    """Return nvidia-smi's fields of each GPU with the driver's figures of it."""
    if isinstance(figures, str):
        return [{**gpu, WHY_NONE: figures} for gpu in gpus]
    why = {WHY_NONE: "the CUDA driver does not know this GPU"}
    return [{**gpu, **figures.get(gpu["uuid"], why)} for gpu in gpus]
