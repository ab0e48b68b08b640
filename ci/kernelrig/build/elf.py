"""Read from an ELF file what a build must know: its glibc, and whether it is linked."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from kernelrig.errors import ProtocolError

_SHT_GNU_VERNEED = 0x6FFFFFFE
_ET_REL = 1


def is_relocatable(data: bytes) -> bool:
    """Return whether it is an object still to be linked, such as a cubin made with -rdc=true."""
    return bool(data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 16)[0] == _ET_REL)


def highest_glibc(program: Path) -> str:
    """Return the highest GLIBC_x.y version that `program` needs, as `2.34`; empty if none.

    The loader refuses the whole program for one such symbol, so the highest is the host's minimum.
    """
    versions = [v for v in needed_versions(program) if re.fullmatch(r"GLIBC_[\d.]+", v)]
    numbers = [tuple(int(n) for n in v.removeprefix("GLIBC_").split(".")) for v in versions]
    return ".".join(map(str, max(numbers))) if numbers else ""


def needed_versions(program: Path) -> tuple[str, ...]:
    """Return every symbol version in .gnu.version_r (System V gABI, LSB 'Symbol Versioning')."""
    data = program.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ProtocolError(f"{program} is not a 64-bit little-endian ELF file")
    try:
        return tuple(sorted(_read_versions(data)))
    except struct.error as e:
        raise ProtocolError(f"{program} is cut short: {e}") from e


def _read_versions(data: bytes) -> set[str]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    # Elf64_Shdr: name type flags addr offset size link info addralign entsize
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    found = set()
    for section in sections:
        if section[1] != _SHT_GNU_VERNEED:
            continue
        need, files, strings = section[4], section[7], sections[section[6]][4]
        for _ in range(files):
            # Elf64_Verneed: version count file aux next; Elf64_Vernaux: hash flags other name next
            _, names, _, aux, following = struct.unpack_from("<HHIII", data, need)
            at = need + aux
            for _ in range(names):
                _, _, _, name, step = struct.unpack_from("<IHHII", data, at)
                start = strings + name
                found.add(data[start : data.index(b"\0", start)].decode())
                at += step
            need += following
    return found
