"""The bytes of a section of a cubin, which is a 64-bit little-endian ELF file."""

from __future__ import annotations

import struct
from pathlib import Path


def read_section(cubin: Path, name: str) -> bytes:
    """Return the contents of the section with that name; exactly one has it."""
    data = cubin.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", cubin
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    # Elf64_Shdr: name type flags addr offset size link info addralign entsize
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    start = sections[names][4]
    wanted = name.encode() + b"\0"
    (found,) = (s for s in sections if data[start + s[0] :].startswith(wanted))
    return data[found[4] : found[4] + found[5]]
