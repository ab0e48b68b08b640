"""The traps of real PTX text, each on its own (facts: PTX semantics, section 7)."""

from __future__ import annotations

from kernelrig.ptx import (
    Address,
    Component,
    Float,
    Integer,
    Label,
    Pair,
    Prototype,
    Register,
    Sink,
    Symbol,
    Targets,
    TensorAddress,
    Variable,
    Vector,
)

from tests.ptx.text import entry, module, shown


def test_registers_come_in_ranges_and_keep_the_width_that_was_declared() -> None:
    function = entry(".reg .b32 %g<3>; add.f32 %g2, %f8, %g0;")
    assert function.registers == (
        Register("%g2", "b32", 0),
        Register("%f8", "f32", 1),
        Register("%g0", "b32", 2),
    )


def test_a_thousand_registers_that_nobody_uses_are_none() -> None:
    assert entry(".reg .b32 %many<999999999>; ret;").registers == ()


def test_a_frame_is_a_local_array_and_two_pointers() -> None:
    function = entry(
        ".local .align 16 .b8 __local_depot3[96]; .reg .b64 %SP; .reg .b64 %SPL;"
        " mov.u64 %SPL, __local_depot3; cvta.local.u64 %SP, %SPL;"
    )
    (depot,) = function.variables
    assert (depot.space, depot.align, depot.size) == ("local", 16, 96)
    assert function.instructions[0].operands[1] == Symbol("__local_depot3", depot)


def test_parameters_are_arrays_pointers_and_words() -> None:
    function = module(
        ".entry k(.param .align 4 .b8 a[20], .param .u64 .ptr .align 1 b,"
        " .param .u64 .ptr .global .align 16 c, .param .f32 d)\n"
        "{ .reg .b32 %r<3>; ld.param.v2.u32 {%r1, %r2}, [a+16]; }"
    ).entries[0]
    a, b, c, d = (p for p in function.params if isinstance(p, Variable))
    assert (a.size, a.align) == (20, 4)
    assert (b.pointee, c.pointee) == (("generic", 1), ("global", 16))
    assert (d.type, d.size, d.align) == ("f32", 4, 4)
    assert function.instructions[0].operands[1] == Address(Symbol("a", a), 16)


def test_a_function_is_declared_first_and_defined_later() -> None:
    parsed = module(
        ".func (.param .b32 func_retval0) f (\n .param .b32 f_param_0\n)\n;\n"
        ".extern .func vprintf\n(\n .param .b64 a,\n .param .b64 b\n)\n;\n"
        ".visible .func (.param .b32 func_retval0) f (.param .b32 f_param_0) { ret; }"
    )
    assert [(f.name, f.has_body) for f in parsed.functions] == [
        ("f", False),
        ("vprintf", False),
        ("f", True),
    ]
    definition = parsed.function("f")
    assert definition is not None
    assert definition.has_body
    assert [str(p) for p in definition.results] == ["func_retval0"]


def test_static_shared_memory_is_declared_inside_the_function() -> None:
    function = entry("// demoted variable\n.shared .align 4 .b8 tile[132]; mov.u32 %r1, tile;")
    assert [(v.name, v.space, v.size) for v in function.variables] == [("tile", "shared", 132)]


def test_dynamic_shared_memory_has_no_size() -> None:
    (variable,) = module(".extern .shared .align 1024 .b8 sm[];").variables
    assert (variable.dimensions, variable.size, variable.align) == ((0,), 0, 1024)
    assert variable.linkage == {"extern"}


def test_initialisers_are_bytes_words_and_addresses() -> None:
    parsed = module(
        ".const .b8 x[20] = {0, 0, 128, 63};"
        ".global .align 1 .b8 $str$1[6] = {119, 97};"
        ".func f() ;"
        ".global .u64 names[2] = {generic($str$1), f};"
        ".global .b8 parts[2] = {0xff($str$1), 0xFF00(generic($str$1)+4)};"
        ".global .f32 real = -2.5;"
        ".global .u32 rows[2][3] = {{1, 2}, {3}};"
        ".global .u32 open[] = {7, 8, 9};"
    )
    x, text, names, parts, real, rows, opened = parsed.variables
    assert x.initial == (Integer(0), Integer(0), Integer(128), Integer(63))
    assert names.initial == (Symbol("$str$1", text, generic=True), Symbol("f"))
    assert parts.initial == (
        Symbol("$str$1", text, mask=0xFF),
        Symbol("$str$1", text, 4, generic=True, mask=0xFF00),
    )
    assert real.initial == Float(0xC004000000000000, 64)
    assert rows.initial == ((Integer(1), Integer(2)), (Integer(3),))
    assert (rows.size, opened.dimensions, opened.size) == (24, (3,), 12)


def test_each_call_sequence_has_parameters_of_its_own() -> None:
    function = entry(
        "{ // callseq 0, 0\n.param .b32 param0;\nst.param.b32 [param0], %r1;\n"
        "call.uni (\nparam0\n)\n,\nf, \n(\nparam0\n)\n;\n} // callseq 0\n"
        "{ .param .b64 param0; st.param.b64 [param0], %rd1; call.uni g, (param0); }",
        ".func (.param .b32 r) f (.param .b32 a) ; .func g (.param .b64 a) ;",
    )
    first, second = function.variables
    assert (first.name, first.size, second.name, second.size) == ("param0$1", 4, "param0$2", 8)
    assert [str(i) for i in function.instructions] == [
        "st.param.b32 [param0$1], %r1;",
        "call.uni (param0$1), f, (param0$1);",
        "st.param.b64 [param0$2], %rd1;",
        "call.uni g, (param0$2);",
    ]


def test_an_indirect_call_names_its_prototype_or_its_targets() -> None:
    function = entry(
        "pr : .callprototype (.param .b32 _) _ (.param .b32 _, .param .align 8 .b8 _[16]);\n"
        "ct : .calltargets f;\n"
        "{ .param .b32 a; call (a), %rd1, (a, a), pr; call (a), %rd1, (a), ct; }",
        ".func (.param .b32 r) f (.param .b32 a) ;",
    )
    prototype, targets = (i.operands[-1] for i in function.instructions)
    assert isinstance(prototype, Prototype)
    assert [p.size for p in prototype.params if isinstance(p, Variable)] == [4, 16]
    assert targets == Targets("ct", (Symbol("f"),))


def test_pragmas_stand_between_a_label_and_its_first_instruction() -> None:
    function = entry('$L__BB0_1:\n.pragma "nounroll";\nbra $L__BB0_1;')
    assert function.labels == (Label("$L__BB0_1", 0),)
    assert [(p.text, p.index) for p in function.pragmas] == [("nounroll", 0)]


def test_two_blocks_may_have_a_label_of_one_name() -> None:
    function = entry("{ L: bra L; }\n{ bra L; L: }\nL: bra L;")
    assert function.labels == (Label("L$1", 0), Label("L$2", 2), Label("L", 2))
    assert [i.operands for i in function.instructions] == [
        (Label("L$1", 0),),
        (Label("L$2", 2),),
        (Label("L", 2),),
    ]


def test_an_inner_block_branches_to_a_label_around_it() -> None:
    assert entry("{ bra OUT; }\nOUT: ret;").instructions[0].operands == (Label("OUT", 1),)


def test_a_label_may_be_the_last_thing_in_a_body() -> None:
    assert entry("bra END;\nEND:").instructions[0].operands == (Label("END", 1),)


def test_inline_assembly_holds_several_statements_a_line_and_shadows_names() -> None:
    assert shown(
        "// begin inline asm\n"
        "{ .reg .pred %p1; .reg .b32 %r1; setp.eq.u32 %p1, %r1, %r2; @%p1 mov.u32 %r2, %r1; }\n"
        "// end inline asm\n"
        "@!%p1 mov.u32 %r1, 0;"
    ) == [
        "setp.eq.u32 %p1$1, %r1$1, %r2;",
        "@%p1$1 mov.u32 %r2, %r1$1;",
        "@!%p1 mov.u32 %r1, 0;",
    ]


def test_numbers_come_in_every_base_and_sign() -> None:
    lines = [
        f"mov.b64 %rd1, {text};"
        for text in ("-1", "0x10", "-16777224", "4294967295U", "017", "0b101", "0XfU", "0", "- 4")
    ]
    values = [i.operands[1] for i in entry("\n".join(lines)).instructions]
    assert values == [Integer(n) for n in (-1, 16, -16777224, 4294967295, 15, 5, 15, 0, -4)]


def test_floats_are_bits_and_decimals_are_doubles() -> None:
    lines = "".join(
        f"mov.f32 %f1, {text};"
        for text in ("0f3F800000", "0d3FF0000000000000", "1.0", "-.5", "1e3")
    )
    values = [i.operands[1] for i in entry(lines).instructions]
    assert values == [
        Float(0x3F800000, 32),
        Float(0x3FF0000000000000, 64),
        Float(0x3FF0000000000000, 64),
        Float(0xBFE0000000000000, 64),
        Float(0x408F400000000000, 64),
    ]


def test_addresses_have_a_base_and_an_offset() -> None:
    function = entry(
        "ld.global.b32 %r1, [%rd3+-32]; ld.global.b32 %r1, [g+16]; ld.global.b32 %r1, [g];"
        "ld.shared.b32 %r1, [%r7]; st.local.b32 [16], -1; ld.global.b32 %r1, g[2];"
        "mov.u64 %rd1, g+8; ld.global.b32 %r1, [%rd1+4+4*2];",
        ".global .u32 g[4];",
    )
    assert [str(i) for i in function.instructions] == [
        "ld.global.b32 %r1, [%rd3+-32];",
        "ld.global.b32 %r1, [g+16];",
        "ld.global.b32 %r1, [g];",
        "ld.shared.b32 %r1, [%r7];",
        "st.local.b32 [16], -1;",
        "ld.global.b32 %r1, [g+8];",
        "mov.u64 %rd1, g+8;",
        "ld.global.b32 %r1, [%rd1+12];",
    ]


def test_sinks_and_pairs_may_have_spaces_around_the_bar() -> None:
    function = entry(
        "shfl.sync.bfly.b32 %r3 | %p3, %r1, 1, 31, -1; elect.sync _|%p1, -1;"
        "mov.b64 {%r1, _}, %rd1; atom.global.add.u32 _, [%rd1], 1;"
    )
    pairs = [i.operands[0] for i in function.instructions]
    assert [type(p) for p in pairs] == [Pair, Pair, Vector, Sink]
    assert [str(p) for p in pairs] == ["%r3|%p3", "_|%p1", "{%r1, _}", "_"]


def test_qualifiers_are_a_set_as_well_as_a_sequence() -> None:
    first, second, third = entry(
        "ld.nc.global.b32 %r1, [%rd1]; ld.b32.global.nc %r1, [%rd1];ld .global .nc.b32 %r1, [%rd1];"
    ).instructions
    assert first.flags == second.flags == third.flags == {"nc", "global", "b32"}
    assert (first.qualifiers, second.qualifiers) == (
        ("nc", "global", "b32"),
        ("b32", "global", "nc"),
    )
    assert (third.mnemonic, third.has("nc", "b32"), third.has("nc", "u32")) == (
        "ld.global.nc.b32",
        True,
        False,
    )


def test_a_space_with_two_colons_is_one_qualifier() -> None:
    (wait,) = entry("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;").instructions
    assert (wait.opcode, wait.qualifiers) == (
        "mbarrier",
        ("try_wait", "parity", "shared::cta", "b64"),
    )


def test_vector_registers_have_parts() -> None:
    function = entry(".reg .v4 .f32 v; mov.f32 v.x, 1.0; add.f32 %f1, v.a, v.w;")
    assert function.registers[0].lanes == 4
    assert function.instructions[0].operands[0] == Component(function.registers[0], "x")
    assert str(function.instructions[1]) == "add.f32 %f1, v.a, v.w;"


def test_an_uninitialised_register_is_legal_text() -> None:
    assert shown("st.global.b32 [%rd1], %r1;") == ["st.global.b32 [%rd1], %r1;"]


def test_tensor_operands_hold_a_map_and_coordinates() -> None:
    (load,) = entry(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%r1], [%rd1, {%r2, %r3}], [%r4+8];"
    ).instructions
    tensor = load.operands[1]
    assert isinstance(tensor, TensorAddress)
    assert [str(i) for i in tensor.items] == ["%rd1", "{%r2, %r3}"]


def test_textures_take_samplers_and_single_coordinates() -> None:
    assert shown(
        "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%r1}]; tex.1d.f32.s32 %f1, [%rd1, %r1];"
    ) == [
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%r1}];",
        "tex.1d.f32.s32 %f1, [%rd1, %r1];",
    ]


def test_a_jump_table_names_labels_that_come_later() -> None:
    function = entry("ts: .branchtargets A, B;\nbrx.idx %r1, ts;\nA: ret;\nB: ret;")
    table = Targets("ts", (Label("A", 1), Label("B", 2)))
    assert function.instructions[0].operands[1] == table
    assert function.tables == (table,)


def test_sixteen_bit_instructions_mix_widths() -> None:
    assert shown("mul.wide.s16 %r1, %rs1, %rs2; shr.u16 %rs1, %rs1, %r1; ld.u8 %rs1, [%rd1];") == [
        "mul.wide.s16 %r1, %rs1, %rs2;",
        "shr.u16 %rs1, %rs1, %r1;",
        "ld.u8 %rs1, [%rd1];",
    ]


def test_video_operands_may_be_negative_and_name_bytes() -> None:
    assert shown("vmad.s32.s32.s32 %r1, %r2.b0, %r3.h1, -%r4;") == [
        "vmad.s32.s32.s32 %r1, %r2.b0, %r3.h1, -%r4;"
    ]


def test_special_registers_have_parts_and_are_no_names_of_ours() -> None:
    assert shown(
        "mov.u32 %r1, %tid.x; mov.u64 %rd1, %clock64; mov.v4.u32 {%r1,%r2,%r3,_}, %ctaid;"
    ) == [
        "mov.u32 %r1, %tid.x;",
        "mov.u64 %rd1, %clock64;",
        "mov.v4.u32 {%r1, %r2, %r3, _}, %ctaid;",
    ]


def test_comments_and_line_marks_are_nothing() -> None:
    assert shown('/* two\nlines */ mov.u32 /* x */ %r1,\n# 3 "x.cu"\n 5; // end') == [
        "mov.u32 %r1, 5;"
    ]
