"""printf's formats: against C's own printf."""

from __future__ import annotations

import ctypes
import struct

import pytest
from kernelrig.emu.machine.device_text import c_string, printed

TEXT = 64


def run(text: str, values: bytes, strings: bytes = b"") -> str:
    """Format with the arguments at address 0 and strings at TEXT."""
    memory = values.ljust(TEXT, b"\0") + strings
    return printed(text.encode(), 0, lambda at, size: memory[at : at + size]).decode()


def in_c(text: str, value: object) -> str:
    out = ctypes.create_string_buffer(512)
    size = ctypes.CDLL(None).snprintf(out, 512, text.encode(), value)
    return out.raw[:size].decode()


@pytest.mark.parametrize("flags", ["", "-", "0", "+", " ", "#", "-0", "+0", "#0"])
@pytest.mark.parametrize("size", ["", "12", ".0", "12.5"])
def test_conversions_are_those_of_c(flags: str, size: str) -> None:
    for kind in "dioxXuc":
        for value in (0, 65, -7 if kind in "di" else 7):
            spec = f"<%{flags}{size}{kind}>"
            assert run(spec, struct.pack("<i", value)) == in_c(spec, ctypes.c_int(value))
    for kind in "feEgGaA":
        for number in (0.0, 1.5, -2.25e-7, 1e300, float("inf"), float("nan")):
            spec = f"<%{flags}{size}{kind}>"
            if kind in "aA" and ("." in size or "#" in flags):
                continue  # digits of %a are not rounded, and a point alone is left out
            assert run(spec, struct.pack("<d", number)) == in_c(spec, ctypes.c_double(number))


def test_arguments_lie_at_multiples_of_their_size() -> None:
    values = struct.pack("<i4xqi4xd", -1, 1 << 40, 5, 0.5)
    assert run("%d %lld %hhd %.1f", values) == "-1 1099511627776 5 0.5"


def test_widths_may_be_arguments() -> None:
    assert run("<%*d><%-*d>", struct.pack("<iiii", 4, 1, -3, 2)) == "<   1><2  >"


def test_a_width_of_very_many_digits_is_bounded() -> None:
    assert run(f"%{'9' * 5000}d|%.{'0' * 5000}2d", struct.pack("<ii", 7, 7)) == f"{7:4096}|07"


def test_strings_end_at_their_zero_and_at_the_precision() -> None:
    values = struct.pack("<QQ", TEXT, TEXT)
    assert run("%s|%.2s|%%", values, b"long\0more") == "long|lo|%"


def test_a_string_without_an_end_stops_with_its_memory() -> None:
    assert c_string(0, lambda at, size: b"abc"[at : at + size]) == b"abc"


def test_what_is_no_conversion_stays() -> None:
    assert run("5%; %k %d", struct.pack("<i", 3)) == "5%; %k 3"
