"""Plain instructions in the native core: every row's cases, bits equal to NumPy's step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pytest
from kernelrig.emu.isa import (
    address,
    bits,
    compare,
    control,
    convert,
    half,
    integer,
    logic,
    mma,
    move,
    warp,
)
from kernelrig.emu.isa import float as floats
from kernelrig.emu.isa.families import instruction_table
from kernelrig.emu.machine.instruction_table import Row, Step
from kernelrig.ptx import Instruction, parse_ptx

from tests.emu.harness import kernel_text, run_ptx
from tests.emu.instructions.case import trial
from tests.emu.instructions.families import FAMILIES
from tests.emu.native.lane_functions import (
    ELECTED,
    Operands,
    differences,
    differences_by_warp,
    has_handler,
)

MODULES = {
    "address": address, "bits": bits, "compare": compare, "control": control, "convert": convert,
    "float": floats, "half": half, "integer": integer, "logic": logic, "mma": mma, "move": move,
    "warp": warp,
}  # fmt: skip

MORE = """
.reg .b8 %b<9>; mov.b32 {%b1, %b2, %b3, %b4}, %r1; mov.b32 %r1, {%b1, %b2, %b3, %b4};
mov.b16 {%b1, %b2}, %h1; mov.b16 %h1, {%b1, %b2}; mov.b8 %b1, %b2;
mov.b64 {%b1, %b2, %b3, %b4, %b5, %b6, %b7, %b8}, %rd1;
mov.b64 %rd1, {%b1, %b2, %b3, %b4, %b5, %b6, %b7, %b8};
bfe.u64 %rd1, %rd2, 3, 9; max.relu.s16x2 %r1, %r2, %r3; mad.wide.u16 %r1, %h1, %h2, %r2;
mad24.lo.u32 %r1, %r2, %r3, %r4; mad24.hi.s32 %r1, %r2, %r3, %r4;
mov.v2.u32 {%r1, %r2}, {%r2, %r3}; mov.v4.b16 {%h1, %h2, %h3, %h4}, {%h4, %h3, %h2, %h1};
mov.b64 {%h1, _, %h3, %h4}, %rd1; mov.b64 %rd1, {%h1, %h2, %h3, %h4}; mov.pred %p1, %p2;
mov.b128 {%rd1, %rd2}, {%rd2, %rd3};
mov.b16 %h1, %h2; mov.b64 %rd1, %rd2; mov.f32 %f1, 0f7FC12345; mov.v2.f64 {%fd1, _}, {%fd2, %fd3};
cvta.shared.u64 %rd1, %rd2; cvta.to.local.u64 %rd1, %rd2; cvta.global.u64 %rd1, %rd2;
isspacep.global %p1, %rd1; isspacep.local %p1, %rd1; getctarank.u64 %r1, %rd1;
mapa.shared::cluster.u32 %r1, %r2, %r3; mapa.u64 %rd1, %rd2, %r3;
getctarank.shared::cluster.u32 %r1, %r2; pmevent 7; setmaxnreg.inc.sync.aligned.u32 40;
shl.b16 %h1, %h2, 3; shr.s16 %h1, %h2, 20; shl.b32 %r1, %r2, 0; shr.u32 %r1, %r2, 32;
shr.s64 %rd1, %rd2, 64; shr.u64 %rd1, %rd2, 63; shr.b16 %h1, %h2, 15; add.s32 %r1, %r2, -7;
and.b32 %r1, %r2, 255; or.pred %p1, %p2, !%p3; max.relu.s16x2 %r1, %r2, %r3;
shfl.sync.up.b32 %r1, %r2, %r3, 0, %r4; shfl.sync.idx.b32 %r1|%p1, %r2, %r3, %r5, %r4;
shfl.sync.bfly.b32 %r1, %r2, 1, 31, %r4; vote.sync.all.pred %p1, %p2, %r4;
vote.sync.any.pred %p1, %p2, %r4; vote.sync.uni.pred %p1, !%p2, %r4;
vote.sync.ballot.b32 %r1, %p2, %r4; match.any.sync.b32 %r1, %r2, %r4;
redux.sync.add.s32 %r1, %r2, %r4;
match.any.sync.b64 %r1, %rd2, %r4; match.all.sync.b32 %r1|%p1, 7, %r4; elect.sync _|%p1, %r4;
match.all.sync.b64 %r1, %rd2, %r4; redux.sync.min.u32 %r1, %r2, %r4; elect.sync %r1|%p1, %r4;
redux.sync.max.s32 %r1, %r2, %r4; redux.sync.xor.b32 %r1, %r2, %r4; nanosleep.u32 20;
redux.sync.min.f32 %f1, %f2, %r4; redux.sync.max.NaN.f32 %f1, %f2, %r4;
redux.sync.max.abs.f32 %f1, %f2, %r4; redux.sync.min.abs.NaN.f32 %f1, %f2, %r4;
trap; brkpt; isspacep.shared %p1, %rd1; fns.b32 %r1, %r2, %r3, %r4;
min.relu.s32 %r1, %r2, %r3; sub.s64 %rd1, 5, %rd2; mul.wide.s32 %rd1, %r1, 4;
bfe.u64 %rd1, %rd2, 60, 9; prmt.b32 %r1, %r2, %r3, 0xBA98; lop3.b32 %r1, %r2, %r3, 7, 0xD8;
"""

INTEGER_WORDS = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_WORDS = (*INTEGER_WORDS, *(f"{word}u" for word in INTEGER_WORDS), "num", "nan")
REGISTERS = {16: "%h", 32: "%r", 64: "%rd"}


def comparisons() -> Iterator[str]:
    """Give setp and set of every relation and type, alone and with a predicate."""
    kinds = [(f"{kind}{bits}", "", bits) for kind in "su" for bits in REGISTERS]
    floats = [("f32", "", 32), ("f32", ".ftz", 32), ("f64", "", 64), ("bf16", "", 16)]
    floats += [("f16", "", 16), ("f16", ".ftz", 16)]
    for words, types in ((INTEGER_WORDS, kinds), (FLOAT_WORDS, floats)):
        for word in words:
            for kind, ftz, width in types:
                a, b = f"{REGISTERS[width]}1", f"{REGISTERS[width]}2"
                yield f"setp.{word}{ftz}.{kind} %p1|%p2, {a}, {b};"
                yield f"setp.{word}.or{ftz}.{kind} %p1, {a}, {b}, !%p3;"
                yield f"set.{word}{ftz}.u32.{kind} %r5, {a}, {b};"
                yield f"set.{word}.and{ftz}.bf16.{kind} %h5, {a}, {b}, %p3;"
    for word in FLOAT_WORDS:
        for kind, ftz in (("bf16x2", ""), ("f16x2", ""), ("f16x2", ".ftz")):
            yield f"setp.{word}{ftz}.{kind} %p1|%p2, %r1, %r2;"
            yield f"setp.{word}.xor{ftz}.{kind} %p1|_, %r1, %r2, %p3;"
            yield f"set.{word}{ftz}.f16x2.{kind} %r5, %r1, %r2;"
            yield f"set.{word}.xor{ftz}.bf16x2.{kind} %r5, %r1, %r2, !%p3;"
    yield from selections()


def selections() -> Iterator[str]:
    for width, register in REGISTERS.items():
        operands = ", ".join(f"{register}{k}" for k in (3, 1, 2))
        yield f"selp.b{width} {operands}, !%p1; slct.u{width}.s32 {operands}, %r4;"
        yield f"slct.s{width}.f32 {operands}, %f4; slct.ftz.b{width}.f32 {operands}, %f4;"


def arithmetic() -> Iterator[str]:
    """Give floats in every mode, with the modifiers that no case has together."""
    for mode in ("rn", "rz", "rm", "rp"):
        for op in ("add", "sub", "mul", "fma"):
            c = ", {}4" if op == "fma" else ""
            for flags in ("", ".ftz", ".sat", ".ftz.sat"):
                yield f"{op}.{mode}{flags}.f32 %f1, %f2, %f3{c.format('%f')};"
            yield f"{op}.{mode}.ftz.f32x2 %rd1, %rd2, %rd3{c.format('%rd')};"
            if op != "mul":
                terms = "%h2, %h3, %f4" if op == "fma" else "%h2, %f3"
                yield f"{op}.{mode}.sat.f32.f16 %f1, {terms}; {op}.{mode}.f32.bf16 %f1, {terms};"
        yield f"div.{mode}.ftz.f32 %f1, %f2, %f3; rcp.{mode}.ftz.f32 %f1, %f2;"
        yield f"sqrt.{mode}.ftz.f32 %f1, %f2;"
        yield f"div.{mode}.f64 %fd1, %fd2, %fd3; rcp.{mode}.f64 %fd1, %fd2;"
        yield f"sqrt.{mode}.f64 %fd1, %fd2;"
    yield "div.approx.ftz.f32 %f1, %f2, %f3; div.full.ftz.f32 %f1, %f2, %f3;"
    yield "sqrt.approx.ftz.f32 %f1, %f2; rsqrt.approx.ftz.f32 %f1, %f2; neg.ftz.f32 %f1, %f2;"
    yield "abs.ftz.f32 %f1, %f2; neg.ftz.f16 %h1, %h2; neg.ftz.f16x2 %r1, %r2;"
    yield "abs.ftz.f16 %h1, %h2; abs.ftz.f16x2 %r1, %r2;"
    for op in ("min", "max"):
        for flags in ("", ".NaN", ".NaN.xorsign.abs", ".xorsign.abs", ".ftz"):
            yield f"{op}{flags}.f32 %f1, %f2, %f3; {op}{flags}.f32 %f1, %f2, %f3, %f4;"
            for kind, register in (
                ("f16", "%h"),
                ("f16x2", "%r"),
                ("bf16", "%h"),
                ("bf16x2", "%r"),
            ):
                if flags != ".ftz" or kind.startswith("f16"):
                    terms = ", ".join(f"{register}{k}" for k in range(1, 5))
                    yield f"{op}{flags}.{kind} {terms};"


def conversions() -> Iterator[str]:
    """Give conversions between all scalar types, and those of pairs that no case has."""
    integers = [f"{kind}{width}" for width in (8, 16, 32, 64) for kind in "us"]
    floats = ("f16", "bf16", "f32", "f64")
    registers = {"f16": "%h", "bf16": "%h", "f32": "%f", "f64": "%fd"}
    registers |= {kind: REGISTERS[max(int(kind[1:]), 16)] for kind in integers}
    for to, of in product(integers, integers):
        for sat in ("", ".sat"):
            yield f"cvt{sat}.{to}.{of} {registers[to]}1, {registers[of]}2;"
    for kind, integer_kind in product(floats, integers):
        yield f"cvt.rpi.{integer_kind}.{kind} {registers[integer_kind]}1, {registers[kind]}2;"
        for mode in ("rn", "rn.sat") if kind == "f64" else ("rn", "rz", "rn.sat"):
            operands = f"{registers[kind]}1, {registers[integer_kind]}2"
            yield f"cvt.{mode}.{kind}.{integer_kind} {operands};"
    for to, of in product(floats, floats):
        narrower = floats.index(to) < floats.index(of) or (to, of) == ("bf16", "f16")
        for flags in (".sat", ".relu") if to in ("f16", "bf16") else (".sat", ""):
            mode = ".rn" if narrower else ""
            yield f"cvt{mode}{flags}.{to}.{of} {registers[to]}1, {registers[of]}2;"
    for to in ("f16", "bf16"):
        yield f"cvt.rz.{to}x2.f32 %r1, %f2, %f3; cvt.rn.satfinite.{to}x2.f32 %r1, %f2, %f3;"


def products() -> Iterator[str]:
    """Give mma.sync of every handler."""
    of_d, of_a, of_b = ("{%r1, %r2, %r3, %r4}", "{%r5, %r6, %r7, %r8}", "{%r9, %r10}")
    for form in ("k16.row.col.f32.f16.f16.f32", "k8.row.col.f32.tf32.tf32.f32",
                 "k32.row.col.f32.e4m3.e5m2.f32", "k32.row.col.s32.s8.u8.s32",
                 "k32.row.col.satfinite.s32.u8.s8.s32"):  # fmt: skip
        yield f"mma.sync.aligned.m16n8{form} {of_d}, {of_a}, {of_b}, {of_d};"
    for form in ("k8.row.col.f32.bf16.bf16.f32", "k4.row.col.f32.tf32.tf32.f32"):
        yield f"mma.sync.aligned.m16n8{form} {of_d}, {{%r5, %r6}}, %r9, {of_d};"
    half = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    yield f"{half} {{%r1, %r2}}, {of_a}, {of_b}, {{%r3, %r4}};"
    yield "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r2}, %r5, %r9, {%r3, %r4};"
    yield "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1, %fd2}, %fd3, %fd4, {%fd5, %fd6};"
    of_b, ordered = "{%r9, %r10, %r11, %r12}", "mma.sp::ordered_metadata.sync.aligned.m16n8"
    for form in ("k32.row.col.f32.f16.f16.f32", "k16.row.col.f32.tf32.tf32.f32",
                 "k64.row.col.f32.e4m3.e5m2.f32", "k64.row.col.s32.s8.u8.s32"):  # fmt: skip
        yield f"{ordered}{form} {of_d}, {of_a}, {of_b}, {of_d}, 0xe4444e44, 0;"
    of_a, of_b = "{%r5, %r6}", "{%r9, %r10}"
    half = half.replace("mma.", "mma.sp.")
    yield f"{half} {{%r1, %r2}}, {of_a}, {of_b}, {{%r3, %r4}}, 0x44448914, 3;"
    yield f"{ordered}k32.row.col.s32.u8.u8.s32 {of_d}, {of_a}, {of_b}, {of_d}, 0x4444ec98, 1;"
    yield "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;"


@cache
def instructions() -> dict[str, tuple[Instruction, Row]]:
    """Return the instructions of all cases, one of each form, by their text."""
    texts = [trial(cases, "sm_100a", "9.0").text for cases in FAMILIES.values()]
    texts.append(
        kernel_text(
            "\n".join((MORE, *comparisons(), *arithmetic(), *conversions(), *products())),
            ["out"],
            "sm_100a",
        )
    )
    table = instruction_table()
    found: dict[str, tuple[Instruction, Row]] = {}
    own = {row: name for name, module in MODULES.items() for row in module.ROWS}
    for text in texts:
        entry = parse_ptx(text, "cases.ptx").function("k")
        for instruction in entry.instructions if entry else ():
            if instruction.opcode == "ret":
                continue
            row = table.find(instruction)
            if row in own:
                operands = ", ".join(map(str, instruction.operands))
                form = re.sub(r"%?\b[a-z]+\d*(?:\$\d+)?\b", "r", operands)
                found.setdefault(f"{instruction.mnemonic} {form}", (instruction, row))
    return found


def steps_of(family: str) -> Iterator[tuple[str, Row, Step]]:
    for text, (instruction, row) in instructions().items():
        if row in MODULES[family].ROWS:
            yield text, row, row.build(instruction)


@pytest.mark.parametrize("family", MODULES)
def test_handlers_give_the_bits_of_the_numpy_step(family: str) -> None:
    machine = run_ptx("", {"out": np.zeros(1, np.uint8)}, block=(256, 1, 1)).ran.machine
    said = []
    for text, _, step in steps_of(family):
        if step.native is None:
            continue
        operands = Operands.of(step).arrays
        found = (
            differences_by_warp(machine, step, operands)
            if step.effect
            else differences(step, operands)
        )
        said += [f"{text}: {found}"] if found else []
    assert said == []


NOT_NATIVE = {
    *(
        f"{op}.{mode}.f64"
        for op in ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt")
        for mode in ("rz", "rm", "rp")
    ),
    *(f"{op}.approx.f32" for op in ("ex2", "lg2", "sin", "cos", "tanh")), "ex2.approx.ftz.f32",
    *(f"{op}.approx.{kind}" for op in ("ex2", "tanh") for kind in ("f16", "f16x2")),
    *(f"{op}.bf16{x2}" for op in ("ex2.approx.ftz", "tanh.approx") for x2 in ("", "x2")),
    "add.cc.u32", "add.cc.u64", "addc.u32", "addc.u64", "addc.cc.u32", "sub.cc.u32", "subc.u32",
    "subc.cc.u32", "mad.lo.cc.u32", "madc.hi.u32",
    "trap", "brkpt", "fns.b32", "isspacep.shared", "setmaxnreg.inc.sync.aligned.u32",
}  # fmt: skip
"""What is left to the Python step: f64 in other modes than to nearest, the functions that NumPy
approximates, the carry flag, and what ends, calls or asks for more of the machine.
"""


def test_what_has_no_native_form_is_known() -> None:
    steps = [(text.split()[0], step) for family in MODULES for text, _, step in steps_of(family)]
    assert {name for name, step in steps if step.native is None} == NOT_NATIVE
    missing = {s.native.name for _, s in steps if s.native and not has_handler(s.native.name)}
    assert missing == set()
    tried = {row.name for family in MODULES for _, row, _ in steps_of(family)}
    assert {row.name for module in MODULES.values() for row in module.ROWS} - tried == {"call"}


@pytest.mark.parametrize("elected", ELECTED)
def test_the_elected_lane_is_that_of_the_numpy_step(elected: str) -> None:
    machine = run_ptx("", {"out": np.zeros(1, np.uint8)}, block=(256, 1, 1)).ran.machine
    machine.elected = elected
    for _, row, step in steps_of("warp"):
        if row.opcode == "elect":
            assert differences_by_warp(machine, step, Operands.of(step).arrays) == ""
