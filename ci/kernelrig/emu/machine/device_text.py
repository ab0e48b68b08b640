"""What a kernel prints: printf's formats and arguments, as `vprintf` gets them in memory.

Arguments lie one behind the other, each at a multiple of its size: 4 bytes for int and what is
smaller, 8 for the rest (CUDA C++ Programming Guide, formatted output).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_TEXT = 1 << 20
"""Bytes of a schedule's output that are kept; a GPU's buffer is as bounded."""
MAX_STRING = 1 << 16
_SPEC = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    rb"(?P<length>hh|h|ll|l|L|j|z|t)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)
_LONG = (b"l", b"ll", b"j", b"z", b"t")
_WIDEST = 4096

ReadBytes = Callable[[int, int], bytes]
"""Returns up to so many bytes from a generic address: fewer where memory ends."""


@dataclass
class DeviceOutput:
    """What a kernel has said: by printf, by assertions, and what stopped it: trap, assertion."""

    printed: bytearray = field(default_factory=bytearray)
    complained: bytearray = field(default_factory=bytearray)
    stopped_by: str = ""

    def say(self, text: bytes, *, error: bool = False) -> None:
        """Keep a text, up to MAX_TEXT bytes of all."""
        into = self.complained if error else self.printed
        into += text[: MAX_TEXT - len(into)]


class _Arguments:
    def __init__(self, address: int, read: ReadBytes) -> None:
        self._at, self._read = address, read

    def next(self, size: int) -> bytes:
        self._at = -(-self._at // size) * size
        data = self._read(self._at, size).ljust(size, b"\0")
        self._at += size
        return data


def c_string(address: int, read: ReadBytes) -> bytes:
    """Return the bytes before the first zero."""
    return read(address, MAX_STRING).partition(b"\0")[0]


def printed(text: bytes, arguments: int, read: ReadBytes) -> bytes:
    """Return what printf prints for a format and the address of its arguments."""
    taken = _Arguments(arguments, read)
    return _SPEC.sub(lambda spec: _one(spec, taken, read), text)


def _one(spec: re.Match[bytes], taken: _Arguments, read: ReadBytes) -> bytes:
    kind = spec["kind"].decode()
    if kind == "%":
        return b"%"
    flags = spec["flags"].decode()
    width = _size(spec["width"], taken)
    if width < 0:
        flags, width = flags + "-", -width
    precision = None if spec["precision"] is None else _size(spec["precision"], taken)
    if precision is not None and precision < 0:
        precision = None
    body = _value(kind, flags, precision, spec["length"] or b"", taken, read)
    if "-" in flags:
        return body.ljust(width)
    zeros = "0" in flags and kind not in "csp" and not (kind in "diouxX" and precision is not None)
    if zeros and not body.lstrip(b"+- ").startswith((b"inf", b"nan", b"INF", b"NAN")):
        sign = re.match(rb"[-+ ]?(0[xX])?", body)
        lead = sign[0] if sign else b""
        return lead + body[len(lead) :].rjust(width - len(lead), b"0")
    return body.rjust(width)


def _size(text: bytes, taken: _Arguments) -> int:
    if text == b"*":
        return max(min(int(struct.unpack("<i", taken.next(4))[0]), _WIDEST), -_WIDEST)
    digits = text.lstrip(b"0")
    return _WIDEST if len(digits) > 4 else min(int(digits or b"0"), _WIDEST)


def _value(
    kind: str,
    flags: str,
    precision: int | None,
    length: bytes,
    taken: _Arguments,
    read: ReadBytes,
) -> bytes:
    """Return a conversion's text without its padding to the width."""
    if kind == "s":
        (address,) = struct.unpack("<Q", taken.next(8))
        return (c_string(address, read) if address else b"(null)")[:precision]
    if kind == "p":
        (address,) = struct.unpack("<Q", taken.next(8))
        return f"{address:#x}".encode() if address else b"(nil)"
    if kind == "c":
        return taken.next(4)[:1]
    sign = "+" if "+" in flags else " " if " " in flags else ""
    if kind in "diouxX":
        return _whole(kind, flags, sign, precision, length, taken)
    (number,) = struct.unpack("<d", taken.next(8))
    if kind in "aA":
        text = _hexadecimal(number) if precision is None else number.hex()
        text = text if text.startswith("-") else sign + text
        return (text.upper() if kind == "A" else text).encode()
    spec = f"%{'#' if '#' in flags else ''}{sign}.{6 if precision is None else precision}{kind}"
    plain: str = spec % number
    return plain.encode()


def _whole(
    kind: str, flags: str, sign: str, precision: int | None, length: bytes, taken: _Arguments
) -> bytes:
    size = 8 if length in _LONG else 4
    number = int.from_bytes(taken.next(size), "little", signed=kind in "di")
    if length in (b"h", b"hh"):
        bits = 16 if length == b"h" else 8
        number &= (1 << bits) - 1
        if kind in "di" and number >> (bits - 1):
            number -= 1 << bits
    digits = format(abs(number), {"o": "o", "x": "x", "X": "X"}.get(kind, "d"))
    digits = "" if precision == 0 and not number else digits.rjust(precision or 1, "0")
    if "#" in flags and number and kind in "xX":
        digits = f"0{kind}{digits}"
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = f"0{digits}"
    return (("-" if number < 0 else sign if kind in "di" else "") + digits).encode()


def _hexadecimal(number: float) -> str:
    """Return what C's %a gives: Python's hex() keeps zeros at the end."""
    return re.sub(r"\.?0*(?=p)", "", number.hex())
