"""The name of a finding that survives reruns and moved lines, so that a review of it holds.

It is a hash over what stays: the tool, the kind, the message without numbers, the function and the
text of the line. Line numbers, addresses, threads and names made readable are not part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from kernelrig.model import Finding
from kernelrig.model.frame import Frame

Key = TypeVar("Key")

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d[\d,.]*")


class Lines(Protocol):
    """Where the text of a source line is read: as it was compiled, empty where it is gone."""

    def line(self, file: str, line: int) -> str: ...


def without_numbers(text: str) -> str:
    """Replace addresses, counts and lines, which differ between reruns."""
    return _NUMBER.sub("#", text)


def fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def frame_parts(frame: Frame, sources: Lines) -> tuple[str, str, str]:
    """Return what of a frame survives a moved line: function, file name, text of the line.

    The text of a line that reads like others above says so: a review of one of them must not cover
    this one, also where this one alone is found.
    """
    text = _words(sources.line(frame.file, frame.line))
    above = (_words(sources.line(frame.file, n)) for n in range(1, frame.line if text else 1))
    same = sum(other == text for other in above)
    return frame.function, PurePosixPath(frame.file).name, f"{text} ({same + 1})" if same else text


def _words(line: str) -> str:
    return " ".join(line.split())


def number_equal(named: Iterable[tuple[Key, str]]) -> dict[Key, str]:
    """Give each key a fingerprint of its own: those equal to an earlier one get `-2`, `-3` and on.

    A review of one finding must never cover a second place that looks like it.
    """
    seen: dict[str, int] = {}
    numbered = {}
    for key, base in named:
        seen[base] = seen.get(base, 0) + 1
        numbered[key] = base if seen[base] == 1 else f"{base}-{seen[base]}"
    return numbered


def number_lines(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Give findings of one fingerprint at different lines different ones, in order of the lines."""
    keys = sorted({(f.fingerprint, f.file, f.line) for f in findings})
    names = number_equal((key, key[0]) for key in keys)
    return tuple(replace(f, fingerprint=names[f.fingerprint, f.file, f.line]) for f in findings)
