"""The text of nvdisasm: all of it is read, or it is refused with its line."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.sass import Frame, Place, parse_sass
from kernelrig.sass.parse import split_operands

from tests.sass_fixture import Probe

GUARDED = pytest.param("guarded_100a", marks=pytest.mark.long)  # roles_100a, and checks between
ODD_90A = pytest.param("odd_90a", marks=pytest.mark.long)  # odd_100a of the older GPU
PROBES = ("roles_100a", GUARDED, "roles_90a", "odd_100a", ODD_90A)
SMALL = """\t.target\tsm_100a

\t.elftype\t@"ET_EXEC"


//--------------------- .text.fill                --------------------------
\t.section\t.text.fill,"ax",@progbits
\t.align\t128
        .global         fill
        .type           fill,@function
        .size           fill,(.L_x_1 - fill)
        .other          fill,@"STO_CUDA_ENTRY STV_DEFAULT"
fill:
.text.fill:
\t//## File "/proc/self/cwd/k/ptx.cuh", line 20 inlined at "/proc/self/cwd/k/fill.cu", line 7
\t//## File "/proc/self/cwd/k/fill.cu", line 7
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/              @!P0 STG.E desc[UR4][R98.64+0x10], R5 ;
\t//## File "/proc/self/cwd/k/fill.cu", line 9
        /*0020*/                   EXIT ;
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
.L_x_1:


//--------------------- SYMBOLS --------------------------

\t.type\t\t.nv.reservedSmem.offset0,@object
\t.size\t\t.nv.reservedSmem.offset0,0x4
\t.type\t\tvprintf,@function
"""


def refused(text: str) -> str:
    with pytest.raises(ProtocolError) as e:
        parse_sass(text)
    return e.value.message


@pytest.mark.parametrize("name", PROBES)
def test_every_instruction_is_read_as_nvdisasm_itself_has_it_in_json(
    name: str, request: pytest.FixtureRequest
) -> None:
    probe: Probe = request.getfixturevalue(name)
    _, functions = json.loads(probe.disassemble("-json"))
    told = {
        f["function-name"]: [
            (i.get("predicate", ""), i["opcode"], i.get("operands", ""))
            for i in f["sass-instructions"]
        ]
        for f in functions
    }
    assert told
    for section, theirs in told.items():
        ours = [i for f in probe.module.functions if f.section == section for i in f.instructions]
        assert [i.opcode for i in ours] == [opcode for _, opcode, _ in theirs]
        for i, (guard, _, operands) in zip(ours, theirs, strict=True):
            # The JSON has addresses for labels, takes PR for a guard, and adds a comma to BRX.
            if "`(" in i.text or i.root in ("P2R", "R2P", "BRX"):
                continue
            assert (f"@{i.guard}" if i.guard else "") == guard
            assert re.sub(r"\s", "", ",".join(i.operands)) == re.sub(r"\s", "", operands)


def test_an_instruction_has_its_guard_its_operands_and_its_place() -> None:
    module = parse_sass(SMALL)
    assert (module.arch, module.externs) == ("sm_100a", ("vprintf",))
    (function,) = module.functions
    assert (function.name, function.section, function.is_entry) == ("fill", "fill", True)
    assert function.labels == {"fill": 0, ".L_x_0": 0x30, ".L_x_1": 0x40}
    load, store, leave, pad = function.instructions
    assert (store.guard, store.opcode, store.root) == ("!P0", "STG.E", "STG")
    assert store.operands == ("desc[UR4][R98.64+0x10]", "R5")
    assert store.text == "@!P0 STG.E desc[UR4][R98.64+0x10], R5"
    assert load.place == Place((Frame("k/ptx.cuh", 20), Frame("k/fill.cu", 7)))
    assert store.place == load.place
    assert leave.place == Place((Frame("k/fill.cu", 9),))
    assert (pad.address, pad.operands, pad.conditional) == (0x30, ("`(.L_x_0)",), False)


def test_places_keep_the_whole_chain_of_inlined_calls(roles_100a: Probe) -> None:
    function = roles_100a.module.function("right")
    load = next(i for i in function.instructions if i.matches("UTMALDG"))
    folder = "tests/sass/probes"
    assert [(frame.file, frame.line) for frame in load.place.frames] == [
        (f"{folder}/sm100a/ptx.cuh", 40),
        (f"{folder}/roles_sm100a.cu", 45),
        (f"{folder}/roles_sm100a.cu", 102),
        (f"{folder}/roles_sm100a.cu", 138),
    ]


def test_the_functions_of_frames_come_from_who_knows_them() -> None:
    # By the path as the binary has it, or as we say it
    names = {("/proc/self/cwd/k/ptx.cuh", 20): "load", ("k/fill.cu", 7): "fill"}
    module = parse_sass(SMALL, names)
    place = module.functions[0].instructions[0].place
    assert place.text == "ptx.cuh:20 load, in fill.cu:7 fill"


def test_what_is_called_stands_in_the_section_of_its_entry(odd_100a: Probe) -> None:
    names = [f.name for f in odd_100a.module.functions if f.section == "calls"]
    assert names[:3] == ["calls", "$calls$_Z5sinesfi", "$calls$_Z5twicefi"]
    assert len(names) == 4
    assert names[3].endswith("$__cuda_sm3x_div_rn_noftz_f32_slowpath")
    # It has no places of its own: those of the function before it are not its.
    slow = odd_100a.module.function(names[3])
    assert {i.place for i in slow.instructions} == {Place()}


def test_a_pattern_names_a_mnemonic_up_to_any_of_its_dots() -> None:
    load = parse_sass(SMALL.replace("LDC R1", "LDTM.x32 R1")).functions[0].instructions[0]
    assert load.matches("LDTM")
    assert load.matches("LDTM.x32")
    assert not load.matches("LDTM.x3")
    assert not load.matches("LD")


def test_operands_are_split_at_commas_outside_brackets() -> None:
    assert split_operands("R52, desc[UR4][R98.64], P0") == ("R52", "desc[UR4][R98.64]", "P0")
    assert split_operands("R20, 32@lo((f + .L_x_4@srel))") == (
        "R20",
        "32@lo((f + .L_x_4@srel))",
    )
    assert split_operands("") == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "LDC R1, c[0x0][0x37c] ;",
            "{ LDC R1 ; }",
            "SASS line 17: not a known form of nvdisasm output: '/*0000*/",
        ),
        ("EXIT ;", "EXIT", "SASS line 20: not a known form of nvdisasm output:"),
        ("        /*0010*/", "        /*00", "SASS line 18: not a known form"),
        ("/*0020*/", "/*0030*/", "SASS line 20: expected address 0x0020:"),
        ("\t.align\t128", "\t.nonsense\t1", "SASS line 8: unknown directive '.nonsense':"),
        (
            ".text.fill,",
            ".nv.info,",
            "SASS line 7: a section without code; run nvdisasm with -c:",
        ),
        ("fill:\n.text.fill:", ".text.fill:", "SASS line 16: an instruction outside a function:"),
        (
            ", line 7\n\t//## ",
            ", line 8\n\t//## ",
            "SASS line 16: expected k/fill.cu, line 8:",
        ),
        (
            '\t//## File "/proc/self/cwd/k/fill.cu", line 7\n',
            "",
            "SASS line 16: the place above it is cut short:",
        ),
        ("\t.section", ".L_x_9:\n\t.section", "SASS line 7: a label outside a section:"),
        ("\t.target\tsm_100a\n", "", "no SASS: the text names no target, or has no function"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_its_number(
    old: str, new: str, message: str
) -> None:
    assert old in SMALL
    assert refused(SMALL.replace(old, new, 1)).startswith(message)


def test_a_line_that_is_missing_is_noticed(roles_90a: Probe) -> None:
    lines = roles_90a.text.splitlines(keepends=True)
    code = [n for n, line in enumerate(lines) if re.match(r"\s+/\*\w+\*/", line)]
    for gone in code[5:-20:31]:
        assert "expected address" in refused("".join(lines[:gone] + lines[gone + 1 :]))


def test_a_text_that_is_cut_short_is_noticed(roles_90a: Probe) -> None:
    lines = roles_90a.text.splitlines(keepends=True)
    names = [n for n, line in enumerate(lines) if line.startswith("\t.section")]
    for begins, ends in pairwise(names):
        # Wherever in a function the text ends; in front of the next one it is whole again.
        for cut in range(begins + 6, ends - 5, 29):
            assert re.search("cut short|is empty|no SASS", refused("".join(lines[:cut])))


def test_a_function_that_is_not_there_is_named_with_those_that_are(roles_90a: Probe) -> None:
    with pytest.raises(ProtocolError) as e:
        roles_90a.module.function("wrong")
    assert e.value.message == "no function 'wrong' in the disassembly; there are: one_loop, right"


def test_what_an_older_nvdisasm_wrote_is_read_alike() -> None:
    data = Path(__file__).parents[1] / "data" / "sass"
    old = parse_sass((data / "asserts-sm_100a-nvdisasm-13.2.51.sass").read_text())
    new = parse_sass((data / "asserts-sm_100a-nvdisasm-13.5.37.sass").read_text())
    texts = [
        [re.sub(r"\.L_x_\d+", "", i.text) for i in m.functions[0].instructions] for m in (old, new)
    ]
    assert texts[0] == texts[1]
    assert old.externs == new.externs == ("__assertfail",)
