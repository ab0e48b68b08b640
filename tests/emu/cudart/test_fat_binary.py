"""Which PTX of a fat binary is taken, in the layout that nvcc 13.0 writes."""

from __future__ import annotations

import struct

import pytest
from kernelrig.emu.cudart.fat_binary import choose_ptx
from kernelrig.errors import ConfigError


def ptx(target: str) -> bytes:
    return f"\n.version 9.0\n.target {target}\n.address_size 64\n// of {target}\n".encode()


def binary(*images: tuple[int, bytes]) -> bytes:
    """Return a fat binary of (kind, data): 1 is PTX, 2 machine code."""
    entries = b""
    for kind, data in images:
        padded = data + bytes(-len(data) % 8)
        entries += struct.pack("<HHIQ", kind, 0x101, 64, len(padded)) + bytes(48) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@pytest.mark.parametrize(
    ("there", "arch", "taken"),
    [
        (["sm_80", "sm_90a", "sm_100a"], "sm_90a", "sm_90a"),
        (["sm_80", "sm_90", "sm_100a"], "sm_90a", "sm_90"),
        (["sm_80", "sm_90a"], "sm_100a", "sm_80"),
        (["sm_100", "sm_100f", "sm_100a"], "sm_100a", "sm_100a"),
        (["sm_100f"], "sm_100a", "sm_100f"),
    ],
)
def test_the_newest_ptx_that_the_gpu_takes(there: list[str], arch: str, taken: str) -> None:
    code = (2, b"\x7fELF" + bytes(60))
    chosen = choose_ptx(binary(code, *((1, ptx(target)) for target in there)), arch)
    assert (chosen.target, f"// of {taken}\n" in chosen.text) == (taken, True)


def test_ptx_that_is_no_fat_binary_is_taken_as_it_is() -> None:
    assert choose_ptx(ptx("sm_90a") + b"\0", "sm_90a").text.endswith("// of sm_90a\n")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (binary((1, ptx("sm_90a"))), "no PTX that sm_100a takes; it has sm_90a"),
        (binary((2, b"\x7fELF")), "it has none"),
        (binary((1, b"\x28\xb5\x2f\xfd compressed")), "the program's PTX is compressed"),
        (binary((1, ptx("sm_90a")))[:20], "none that this version reads"),
        (b"?" * 64, "none that this version reads"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        choose_ptx(data, "sm_100a")
