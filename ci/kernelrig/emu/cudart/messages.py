"""The messages between a program and the emulator, as library/runtime.hpp has them.

A request is its number, the length of its body, the body; an answer is a CUDA error code, a length,
a body. All numbers are little-endian. What a program sends is bounded: it may have gone wrong.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

MAX_BODY = 1 << 30
_HEAD = struct.Struct("<II")
_LAUNCH = struct.Struct("<I3I3I3IIIQ")
_NOTE = struct.Struct("<IIQQQ")
_FUNCTION = struct.Struct("<Iiiiii3i3iiiII")
_ALLOCATE = struct.Struct("<QIQ")

Triple = tuple[int, int, int]


class Request(IntEnum):
    """What a program asks for."""

    HELLO = 0
    MODULE = 1
    FUNCTION = 2
    VARIABLE = 3
    ALLOCATE = 4
    FREE = 5
    LAUNCH = 6
    NOTE = 7
    TENSOR_MAP = 8


class Noted(IntEnum):
    """What a note is about."""

    FAILED_CALL = 0
    UNWRITTEN_COPY = 1
    HOST_ACCESS = 2


class BrokenMessage(Exception):
    """The program sent what is no message: something overwrote its memory."""


@dataclass(frozen=True, slots=True)
class LaunchMessage:
    """A launch; `params` are the bytes of all parameters, `caller` the host code behind it."""

    function: int
    grid: Triple
    block: Triple
    cluster: Triple
    dynamic_shared_bytes: int
    cooperative: bool
    caller: int
    params: bytes


@dataclass(frozen=True, slots=True)
class NoteMessage:
    """`code` is a CUDA error; `address` and `size` are in device memory; `text` names the call."""

    kind: Noted
    code: int
    address: int
    size: int
    caller: int
    text: str


@dataclass(frozen=True, slots=True)
class FunctionMessage:
    """What the host side knows of a kernel. `params` are (offset, bytes) in order."""

    number: int
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    max_threads: int
    required_block: Triple
    required_cluster: Triple
    ptx_version: int
    binary_version: int
    params: tuple[tuple[int, int], ...]

    @property
    def packed(self) -> bytes:
        size = max((offset + count for offset, count in self.params), default=0)
        head = _FUNCTION.pack(
            self.number, self.registers, self.shared_bytes, self.local_bytes, self.constant_bytes,
            self.max_threads, *self.required_block, *self.required_cluster, self.ptx_version,
            self.binary_version, size, len(self.params),
        )  # fmt: skip
        return head + b"".join(struct.pack("<II", *param) for param in self.params)


def receive(connection: socket.socket) -> tuple[int, bytes] | None:
    """Return the next request, None where the program has ended. Raises BrokenMessage."""
    head = _read(connection, _HEAD.size)
    if head is None:
        return None
    number, size = _HEAD.unpack(head)
    if size > MAX_BODY:
        raise BrokenMessage
    body = _read(connection, size)
    return None if body is None else (number, body)


def answer(connection: socket.socket, error: int, body: bytes = b"") -> None:
    """Answer a request; a program that has ended takes no answer."""
    try:
        connection.sendall(_HEAD.pack(error, len(body)) + body)
    except (BrokenPipeError, ConnectionResetError):
        return


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray(size)
    view, at = memoryview(parts), 0
    while at < size:
        try:
            got = connection.recv_into(view[at:])
        except ConnectionResetError:
            return None
        if not got:
            return None
        at += got
    return bytes(parts)


def read_launch(body: bytes) -> LaunchMessage:
    """Raises BrokenMessage."""
    if len(body) < _LAUNCH.size:
        raise BrokenMessage
    function, *n, dynamic, cooperative, caller = _LAUNCH.unpack_from(body)
    return LaunchMessage(
        function,
        (n[0], n[1], n[2]),
        (n[3], n[4], n[5]),
        (n[6], n[7], n[8]),
        dynamic,
        bool(cooperative),
        caller,
        body[_LAUNCH.size :],
    )


def read_note(body: bytes) -> NoteMessage:
    """Raises BrokenMessage."""
    try:
        kind, code, address, size, caller = _NOTE.unpack_from(body)
        text = body[_NOTE.size :].decode("utf-8", "replace")
        return NoteMessage(Noted(kind), code, address, size, caller, text)
    except (struct.error, ValueError) as e:
        raise BrokenMessage from e


def read_allocate(body: bytes) -> tuple[int, int, int]:
    """Return bytes, kind and caller. Raises BrokenMessage."""
    if len(body) != _ALLOCATE.size:
        raise BrokenMessage
    size, kind, caller = _ALLOCATE.unpack(body)
    return size, kind, caller


def read_numbers(body: bytes, count: int) -> tuple[tuple[int, ...], str]:
    """Return `count` numbers of 32 bits, and the text behind them. Raises BrokenMessage."""
    if len(body) < 4 * count:
        raise BrokenMessage
    text = body[4 * count :].decode("utf-8", "replace")
    return struct.unpack_from(f"<{count}I", body), text


def pack_addresses(*addresses: int) -> bytes:
    return struct.pack(f"<{len(addresses)}Q", *addresses)
