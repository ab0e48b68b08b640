"""A register that nothing wrote is a value that nothing wrote: an error where a lane uses it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.observe.initialisation import Init

from tests.emu.harness import ENGINES, Result, run_ptx, run_text
from tests.emu.observe.test_unwritten_values import random_statements
from tests.emu.places import places

HALF = places(c=4) + "setp.lt.u32 %p1, %r190, 8;\n"
"""%p1 holds in lanes 0 to 7; %rd1 is the lane's place in c."""
SOME = "@%p1 bra A; bra B; A: mov.u32 %r5, 3; B: "
STORE = "st.global.u32 [%rd1], %r5;"
FRAGMENTS = "".join(f"mov.b32 %r{n}, 0;" for n in range(10, 20))
MMA = (
    FRAGMENTS + "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    " {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f5, %f6, %f7, %f8};"
)
WMMA = (
    FRAGMENTS + "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r20, %r21, %r22, %r23}, "
    "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, "
    "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, {%r24, %r25, %r26, %r27};"
)
SPARSE = (
    FRAGMENTS + "mov.b32 %r30, 0x44444444;"
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    " {%f1, %f2, %f3, %f4}, {%r10, %r11}, {%r14, %r15}, {%f5, %f6, %f7, %f8}, %r30, 0;"
)
ZERO = "".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(5, 9)) + "".join(
    f"mov.b32 %r{n}, 0;" for n in range(24, 28)
)


def run_it(body: str, engine: str, *, observed: bool = True) -> Result:
    return run_ptx(
        HALF + body, {"c": np.zeros(32, np.uint32)}, engine=engine,
        observers=[Init()] if observed else [],
    )  # fmt: skip


def of(body: str, engine: str) -> tuple[Finding, ...]:
    return run_it(body, engine).findings


WRONG = {
    "a half that is packed and unpacked":
        ("mov.b64 %rd5, {%r190, %r5}; mov.b64 {_, %r6}, %rd5; st.global.u32 [%rd1], %r6;",
         "mov.b64 reads %r5", 32),
    "a high half of a sum": ("mov.u16 %h1, 5; mov.b32 %r6, {%h1, %h2}; add.u32 %r6, %r6, 3; "
                             "st.global.u32 [%rd1], %r6;", "mov.b32 reads %h2", 32),
    "the half that lanes lack which have the other": (
        "@%p1 mov.b64 %rd5, {%r190, %r5}; mov.b64 {_, %r6}, %rd5; @%p1 st.global.u32 [%rd1], %r6;",
        "mov.b64 reads %r5", 8),
    "a half of lanes that have neither": (
        "@%p1 mov.b64 %rd5, {%r190, %r5}; mov.b64 {%r6, _}, %rd5; st.global.u32 [%rd1], %r6;",
        "mov.b64 reads", 24),
    "half of a wide store": ("mov.b64 %rd5, {%r190, %r5}; and.b64 %rd1, %rd1, -8; "
                             "st.global.u64 [%rd1], %rd5;", "mov.b64 reads %r5", 32),
    "a sum": ("add.f32 %f1, %f1, 0f3F800000; st.global.f32 [%rd1], %f1;",
              "add.f32 reads %f1, which nothing has written; its value is used by st.global.f32",
              32),
    "a sum of a loop": ("mov.u32 %r6, 0; AGAIN: add.u32 %r5, %r5, %r6; add.u32 %r6, %r6, 1; "
                        f"setp.lt.u32 %p2, %r6, 3; @%p2 bra AGAIN; {STORE}",
                        "add.u32 reads %r5, which nothing has written; its value is used by", 32),
    "a side of a branch": (SOME + STORE,
                           "st.global.u32 reads %r5, which nothing has written, and uses it", 24),
    "a side of a branch, later": (f"{SOME} add.u32 %r5, %r5, 1; {STORE}",
                                  "add.u32 reads %r5, which nothing has written; its value", 24),
    "what a guard leaves out": (f"@%p1 mov.u32 %r5, 3; {STORE}", "st.global.u32 reads %r5", 24),
    "what a guarded load leaves out": (f"@%p1 ld.global.u32 %r5, [%rd1]; {STORE}",
                                       "st.global.u32 reads %r5", 24),
    "a branch": ("@%p3 bra E; st.global.u32 [%rd1], 1; E:", "bra reads %p3", 32),
    "a guard": ("@%p3 st.global.u32 [%rd1], 1;", "st.global.u32 reads %p3", 32),
    "a table of branches": ("T: .branchtargets A, B; brx.idx %r5, T; A: B:",
                            "brx.idx reads %r5", 32),
    "an address": ("ld.global.u32 %r5, [%rd5];", "ld.global.u32 reads %rd5", 32),
    "a shuffle out of lanes that have none":
        (f"@%p1 mov.u32 %r5, 3; shfl.sync.bfly.b32 %r5, %r5, 16, 31, -1; {STORE}",
         "shfl.sync.bfly.b32 reads %r5", 24),
    "a vote": ("setp.eq.u32 %p2, %r5, 1; vote.sync.any.pred %p3, %p2, -1; "
               "@%p3 st.global.u32 [%rd1], 1;", "setp.eq.u32 reads %r5", 32),
    "a ballot": (
        "@%p1 setp.ne.u32 %p3, %r190, 3; vote.sync.ballot.b32 %r6, %p3, -1; "
        "and.b32 %r6, %r6, 511; st.global.u32 [%rd1], %r6;",
        "vote.sync.ballot.b32 reads %p3",
        32,
    ),
    "a word of a vector": ("st.global.v4.u32 [%rd1], {%r190, %r190, %r190, %r5};",
                           "st.global.v4.u32 reads %r5", 1),
    "a selection of it": (f"selp.u32 %r5, 1, %r6, %p1; {STORE}", "selp.u32 reads %r6", 24),
    "an accumulator of mma": (f"{MMA} st.global.f32 [%rd1], %f4;", "adds to %f5 of C", 32),
    "an accumulator of mma.sp": (f"{SPARSE} st.global.f32 [%rd1], %f4;", "adds to %f5 of C", 32),
    "an accumulator of wmma": (f"{WMMA} st.global.u32 [%rd1], %r23;", "adds to %r24 of C", 32),
    "A of mma": (f"{ZERO}{MMA.replace('mov.b32 %r12, 0;', '')} st.global.f32 [%rd1], %f1;",
                 "multiplies by %r12 of A", 32),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", WRONG)
def test_a_register_that_is_used_before_it_is_written_is_an_error(how: str, engine: str) -> None:
    body, words, lanes = WRONG[how]
    if lanes == 1:  # a store of 16 bytes
        body = "shl.b32 %r9, %r190, 4; setp.eq.u32 %p2, %r190, 0;" + body.replace("st", "@%p2 st")
    errors = [f for f in of(body, engine) if f.rule == "uninitialised-register"]
    assert errors[0].severity == "error"
    assert words in errors[0].message
    assert errors[0].count == (lanes if lanes != 1 else 1)
    assert errors[0].fix


@pytest.mark.parametrize("engine", ENGINES)
def test_an_accumulator_is_one_finding_that_says_what_to_do(engine: str) -> None:
    stores = "".join(f"st.global.f32 [%rd1], %f{n};" for n in range(1, 5))
    (found,) = of(MMA + stores, engine)
    assert found.fix.startswith("set the accumulator to zero before the first product")


RIGHT = {
    "lanes that wrote": f"{SOME} @%p1 {STORE}",
    "lanes that a guard let write": f"@%p1 mov.u32 %r5, 3; @%p1 {STORE}",
    "both sides": f"@%p1 mov.u32 %r5, 3; @!%p1 mov.u32 %r5, 4; {STORE}",
    "a guard that is off": "setp.gt.u32 %p3, %r190, 99; @%p3 st.global.u32 [%rd1], %r5;",
    "a shuffle among lanes that wrote":
        "@%p1 mov.u32 %r5, 3; @%p1 shfl.sync.bfly.b32 %r6, %r5, 1, 31, 255; "
        "@%p1 st.global.u32 [%rd1], %r6;",
    "an accumulator of zeros": f"{ZERO}{MMA} st.global.f32 [%rd1], %f4;",
    "an accumulator of zeros of wmma": f"{ZERO}{WMMA} st.global.u32 [%rd1], %r23;",
    "a C of constants": MMA.replace("{%f5, %f6, %f7, %f8}", "{0f00000000, 0f00000000, "
                                    "0f00000000, 0f00000000}") + "st.global.f32 [%rd1], %f4;",
}  # fmt: skip
UNUSED = {
    "an element that is not taken": "mov.b32 %r6, {%h1, %h2}; mov.b32 %r7, 0x3C003C00; "
        "mov.b32 {%h1, _}, %r7; mov.b32 %r6, {%h1, %h2}; fma.rn.f16x2 %r6, %r6, %r6, %r7; "
        "st.global.u16 [%rd1], %r6;",
    "a sum that goes nowhere": "add.u32 %r6, %r5, 1; mul.lo.u32 %r6, %r6, 3;",
    "rows of a product that nobody takes":  # A's row t / 4
        f"{ZERO}{MMA.replace('mov.b32 %r10, 0;', '@%p1 mov.b32 %r10, 0;')} "
        "@%p1 st.global.f32 [%rd1], %f1;",
    "an accumulator that is never stored": MMA,
    "a sum that only lanes without one store": "@%p1 mov.u32 %r5, 3; add.u32 %r5, %r5, 1; "
        "setp.gt.u32 %p2, %r190, 99; @%p2 " + STORE,
}  # fmt: skip
LEFT_OUT = {
    "a half that is packed and not unpacked":  # as Triton has it
        "mov.b64 %rd5, {%r190, %r5}; mov.b64 {%r6, _}, %rd5; st.global.u32 [%rd1], %r6;",
    "a half of lanes that have it, beside others that have neither":  # as CuTe DSL has it
        "@%p1 mov.b64 %rd5, {%r190, %r5}; mov.b64 {%r6, _}, %rd5; @%p1 st.global.u32 [%rd1], %r6;",
    "a low half of a sum": "mov.u16 %h1, 5; mov.b32 %r6, {%h1, %h2}; add.u32 %r6, %r6, 3; "
        "and.b32 %r5, %r6, 0xFFFF; st.global.u32 [%rd1], %r5;",
    "lanes of a ballot that are masked": "mov.pred %p2, %p1; @%p1 setp.ne.u32 %p3, %r190, 3; "
    "vote.sync.ballot.b32 %r6, %p3, -1; and.b32 %r6, %r6, 255; st.global.u32 [%rd1], %r6;",
    "bytes that a local variable lacks":
        ".local .align 8 .b8 mine[8]; st.local.v2.u32 [mine], {%r190, %r5}; "
        "ld.local.b64 %rd5, [mine]; cvt.u32.u64 %r6, %rd5; st.global.u32 [%rd1], %r6;",
    "the other half of a shift": "mov.b64 %rd5, {%r5, %r190}; shr.u64 %rd5, %rd5, 32; "
        "cvt.u32.u64 %r6, %rd5; st.global.u32 [%rd1], %r6;",
    "a copy": "mov.u32 %r6, %r5;",
    "a selection of the other": f"selp.u32 %r5, 1, %r6, %p1; @%p1 {STORE}",
    "a mask of zeros": f"selp.u32 %r6, -1, 0, %p1; mov.u32 %r7, 0; and.b32 %r5, %r8, %r7; {STORE}",
    "predicates that others decide": "setp.gt.u32 %p2, %r190, 99; setp.eq.u32 %p3, %r5, 5; "
                                     "and.pred %p3, %p2, %p3; @%p3 st.global.u32 [%rd1], 1;",
    "a comparison that another decides": "setp.gt.u32 %p2, %r190, 99; "
        "setp.eq.and.u32 %p3, %r5, 5, %p2; @%p3 st.global.u32 [%rd1], 1;",
    "lanes of a shuffle that nobody takes":
        "@%p1 mov.u32 %r5, 3; shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1; "
        "@%p1 st.global.u32 [%rd1], %r6;",
    "bytes that are not taken": f"mov.u32 %r7, 5; prmt.b32 %r5, %r7, %r6, 0x3210; {STORE}",
    "what a truth table leaves out":
        f"mov.u32 %r7, 5; lop3.b32 %r5, %r7, %r6, %r7, 0xF0; {STORE}",
    "what a selection takes later": "mov.u32 %r6, %r5; add.u32 %r6, %r6, 1; "
        f"selp.u32 %r5, %r6, 7, %p1; @!%p1 {STORE}",
    "a comparison beside one that decides": "setp.gt.u32 %p2, %r190, 99; setp.eq.f32 %p3, %f1, "
        "%f2; and.pred %p3, %p3, %p2; selp.u32 %r5, 1, 2, %p3; " + STORE,
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", RIGHT)
def test_lanes_that_wrote_a_register_may_read_it(how: str, engine: str) -> None:
    assert not of(RIGHT[how], engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", UNUSED)
def test_a_register_that_is_read_and_not_used_is_a_warning(how: str, engine: str) -> None:
    (found,) = of(UNUSED[how], engine)
    assert (found.rule, found.severity) == ("register-not-written", "warning")
    assert found.message.endswith("which nothing has written; nothing uses the value")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", LEFT_OUT)
def test_a_register_that_is_only_copied_or_is_left_out_is_nothing(how: str, engine: str) -> None:
    """Compilers make this of right programs: whoever wrote those can do nothing about it."""
    assert not of(LEFT_OUT[how], engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_without_the_observer_it_is_a_warning(engine: str) -> None:
    (found,) = run_it(SOME + STORE, engine, observed=False).findings
    assert (found.rule, found.severity, found.count) == ("register-not-written", "warning", 24)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_warp_has_its_own_lanes(engine: str) -> None:
    """Warps of one batch: those of odd numbers have written it."""
    body = places(c=4) + "and.b32 %r9, %r190, 32; setp.ne.u32 %p1, %r9, 0;\n" + SOME + STORE
    result = run_ptx(
        body, {"c": np.zeros(128, np.uint32)}, engine=engine, block=(128, 1, 1),
        observers=[Init()],
    )  # fmt: skip
    (found,) = result.findings
    assert (found.severity, found.count) == ("error", 64)


LOCALS = Path(__file__).parents[2] / "data/emu/nvcc-13.0.88-unwritten-locals.ptx"
"""Of unwritten-locals.cu beside it: nvcc -ptx -arch=sm_90a."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("entry", re.findall(r"\.entry (\w+)\(", LOCALS.read_text()))
def test_locals_without_a_value_in_what_nvcc_makes(entry: str, engine: str) -> None:
    result = run_text(
        LOCALS.read_text(), {"out": np.zeros(128, np.uint32), "x": np.arange(32, dtype=np.uint32)},
        entry=entry, engine=engine, observers=[Init()], behind=[(20).to_bytes(4, "little")],
    )  # fmt: skip
    rules = {f.rule for f in result.findings if f.severity == "error"}
    assert rules == ({"uninitialised-register"} if entry.startswith("wrong") else set())


SELECTED = LOCALS.with_name("nvcc-13.0.88-selected-locals.ptx")
"""Of selected-locals.cu beside it."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize("entry", re.findall(r"\.entry (\w+)\(", SELECTED.read_text()))
def test_a_program_that_needs_no_such_value_has_no_warning(entry: str, n: int, engine: str) -> None:
    result = run_text(
        SELECTED.read_text(), {"out": np.zeros(32, np.uint32), "x": np.arange(32, dtype=np.uint32)},
        entry=entry, engine=engine, observers=[Init()], behind=[n.to_bytes(4, "little")],
    )  # fmt: skip
    rules = {f.rule for f in result.findings if f.severity == "error"}
    assert rules == ({"uninitialised-register"} if entry.startswith("wrong") else set())
    if entry.startswith("right"):
        assert not result.findings


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_value_that_follows_from_several_names_three(count: int, engine: str) -> None:
    sums = "".join(
        f"add.u32 %r10, %r10, 1; add.u32 %r10, %r10, %r{11 + n};" for n in range(1, count)
    )
    first, *others = of(f"add.u32 %r10, %r11, 1; {sums} st.global.u32 [%rd1], %r10;", engine)
    assert first.severity == "error"
    named = [f"%r{11 + n}, which nothing has written" in first.message for n in range(count)]
    assert named == [True, True, True, False][:count]
    assert [f.message for f in others] == [
        "add.u32 reads %r14, which nothing has written; nothing uses the value but along with"
        " another such"
    ] * (count - 3 if count > 3 else 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_of_two_values_that_are_used_apart_is_an_error(engine: str) -> None:
    body = "add.u32 %r10, %r11, 1;\nadd.u32 %r13, %r12, 1;\nadd.u32 %r14, %r10, %r13;\n"
    found = of(body + "".join(f"st.global.u32 [%rd1], %r{n};\n" for n in (14, 13)), engine)
    assert [f.severity for f in found] == ["error", "error"]
    assert found[0].message.startswith("add.u32 reads %r11")
    assert "%r12" in found[0].message
    assert "%r11" not in found[1].message


REGISTERS = [*(f"%r{n}" for n in range(10, 20)), *(f"%p{n}" for n in range(10, 15))]


@pytest.mark.parametrize(
    "seed", [n if n < 15 else pytest.param(n, marks=pytest.mark.long) for n in range(300)]
)
def test_what_a_result_follows_from_is_found_and_the_engines_agree(seed: int) -> None:
    """Where the output depends on what a register held at first, there is an error."""
    rng = np.random.default_rng(seed)
    body = random_statements(rng)
    left = [r for r in REGISTERS if rng.random() < 0.4]
    for register in left:  # the statement that sets it
        body = re.sub(rf"(?m)^(mov|setp)\S+ {register}, [^;]*;$", "", body, count=1)
    tile = "mov.u32 %r2, tile; shl.b32 %r1, %r190, 2; add.u32 %r2, %r2, %r1;"
    tile += "".join(f"st.shared.u32 [%r2+{at}], %r190;" for at in range(0, 1024, 128))

    def run_with(first: str, engine: str) -> Result:
        return run_ptx(
            f"{places(c=4)}{tile} {first}\n{body}", {"c": np.zeros(32, np.uint32)}, engine=engine,
            shared=".shared .align 16 .b8 tile[1280];", observers=[Init()],
        )  # fmt: skip

    def junk(seed: int) -> str:
        drawn = np.random.default_rng(seed)
        words = {r: int(drawn.integers(0, 100)) for r in left}
        return "".join(
            f"setp.lt.u32 {r}, %r190, {word % 33};" if r[1] == "p" else f"mov.u32 {r}, {word};"
            for r, word in words.items()
        )

    outputs = {run_with(junk(n), ENGINES[1]).buffers["c"].tobytes() for n in range(3)}
    runs = [run_with("", engine) for engine in ENGINES]
    if len(outputs) > 1:
        assert all("uninitialised" in one.kinds for one in runs), body
    assert runs[0].findings == runs[1].findings


TILE = (
    ".shared .align 4 .b8 keys[256]; shl.b32 %r2, %r190, 2; mov.u32 %r20, keys; "
    "add.u32 %r2, %r2, %r20; st.shared.u32 [%r2], 7; st.shared.u32 [%r2+128], %r5; bar.sync 0; "
    "ld.shared.u32 %r3, [%r2+128]; mov.u32 %r6, 1; setp.ne.u32 %p2, %r3, 1; @%p2 bra OVER; "
    "add.u32 %r6, %r6, 1; OVER: "
)
"""A key behind the last says whether an index grows."""
INDEX = "shl.b32 %r7, %r6, 2; add.u32 %r7, %r7, %r20; ld.shared.u32 %r8, [%r7]; "
CHOSEN = {
    "a branch": "setp.ge.u32 %p3, %r6, 1; @%p3 bra END; st.global.u32 [%rd1], 1; END: ",
    "a branch on one of several keys": INDEX + "setp.eq.u32 %p3, %r8, 7; @%p3 bra END; "
                                       "st.global.u32 [%rd1], 1; END: ",
    "a branch that masks the key": "setp.ge.u32 %p3, %r6, 1; setp.eq.u32 %p4, %r3, 9; "
                                   "or.pred %p3, %p3, %p4; @%p3 bra END; "
                                   "st.global.u32 [%rd1], 1; END: ",
    "a store": "st.global.u32 [%rd1], %r6;",
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", CHOSEN)
def test_what_a_tail_of_a_tile_only_chose_is_a_warning(how: str, engine: str) -> None:
    (found,) = of(TILE + CHOSEN[how], engine)
    assert (found.rule, found.severity, found.count) == ("uninitialised-choice", "warning", 32)
    assert "; it decides a value that " in found.message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "how",
    ["st.global.u32 [%rd1], %r3;", "@%p2 st.global.u32 [%rd1], 1;",
     "setp.ge.u32 %p3, %r6, 3; setp.eq.u32 %p4, %r3, 9; or.pred %p3, %p3, %p4; "
     "@%p3 st.global.u32 [%rd1], 1;"],
)  # fmt: skip
def test_a_tail_of_a_tile_that_is_used_itself_is_an_error(how: str, engine: str) -> None:
    errors = [f for f in of(TILE + how, engine) if f.severity == "error"]
    assert [f.rule for f in errors] == ["uninitialised-register"]
