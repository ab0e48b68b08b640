"""Issue control bits of a cubin, which the disassembly lacks: stalls and scoreboards.

The upper 23 bits of an instruction are for the issuer, not for the unit that runs it. NVIDIA does
not document them. The layout is that of every arch since Volta, as CuAssembler and others found it;
that it still holds is tested: what an instruction reads is waited for before it is read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kernelrig.errors import ProtocolError
from kernelrig.sass.code import INSTRUCTION_BYTES, Function

_TEXT = b".text."
_FIRST_BIT = 41  # of the upper 64: stall 4, yield 1, write 3, read 3, wait 6, reuse 4
_NO_SCOREBOARD = 7


@dataclass(frozen=True, slots=True)
class Issue:
    """How an instruction is issued: cycles until the next may follow, scoreboards 0 to 5.

    `sets_on_write` is counted up now and down when the result is there, `sets_on_read` when the
    operands were read; the instruction waits until every scoreboard in `waits` is at zero.
    """

    stall: int
    sets_on_write: int | None
    sets_on_read: int | None
    waits: frozenset[int]


def read_issue(cubin: bytes, function: Function) -> dict[int, Issue]:
    """Return how each instruction of `function` is issued, by its address."""
    code = _section(cubin, _TEXT + function.section.encode())
    last = function.instructions[-1].address
    if len(code) < last + INSTRUCTION_BYTES:
        raise ProtocolError(
            f"the cubin has {len(code)} bytes of '{function.section}', its disassembly more;"
            " they are not of one build"
        )
    return {i.address: _issue(code, i.address) for i in function.instructions}


def _issue(code: bytes, address: int) -> Issue:
    (upper,) = struct.unpack_from("<Q", code, address + 8)
    bits = upper >> _FIRST_BIT
    write, read, mask = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    return Issue(
        stall=bits & 15,
        sets_on_write=None if write == _NO_SCOREBOARD else write,
        sets_on_read=None if read == _NO_SCOREBOARD else read,
        waits=frozenset(n for n in range(6) if mask >> n & 1),
    )


def _section(cubin: bytes, wanted: bytes) -> bytes:
    """Return the bytes of an ELF section, by its name."""
    try:
        if cubin[:6] != b"\x7fELF\x02\x01":
            raise ProtocolError("the cubin is not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", cubin, 0x28)
        size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
        # Elf64_Shdr: name type flags addr offset size ...
        headers = [struct.unpack_from("<IIQQQQ", cubin, table + n * size) for n in range(count)]
        strings = headers[names][4]
        for name, _, _, _, offset, length in headers:
            start = strings + name
            if cubin[start : cubin.index(b"\0", start)] == wanted:
                return cubin[offset : offset + length]
    except (struct.error, IndexError, ValueError) as e:
        raise ProtocolError(f"the cubin is cut short: {e}") from e
    raise ProtocolError(f"the cubin has no section '{wanted.decode()}'")
