"""The process of a user's reference: `python -m ...reference_child FOLDER CPU_SECONDS BYTES`.

It is the user's own code, which may still be wrong: it runs with limits, and says in one sentence
on stderr what it did not do. FOLDER holds `reference.py`, `asked.json` (the case's numbers, the
shapes of the outputs, which of them are integers of 64 bits) and each input as `in-NAME.npy`; each
output is left as `out-NAME.npy`.
"""

from __future__ import annotations

import json
import resource
import runpy
import sys
import traceback
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

EXIT_REFUSED = 3
FILE = "reference.py"
LARGEST_FILE = 64 << 30
LARGEST_WHOLE = 1 << 53
"""Up to which every whole number is a double."""


class RefusedError(Exception):
    """What the reference did not do, as a sentence."""


class Numbers(SimpleNamespace):
    """The numbers of a case: `case.rows` or `case["rows"]`."""

    def __getitem__(self, name: str) -> int:
        number: int = getattr(self, name)
        return number


def main(argv: list[str]) -> int:
    folder, seconds, most_bytes = Path(argv[0]), int(argv[1]), int(argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = json.loads((folder / "asked.json").read_text())
    try:
        for name, array in _outputs(folder, asked).items():
            np.save(folder / f"out-{name}.npy", array)
    except RefusedError as e:
        sys.stderr.write(f"{e}\n")
        return EXIT_REFUSED
    return 0


def _outputs(folder: Path, asked: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    function = _function(folder / FILE)
    inputs = {name: np.load(folder / f"in-{name}.npy") for name in asked["inputs"]}
    with np.errstate(over="ignore"):
        try:
            made = function(Numbers(**asked["case"]), inputs)
        except MemoryError as e:
            raise RefusedError("it needs more memory than it may have") from e
        except (Exception, SystemExit) as e:  # the user's own code
            raise RefusedError(_where(e)) from e
    return _checked(made, asked["outputs"], asked["whole"])


def _function(path: Path) -> Callable[..., Any]:
    try:
        names = runpy.run_path(str(path), run_name="reference")
    except SyntaxError as e:
        raise RefusedError(f"line {e.lineno}: {e.msg}") from e
    except (Exception, SystemExit) as e:  # the user's own code
        raise RefusedError(_where(e)) from e
    function = names.get("reference")
    if not callable(function):
        raise RefusedError("it has no function 'reference(case, inputs)'")
    checked: Callable[..., Any] = function
    return checked


def _where(error: BaseException) -> str:
    """Return what was raised, at the line of the user's file that led there."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(FILE)]
    line = f"line {frames[-1].lineno}: " if frames else ""
    return f"{line}{type(error).__name__}: {error}"


def _checked(
    made: object, shapes: Mapping[str, list[int]], whole: Container[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the outputs as doubles, those of `whole` as integers if they were made as such.

    Each must be there, in its shape, and all of it finite.
    """
    if not isinstance(made, Mapping):
        if len(shapes) > 1:
            raise RefusedError(f"it returned no mapping of {', '.join(shapes)}")
        made = dict.fromkeys(shapes, made)
    if odd := sorted(set(map(str, made)) ^ set(shapes)):
        raise RefusedError(
            f"it returned {', '.join(map(str, made))}, not {', '.join(shapes)} ({odd[0]})"
        )
    checked = {}
    for name, shape in shapes.items():
        try:
            array = np.asarray(made[name])
            if name not in whole or array.dtype.kind not in "iu":
                array = array.astype(np.float64)
        except (TypeError, ValueError) as e:
            raise RefusedError(f"{name} is no array of numbers: {e}") from e
        if list(array.shape) != shape:
            raise RefusedError(f"{name} has the shape {list(array.shape)}, wanted {shape}")
        if not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0].tolist()
            raise RefusedError(f"{name}{place} is {array[tuple(place)]}, which is no number")
        if name in whole and array.dtype.kind == "f" and np.abs(array).max() > LARGEST_WHOLE:
            raise RefusedError(
                f"{name} holds floats beyond 2^53, which are not exact: return np.int64 or"
                " np.uint64"
            )
        checked[name] = array
    return checked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
