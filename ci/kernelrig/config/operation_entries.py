"""Entries of operations in kernels.yaml: the numbers of cases, and the text of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelrig.config.operation_sizes import MOST_NUMBER
from kernelrig.files.record_names import is_identifier
from kernelrig.files.regular_file import read_regular
from kernelrig.files.validation import Complaint, Loc, nearest, unknown_key
from kernelrig.model import Case, Kernel

_KEYS = ("inputs", "outputs", "reference", "bytes_moved", "flop")
"""Keys that came with schema 3."""
_MOST_BYTES = 1 << 16


def operation_complaints(
    value: Mapping[str, object], entry: dict[str, object], folder: Path
) -> Iterator[Complaint]:
    """Put the numbers of an operation's cases and the text of its reference into its entry.

    `value` is that of the file, `folder` what the reference is relative to.
    """
    for key in _KEYS if value.get("schema") in (1, 2) else ():
        if key in entry:
            yield Complaint((key,), f"'{key}' needs a file of schema 3")
    if "reference_text" in entry:
        yield Complaint(("reference_text",), unknown_key(Kernel, "reference_text"))
    cases = entry.get("cases")
    for name, case in cases.items() if isinstance(cases, dict) else ():
        way = ("cases", str(name))
        if not isinstance(case, dict):
            continue
        if entry.get("outputs"):
            yield from _fill_in_numbers(way, case)
        elif "numbers" in case:
            yield Complaint((*way, "numbers"), unknown_key(Case, "numbers"))
            del case["numbers"]
        elif "images" not in case:
            yield Complaint(way, f"missing key 'images' in '{name}'")
    if isinstance(path := entry.get("reference"), str):
        entry["reference_text"], wrong = _reference_text(folder, path)
        if wrong:
            yield Complaint(("reference",), wrong)


def _fill_in_numbers(way: Loc, case: dict[str, object]) -> Iterator[Complaint]:
    """Turn `{rows: 8, columns: 100}` into the field that holds any numbers."""
    numbers = []
    for key, number in case.items():
        if not is_identifier(str(key)) or key == "name":
            text = f"'{key}' cannot name a number of a case; use letters, digits and '_'"
            yield Complaint((*way, key), text)
        elif type(number) is not int or not 0 <= number <= MOST_NUMBER:
            text = f"'{key}' must be a whole number from 0 to {MOST_NUMBER}, not {number!r:.40}"
            yield Complaint((*way, key), text)
            numbers.append([key, 1])  # so that what is made of it is no second mistake
        else:
            numbers.append([key, number])
    if not case:
        yield Complaint(way, f"'{way[-1]}' names no number")
    case.clear()
    case["numbers"] = numbers


def _reference_text(folder: Path, name: str) -> tuple[str, str]:
    """Return the text of a reference, or why there is none."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.parent.resolve()):
        return "", f"'{name}' is no file of this project: no commit says what was compared with"
    try:
        text = read_regular(path, _MOST_BYTES).decode()
    except FileNotFoundError:
        near = nearest(name, (p.name for p in folder.iterdir()))
        return "", f"no file '{name}' in {folder.name}/{near}"
    except (OSError, UnicodeDecodeError) as e:
        return "", f"'{name}' in {folder.name}/ cannot be read: {getattr(e, 'strerror', '') or e}"
    return (text, "") if text.strip() else ("", f"'{name}' is empty")
