"""Live registers, from the table beside the disassembly."""

from __future__ import annotations

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.findings import locate
from kernelrig.sass import live_by_line, live_registers_argv, parse_live

from tests.sass_fixture import Probe


def table(probe: Probe) -> str:
    nvdisasm, *flags, cubin = live_registers_argv(probe.nvdisasm, probe.cubin)
    assert (nvdisasm, cubin) == (str(probe.nvdisasm), str(probe.cubin))
    return probe.disassemble(*flags)


@pytest.mark.parametrize("name", ["roles_100a", "roles_90a", "odd_100a"])
def test_every_instruction_that_can_run_has_its_count(
    name: str, request: pytest.FixtureRequest
) -> None:
    probe: Probe = request.getfixturevalue(name)
    live = parse_live(table(probe))
    assert set(live) == {f.name for f in probe.module.functions}
    for function in probe.module.functions:
        code = {i.address: i for i in function.instructions}
        assert set(live[function.name]) <= set(code)
        assert {i.root for a, i in code.items() if a not in live[function.name]} <= {"NOP"}


def test_counts_are_of_each_kind_of_register(roles_100a: Probe) -> None:
    live = parse_live(table(roles_100a))["right"]
    assert all(held.general >= 1 for held in live.values()), "R1 is the stack, and always live"
    most = max(live.values(), key=lambda held: held.general)
    assert 8 < most.general < 255
    assert max(held.uniform for held in live.values()) > 4
    assert max(held.predicates for held in live.values()) >= 1


def test_lines_stand_in_the_order_of_their_registers(roles_100a: Probe) -> None:
    live = parse_live(table(roles_100a))["right"]
    function = roles_100a.module.function("right")
    lines = live_by_line(function, live, lambda frames: locate(frames, "roles_sm100a.cu"))
    counts = [line.live.general for line in lines]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == max(held.general for held in live.values())
    assert len({(line.line.file, line.line.line) for line in lines}) == len(lines)
    assert all(live[line.instruction.address] == line.live for line in lines)


def test_columns_that_are_not_known_are_refused(roles_90a: Probe) -> None:
    text = table(roles_90a).replace("| GPR   |", "| QPR   |")
    with pytest.raises(ProtocolError, match=r"nvdisasm -plr: cannot read the columns 'QPR \| PRED"):
        parse_live(text)


def test_a_line_of_the_table_that_cannot_be_read_is_refused(roles_90a: Probe) -> None:
    text = table(roles_90a).replace("// Legend:", "// Legends:", 1)
    with pytest.raises(ProtocolError, match=r"not a known form of nvdisasm output"):
        parse_live(text)
