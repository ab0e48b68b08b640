"""Of entries that are not asked for, a module is read without their bodies."""

from __future__ import annotations

import pytest
from kernelrig.errors import ConfigError
from kernelrig.ptx import parse_ptx

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
OTHER = (
    ".visible .entry other(.param .u32 n)\n{\n.loc 1 2 3\n{ .reg .b32 %r<2>; mov.u32 %r1, 1; }\n"
    '.pragma "} {"; ret;\n}\n'
)
WANTED = ".visible .entry wanted()\n{\nret;\n}\n.func helper()\n{\nret;\n}\n"


def test_a_body_that_is_not_wanted_is_stepped_over_and_what_follows_is_read() -> None:
    text = HEAD + '.file 1 "k.cu"\n' + OTHER + WANTED
    whole = parse_ptx(text, "k.ptx")
    part = parse_ptx(text, "k.ptx", lambda name: name == "wanted")
    assert [len(f.instructions) for f in whole.functions] == [2, 1, 1]
    assert [len(f.instructions) for f in part.functions] == [0, 1, 1]
    assert whole.functions[1:] == part.functions[1:]
    assert part.functions[0].has_body
    assert part.functions[0].params == whole.functions[0].params


def test_a_body_that_is_not_closed_is_an_error_where_it_is_stepped_over_too() -> None:
    with pytest.raises(ConfigError) as error:
        parse_ptx(HEAD + ".entry other()\n{\n{ ret; }\n", "k.ptx", lambda name: False)
    assert "the body of the function is not closed" in str(error.value)
