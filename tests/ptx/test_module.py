"""What stands around the code: directives, declarations, functions, lines; what is refused."""

from __future__ import annotations

import pytest
from kernelrig.errors import ConfigError
from kernelrig.model.frame import Frame
from kernelrig.ptx import Directive, Special, Symbol, parse_ptx

from tests.ptx.text import HEAD, body_complaint, complaint, entry, module


def test_a_module_says_what_it_is_for() -> None:
    parsed = parse_ptx(
        '.version 9.0\n.target sm_100a, debug\n.address_size 64\n.pragma "a", "b";\n', "x.ptx"
    )
    assert (parsed.name, parsed.version, parsed.target, parsed.address_size) == (
        "x.ptx",
        "9.0",
        ("sm_100a", "debug"),
        64,
    )
    assert parsed.pragmas == ("a", "b")


def test_an_entry_keeps_its_launch_directives() -> None:
    (function,) = module(
        ".visible .entry k() .maxntid 192, 1, 1 .minnctapersm 1 .explicitcluster"
        " .reqnctapercluster 2, 1, 1 { ret; }"
    ).entries
    assert function.linkage == {"visible"}
    assert function.directives == (
        Directive("maxntid", (192, 1, 1), 4),
        Directive("minnctapersm", (1,), 4),
        Directive("explicitcluster", (), 4),
        Directive("reqnctapercluster", (2, 1, 1), 4),
    )
    assert function.directive("explicitcluster") == ()
    assert function.directive("reqntid") is None


def test_functions_take_and_give_registers_and_never_return() -> None:
    parsed = module(
        ".func (.reg .b32 out) f (.reg .b32 in, .reg .pred p) { @p mov.b32 out, in; ret; }\n"
        ".weak .func g .noreturn { trap; }"
    )
    f, g = parsed.functions
    assert [str(p) for p in (*f.results, *f.params)] == ["out", "in", "p"]
    assert str(f.instructions[0]) == "@p mov.b32 out, in;"
    assert g.linkage == {"weak"}
    assert g.directive("noreturn") == ()
    assert g.params == ()


def test_an_alias_is_another_name_of_a_function() -> None:
    parsed = module(".func f() { ret; } .func g(); .alias g, f;")
    assert parsed.aliases == {"g": "f"}
    found = parsed.function("g")
    assert found is not None
    assert (found.name, found.has_body) == ("f", True)
    assert parsed.function("h") is None


def test_variables_may_share_a_declaration_and_have_attributes() -> None:
    a, b, c, d = module(
        ".global .align 8 .u32 a, b = 3, c[4]; .global .attribute(.managed) .v2 .f32 d;"
    ).variables
    assert [(v.name, v.align, v.size) for v in (a, b, c)] == [
        ("a", 8, 4),
        ("b", 8, 4),
        ("c", 8, 16),
    ]
    assert (d.attributes, d.lanes, d.size, d.align) == ((".managed",), 2, 8, 8)


def test_samplers_and_sections_are_stepped_over() -> None:
    parsed = module(
        ".global .samplerref s = { addr_mode_0 = clamp_to_border, filter_mode = nearest };"
        ".section .debug_info { .b32 .debug_abbrev\n $L1: .b8 3 }\n@@DWARF .byte 0x2b, 7\n"
        ".global .u32 after;"
    )
    assert [v.name for v in parsed.variables] == ["s", "after"]


LINES = """
.visible .entry k() {
.reg .b32 %r<9>;
.loc 1 10 0
mov.u32 %r1, %tid.x;
.loc 1 12 3
.loc 2 40 5, function_name $L__info_string0, inlined_at 1 12 3
mov.u32 %r1, 2;
.loc 3 7 1, function_name $L__info_string0+15, inlined_at 2 40 5
mov.u32 %r1, 3;
.loc 1 13 3
mov.u32 %r1, 4;
ret; }
.visible .entry other() { ret; }
.file 1 "/proc/self/cwd/kernel/k.cu"
.file 2 "kernel/ptx.cuh", 1700000000, 5120
.file 3 "kernel/deep.cuh"
.section .debug_str
{
$L__info_string0:
.b8 95,90,78,51,112,116,120,52,108,111,97,100,69,118
.b8 0
.b8 115
.b8 117
.b8 109
.b8 0
}
"""


def test_a_line_knows_the_calls_that_inlining_removed() -> None:
    k, other = module(LINES).entries
    kernel = "kernel/k.cu"
    assert [i.place.frames for i in k.instructions] == [
        (Frame(kernel, 10, "k"),),
        (Frame("kernel/ptx.cuh", 40, "load"), Frame(kernel, 12, "k")),
        (
            Frame("kernel/deep.cuh", 7, "sum"),
            Frame("kernel/ptx.cuh", 40, "load"),
            Frame(kernel, 12, "k"),
        ),
        (Frame(kernel, 13, "k"),),
        (Frame(kernel, 13, "k"),),
    ]
    assert [i.line for i in k.instructions] == [8, 11, 13, 15, 16]
    assert other.instructions[0].place.frames == ()


def test_a_call_nobody_wrote_a_line_of_is_a_line_without_a_function() -> None:
    function = module(
        '.file 1 "k.cu"\n.entry k() { .loc 1 5 1, function_name $L9, inlined_at 1 70 2\nret; }'
    ).entries[0]
    assert function.instructions[0].place.frames == (Frame("k.cu", 5, ""), Frame("k.cu", 70, ""))


def test_line_0_is_no_line() -> None:
    function = module('.file 1 "k.cu"\n.entry k() { .loc 1 0 1\nret; }').entries[0]
    assert function.instructions[0].place.frames == ()


def test_lines_that_inline_each_other_come_to_an_end() -> None:
    loop = "".join(
        f".loc 1 {1 + i % 2} 1, function_name $L, inlined_at 1 {2 - i % 2} 1\n" for i in range(999)
    )
    function = module(f".entry k() {{ {loop} ret; }}").entries[0]
    assert len(function.instructions[0].place.frames) == 65


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("1<<4|3", 19),
        ("-7/2", -3),
        ("-7 % 3", 0),
        ("~5", -6),
        ("!5", 0),
        ("1 ? 2 : 3", 2),
        ("3==3 && 2>1", 1),
        ("0||0", 0),
        ("-1 < 1U", 0),
        ("-1 < 1", 1),
        ("(.u64)-1>>60", 15),
        ("-1>>60", -1),
        ("1<<64", 0),
        ("1<<9999999999", 0),
        ("0xffffffffffffffff+1", 0),
        ("9223372036854775807+1", -9223372036854775808),
        ("WARP_SZ*2-WARP_SZ", 32),
        ("7&3^1", 2),
    ],
)
def test_constants_are_computed_in_64_bits(text: str, value: int) -> None:
    (move,) = entry(f"mov.b64 %rd1, {text};").instructions
    assert str(move) == f"mov.b64 %rd1, {value};"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("mov.u32 %r1, 1/0;", "a constant is divided by zero"),
        ("mov.u32 %r1, 09;", "'09' is not an octal number"),
        (f"mov.u32 %r1, {2**64};", "the constant 18446744073709551616 does not fit 64 bits"),
        ("mov.u32 %r1, 1.0<<2;", "'<<' takes no floating-point constant"),
        ("mov.u32 %r1, ~1.0;", "'~' takes no floating-point constant"),
        (f"mov.u32 %r1, {'(' * 999}1;", "the expression is nested more than 64 deep"),
        (f"mov.u32 %r1, {'-' * 999}1;", "the expression is nested more than 64 deep"),
        ("mov.u32 %r1, %r99;", "no '%r99' is declared"),
        ("mov.u32 %r1, %tid.q;", "no '%tid.q' is declared"),
        ("mov.u32 %r1.q, 1;", "'%r1' has no part '.q'"),
        ("mov.u32 %r1 1;", "expected ',' or ';', not '1'"),
        ("mov.u32 %r1, ;", "expected an operand, not ';'"),
        ("%r1 = 3;", "'%r1' is not an instruction"),
        ("@%r99 ret;", "no register '%r99' is declared"),
        ("@%p1 @%p2 ret;", "expected an instruction, not '@'"),
        (";", "expected an instruction, not ';'"),
        ("bra NOWHERE;", "no label 'NOWHERE' can be reached from here"),
        ("bra IN; { IN: }", "no label 'IN' can be reached from here"),
        ("L: L: ret;", "the label 'L' stands twice in one scope"),
        (".reg .b32 a; .reg .b32 a;", "'a' is declared twice in one scope"),
        (".reg .b33 a;", "'.b33' is not allowed in a declaration"),
        (".shared .b32;", "expected a name, not ';'"),
        (".shared x;", "the declaration names no type"),
        (".shared .pred x;", "a predicate lives in a register, not in .shared"),
        (".shared .align 3 .b32 x;", "an alignment is a power of two, not 3"),
        (".shared .b32 x<3>;", "only registers come in ranges, not .shared"),
        (".shared .b32 x[0];", "an array has 1 element at least, not 0"),
        (".maxntid 3", "'.maxntid' is not allowed in a function"),
        (".loc 1 x 3\nret;", "'.loc' wants a file, a line and a column, as numbers"),
        ("ld.global.b32 %r1, [%rd1;", "expected ']', not ';'"),
        ("ld.global.b32 %r1, [%rd1+8, {%r1}];", "expected ']', not ','"),
        ("mov.b64 {{%r1}}, %rd1;", "expected a register or a constant, not '{'"),
        ('mov.u32 %r1, "a";', "expected an operand, not '\"a\"'"),
        ("mov.u32 %r1, 1; /* open", "the comment is not closed"),
        ('.pragma "open', "the string is not closed on its line"),
        ("mov.u32 %r1, é;", "'é' is not a token of PTX"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_one_sentence(body: str, sentence: str) -> None:
    assert body_complaint(body) == f"test.ptx:8: {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (".entry k() {", "4: the body of the function is not closed"),
        (".entry k() { { ret; }", "4: the body of the function is not closed"),
        (".entry k() { ret; } }", "4: expected a directive of the module, not '}'"),
        (".entry k(", "4: expected a declaration, but the file ends"),
        ("ret;", "4: expected a directive of the module, not 'ret'"),
        (".section .debug_str {", "4: the section '.debug_str' is not closed"),
        ("\n.global .u32 a; .func a();", "5: 'a' is a variable already"),
        (".func a(); .global .u32 a;", "4: 'a' is a function already"),
        (".func f() { ret; } .func f() { ret; }", "4: 'f' has a body already"),
        (".address_size 16", "4: .address_size is 32 or 64, not 16"),
        (".global .u64 a = b;", "4: no variable or function 'b' is declared"),
        (
            ".global .b8 a[99999999999999];",
            "4: an array has 1 element at least, not 99999999999999",
        ),
        (f".global .b8 a = {'{' * 99}", "4: the initialiser is nested more than 16 deep"),
    ],
)
def test_a_module_that_cannot_be_read_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    assert complaint(text) == f"test.ptx:{sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "x.ptx:1: no .version is given; PTX starts with .version and .target"),
        (".version 9.0\n", "x.ptx:2: no .target is given; PTX starts with .version and .target"),
        (".version x", "x.ptx:1: expected a version, as 9.0, not 'x'"),
    ],
)
def test_a_text_that_says_not_what_it_is_for_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ptx(text, "x.ptx")
    assert caught.value.message == sentence


def test_a_variable_shadows_a_special_register() -> None:
    function = entry(".reg .u32 %laneid; mov.u32 %laneid, %warpid;")
    result, source = function.instructions[0].operands
    assert (str(result), source) == ("%laneid", Special("warpid"))
    assert function.registers[0].name == "%laneid"


def test_names_of_functions_are_values() -> None:
    (move,) = entry("mov.u64 %rd1, f;", ".func f();").instructions
    assert move.operands[1] == Symbol("f")


def test_the_head_that_these_tests_count_on_has_three_lines() -> None:
    assert HEAD.count("\n") == 3
