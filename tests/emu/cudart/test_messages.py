"""Messages: as the library's header has them, and what is none is refused."""

from __future__ import annotations

import re
import socket
import struct

import pytest
from kernelrig.emu.cudart import messages
from kernelrig.emu.cudart.device_memory import Kind
from kernelrig.emu.cudart.library_build import SOURCES
from kernelrig.emu.cudart.messages import BrokenMessage, Noted, Request
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE

HEADER = (SOURCES / "runtime.hpp").read_text()


def names(enumeration: str) -> list[str]:
    body = re.search(rf"enum class {enumeration} : uint32_t {{(.*?)}};", HEADER, re.DOTALL)
    assert body
    return re.findall(r"^\s*(\w+)|, (\w+)", re.sub(r"//.*", "", body[1]), re.MULTILINE)


def test_the_numbers_are_those_of_the_header() -> None:
    found = {e: ["".join(pair) for pair in names(e)] for e in ("Request", "Kind", "Noted")}
    assert found["Request"] == [request.name for request in Request]
    assert found["Kind"] == [kind.name for kind in Kind][: len(found["Kind"])]
    assert found["Noted"] == [noted.name for noted in Noted][: len(found["Noted"])]
    assert f"DEVICE_BASE = {GLOBAL_BASE:#X}".replace("0X", "0x") in HEADER


def test_a_request_arrives_whole_and_the_end_is_none() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack("<II", 5, 3) + b"abc")
    assert messages.receive(ours) == (5, b"abc")
    theirs.sendall(struct.pack("<II", 5, 3) + b"a")
    theirs.close()
    assert messages.receive(ours) is None
    ours.close()


def test_a_length_out_of_bounds_is_no_message() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack("<II", 1, 0xFFFFFFFF))
    with pytest.raises(BrokenMessage):
        messages.receive(ours)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "read",
    [messages.read_launch, messages.read_note, messages.read_allocate, messages.read_tensor_map],
)
def test_half_a_message_is_none(read: object) -> None:
    assert callable(read)
    with pytest.raises(BrokenMessage):
        read(b"\xff" * 11)
