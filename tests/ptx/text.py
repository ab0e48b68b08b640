"""Small PTX to read: a module around what a test writes."""

from __future__ import annotations

import pytest
from kernelrig.errors import ConfigError
from kernelrig.ptx import Function, Module, parse_ptx

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def module(text: str) -> Module:
    """Parse `text` as the rest of a module; its first line is line 4."""
    return parse_ptx(HEAD + text, "test.ptx")


def entry(body: str, before: str = "") -> Function:
    """Parse `body` inside the entry `k`, which declares what most bodies need; it is on line 8."""
    text = f"""{before.replace(chr(10), " ")}
.visible .entry k(.param .u64 p, .param .align 64 .b8 map[128]) {{
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<71>; .reg .b64 %rd<9>; .reg .f32 %f<9>;

{body}
}}
"""
    function = module(text).function("k")
    assert function is not None
    return function


def shown(body: str, before: str = "") -> list[str]:
    """Return the instructions of an entry, as they print themselves."""
    return [str(i) for i in entry(body, before).instructions]


def complaint(text: str) -> str:
    """Return the one sentence with which a module is refused."""
    with pytest.raises(ConfigError) as caught:
        module(text)
    return caught.value.message


def body_complaint(body: str, before: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        entry(body, before)
    return caught.value.message
