"""Rows marked as compared with hardware: each word was in a case whose result is recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

import pytest
from kernelrig.emu.isa._forms import COPIES_ON_H200, MEMORY_ON_H100
from kernelrig.emu.isa.families import FAMILIES, instruction_table
from kernelrig.emu.machine.instruction_table import Row
from kernelrig.ptx import parse_ptx

from tests.emu import memory_cases, test_copies, test_memory_cases

JUMPS = ("bra", "ret", "trap")


def memory_texts() -> Iterator[str]:
    for name in json.loads(test_memory_cases.RECORDED.read_text())["programs"]:
        yield memory_cases.PROGRAMS[name].text("sm_90a")


def copy_texts() -> Iterator[str]:
    trials = test_copies.TRIALS | test_copies.PROBES
    for name in json.loads(test_copies.RECORDED.read_text())["left"]:
        yield trials[name].text if name in trials else test_copies.reduction_text(name)


@pytest.mark.parametrize(
    ("by", "texts"), [(MEMORY_ON_H100, memory_texts), (COPIES_ON_H200, copy_texts)]
)
def test_every_word_of_a_marked_row_was_in_a_case(by: str, texts: object) -> None:
    assert callable(texts)
    table = instruction_table()
    tried: dict[Row, set[str]] = defaultdict(set)
    for text in texts():
        entry = parse_ptx(text, "case.ptx").function("k")
        for instruction in entry.instructions if entry else ():
            if instruction.opcode not in JUMPS:
                tried[table.find(instruction)] |= instruction.flags
    marked = [row for family in FAMILIES for row in family.ROWS if row.checked == by]
    assert [row.name for row in marked if row not in tried] == []
    assert [(row.name, left) for row in marked if (left := row.takes - tried[row])] == []
