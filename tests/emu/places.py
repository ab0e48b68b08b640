"""PTX that tests of memory start with: each thread's own place in a buffer."""

from __future__ import annotations


def thread() -> str:
    """%r190 is the thread's number in its CTA."""
    return "mov.u32 %r190, %tid.x;\n"


def place(buffer: str, register: str, stride: int = 0) -> str:
    """`register` is the address of `buffer`, `stride` bytes on for each thread."""
    text = f"ld.param.u64 {register}, [{buffer}];\n"
    if stride:
        text += f"mul.wide.u32 %rd190, %r190, {stride};\nadd.s64 {register}, {register}, %rd190;\n"
    return text


def places(**strides: int) -> str:
    """%rd1, %rd2, ... are the places of the thread in the buffers named, in that order."""
    named = enumerate(strides.items(), 1)
    return thread() + "".join(place(buffer, f"%rd{n}", stride) for n, (buffer, stride) in named)
