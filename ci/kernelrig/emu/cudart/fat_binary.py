"""Fat binaries: what nvcc embeds for each source file, PTX for some targets and code for others.

The layout is not documented; what is read here is what nvcc 13.0 writes: a header of 16 bytes, then
entries with headers of their own. PTX must not be compressed (`--compress-mode none`).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from kernelrig.errors import ConfigError

_MAGIC = 0xBA55ED50
_HEAD = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_PTX = 1
_TARGET = re.compile(rb"^\.target\s+sm_(\d+)([af]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PtxImage:
    """PTX for `number` (100 of sm_100a) with its suffix: "", "f" or "a"."""

    number: int
    suffix: str
    text: str

    @property
    def target(self) -> str:
        return f"sm_{self.number}{self.suffix}"

    def runs_on(self, arch: str) -> bool:
        """Whether a GPU of `arch` (sm_100a) takes it: older PTX, or that of the same arch."""
        number = int(arch.removeprefix("sm_").rstrip("af"))
        if self.suffix == "a":
            return self.number == number
        if self.suffix == "f":
            return self.number // 10 == number // 10 and self.number <= number
        return self.number <= number


def choose_ptx(binary: bytes, arch: str) -> PtxImage:
    """Return the PTX that a GPU of `arch` would be given.

    Raises ConfigError where there is none, and says which there are.
    """
    images, compressed = _read(binary)
    fitting = [i for i in images if i.runs_on(arch)]
    if fitting:
        return max(fitting, key=lambda i: (i.number, i.suffix == "a"))
    if compressed:
        raise ConfigError(
            "the program's PTX is compressed", "compile it with nvcc --compress-mode=none"
        )
    there = ", ".join(i.target for i in images) or "none"
    virtual = arch.replace("sm_", "compute_")
    raise ConfigError(
        f"the program has no PTX that {arch} takes; it has {there}",
        f"compile it with nvcc -gencode arch={virtual},code={virtual}",
    )


def ptx_image(text: bytes, name: str) -> PtxImage:
    """Return a file of PTX. Raises ConfigError where it names no target."""
    target = _TARGET.search(text)
    if target is None:
        raise ConfigError(f"{name}: has no .target, and is no PTX")
    return _image(target, text)


def _image(target: re.Match[bytes], text: bytes) -> PtxImage:
    decoded = text.decode("utf-8", "surrogateescape")
    return PtxImage(int(target[1]), target[2].decode(), decoded)


def _read(binary: bytes) -> tuple[list[PtxImage], bool]:
    """Return the PTX of a fat binary, or PTX as it is, and whether some of it is compressed."""
    if (target := _TARGET.search(binary)) and binary[:4] != _MAGIC.to_bytes(4, "little"):
        return [_image(target, binary.rstrip(b"\0"))], False
    images, compressed = [], False
    try:
        magic, _, at, size = _HEAD.unpack_from(binary)
        end = at + size
        if magic != _MAGIC or end > len(binary):
            raise ConfigError("a fat binary of the program is none that this version reads")
        while at < end:
            kind, _, head, length = _ENTRY.unpack_from(binary, at)
            data = binary[at + head : at + head + length].rstrip(b"\0")
            if kind == _PTX and (target := _TARGET.search(data)):
                images.append(_image(target, data))
            elif kind == _PTX:
                compressed = True
            if not head + length:
                break
            at += head + length
    except struct.error as e:
        raise ConfigError("a fat binary of the program is cut short") from e
    return images, compressed
