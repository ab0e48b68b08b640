"""Values of memory that nothing wrote are followed until something uses them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.machine_state import Hooks, Machine
from kernelrig.emu.observe.initialisation import Init

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import places

TILE = ".shared .align 16 .b8 tile[1024];"
START = (
    places(c=4)
    + """
    shl.b32 %r1, %r190, 2;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    setp.lt.u32 %p1, %r190, 8;
    @%p1 st.shared.u32 [%r2], %r190;
"""
)
"""Lanes 0 to 7 have written their word of the tile, at %r2; %rd1 is the place of each in c."""
LOAD = "ld.shared.u32 %r3, [%r2];\n"


def run_it(body: str, engine: str, observers: tuple[Hooks, ...] = ()) -> Result:
    return run_ptx(
        START + body, {"c": np.zeros(32, np.uint32)}, shared=TILE,
        observers=[Init(), *observers], engine=engine,
    )  # fmt: skip


def of(body: str, engine: str) -> tuple[Finding, ...]:
    return run_it(body, engine).findings


HALVES = (
    "setp.lt.u32 %p3, %r190, 16; mov.u32 %r4, %r3; @%p3 and.b32 %r4, %r3, 0xFFFF0000; "
    "and.b32 %r5, %r4, 0xFFFF; "
)
"""Of %r4 lanes 8 to 15 hold the upper half of such a value, lanes 16 to 31 all of it."""

USED = {
    "a store": ("st.global.u32 [%rd1], %r3;", 24),
    "a sum of it": ("add.u32 %r4, %r3, 1; st.global.u32 [%rd1], %r4;", 24),
    "half of it": ("and.b32 %r4, %r3, 255; st.global.u32 [%rd1], %r4;", 24),
    "an address": ("cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd5, %rd1; "
                   "ld.global.u32 %r4, [%rd5];", 24),
    "an address of shared memory": ("and.b32 %r4, %r3, 12; add.u32 %r4, %r4, %r2; "
                                    "ld.shared.u32 %r5, [%r4];", 24),
    "a branch": ("setp.eq.u32 %p2, %r3, 5; @%p2 bra OVER; st.global.u32 [%rd1], 1; OVER:", 24),
    "a guard": ("setp.eq.u32 %p2, %r3, 5; @%p2 st.global.u32 [%rd1], 1;", 24),
    "what a guard sets": ("mov.u32 %r4, 1; setp.eq.u32 %p2, %r3, 5; @%p2 mov.u32 %r4, 2; "
                          "st.global.u32 [%rd1], %r4;", 24),
    "a selection by it": ("setp.eq.u32 %p2, %r3, 5; selp.u32 %r4, 1, 2, %p2; "
                          "st.global.u32 [%rd1], %r4;", 24),
    "an atomic": ("red.global.add.u32 [%rd1], %r3;", 24),
    "a shuffle": ("shfl.sync.bfly.b32 %r4, %r3, 16, 31, -1; st.global.u32 [%rd1], %r4;", 24),
    "a vote": ("setp.eq.u32 %p2, %r3, 5; vote.sync.any.pred %p3, %p2, -1; "
               "@%p3 st.global.u32 [%rd1], 1;", 32),
    "shared memory": ("st.shared.u32 [%r2+512], %r3; ld.shared.u32 %r4, [%r2+512]; "
                      "st.global.u32 [%rd1], %r4;", 24),
    "local memory": (".local .align 4 .b8 mine[8]; st.local.u32 [mine], %r3; "
                     "ld.local.u32 %r4, [mine]; st.global.u32 [%rd1], %r4;", 24),
    "a loop": ("mov.u32 %r5, 0; mov.u32 %r6, 0; AGAIN: add.u32 %r6, %r6, %r3; add.u32 %r5, %r5, 1;"
               " setp.lt.u32 %p2, %r5, 3; @%p2 bra AGAIN; st.global.u32 [%rd1], %r6;", 24),
    "both ways of a branch": ("and.b32 %r9, %r190, 1; setp.eq.u32 %p2, %r9, 1; @%p2 bra ODD; "
                              "add.u32 %r4, %r3, 1; bra DONE; ODD: add.u32 %r4, %r3, 2; DONE: "
                              "st.global.u32 [%rd1], %r4;", 24),
    "what a branch jumps over": ("mov.u32 %r4, 1; setp.ne.u32 %p2, %r3, 1; @%p2 bra OVER; "
                                 "mov.u32 %r4, 2; OVER: st.global.u32 [%rd1], %r4;", 24),
    "what both ways of it write": ("setp.ne.u32 %p2, %r3, 1; @%p2 bra ODD; mov.u32 %r4, 2; "
                                   "bra DONE; ODD: mov.u32 %r4, 1; DONE: "
                                   "st.global.u32 [%rd1], %r4;", 24),
    "an index that a branch decides": ("mov.u32 %r5, tile; setp.ne.u32 %p2, %r3, 1; @%p2 bra OVER; "
                                       "add.u32 %r5, %r5, 4; OVER: ld.shared.u32 %r4, [%r5]; "
                                       "st.global.u32 [%rd1], %r4;", 24),
    "a loop that it ends": ("mov.u32 %r4, 0; AGAIN: add.u32 %r4, %r4, 1; "
                            "setp.lt.u32 %p2, %r4, %r3; setp.lt.and.u32 %p2, %r4, 9, %p2; "
                            "@%p2 bra AGAIN; st.global.u32 [%rd1], %r4;", 24),
    "a store behind a branch": ("setp.ne.u32 %p2, %r3, 1; @%p2 bra OVER; "
                                "st.global.u32 [%rd1], 4; OVER: ", 24),
    "a sum out of which another is taken": ("add.u32 %r4, %r190, %r3; mul.lo.u32 %r5, %r3, 3; "
                                            "sub.u32 %r5, %r4, %r5; st.global.u32 [%rd1], %r5;",
                                            24),
    "an exclusive sum, of one lane more": (
        "shfl.sync.up.b32 %r5|%p2, %r3, 1, 0, -1; mov.u32 %r4, %r3; @%p2 add.u32 %r4, %r5, %r3; "
        "sub.u32 %r4, %r4, %r3; setp.lt.u32 %p3, %r190, 10; @%p3 st.global.u32 [%rd1], %r4;", 1),
    "half of it, of lanes that hold all of it too": (
        HALVES + "setp.lt.u32 %p3, %r190, 20; @%p3 st.global.u32 [%rd1], %r5;", 4),
    "the half that some lanes hold":
        (HALVES + "@%p3 st.global.u32 [%rd1], %r4;", 8),
    "bytes that some lanes hold and others do not": (
        HALVES + "st.shared.u32 [%r2+512], %r4; ld.shared.u16 %h1, [%r2+512]; cvt.u32.u16 %r6, %h1;"
        " setp.lt.u32 %p3, %r190, 20; @%p3 st.global.u32 [%rd1], %r6;", 4),
    "an atomic of shared memory": ("atom.shared.add.u32 %r4, [tile+1000], %r3;", 24),
    "a copy": ("st.shared.u32 [%r2+512], %r3; fence.proxy.async.shared::cta; bar.sync 0; "
               "setp.eq.u32 %p2, %r190, 0; "
               "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile+512], 128; "
               "@%p2 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group 0;", 0),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", USED)
def test_a_value_that_is_used_is_an_error_at_the_read(how: str, engine: str) -> None:
    body, lanes = USED[how]
    errors = [f for f in of(LOAD + body, engine) if f.severity == "error"]
    found = next(f for f in errors if f.rule == "uninitialised-shared-read")
    assert found.message.startswith("read of 4 bytes of shared memory: nothing wrote tile + 0x20")
    assert "; its value is used by " in found.message
    assert found.count == lanes or not lanes
    assert found.ptx_line == 1 + START.count("\n") + _line_of_start()


def _line_of_start() -> int:
    (found,) = of(LOAD, ENGINES[0])
    return found.ptx_line - START.count("\n") - 1


UNUSED = {
    "nothing": "",
    "what is overwritten": "mov.u32 %r3, 1; st.global.u32 [%rd1], %r3;",
    "a sum that goes nowhere": "add.u32 %r4, %r3, 1; mul.lo.u32 %r4, %r4, 3;",
    "lanes that wrote": "@%p1 st.global.u32 [%rd1], %r3;",
    "a selection of the others": "selp.u32 %r4, %r3, 0, %p1; st.global.u32 [%rd1], %r4;",
    "a mask of zeros": "selp.u32 %r4, -1, 0, %p1; and.b32 %r5, %r3, %r4; "
    "st.global.u32 [%rd1], %r5;",
    "a shuffle among those that wrote": "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; "
    "@%p1 st.global.u32 [%rd1], %r4;",
    "a tail staged in shared memory": "st.shared.u32 [%r2+512], %r3; bar.sync 0; "
    "ld.shared.u32 %r4, [%r2+512]; @%p1 st.global.u32 [%rd1], %r4;",
    "shared memory that is overwritten": "st.shared.u32 [%r2+512], %r3; "
    "st.shared.u32 [%r2+512], 7; ld.shared.u32 %r4, [%r2+512]; st.global.u32 [%rd1], %r4;",
    "the half that some lanes do not hold": HALVES + "@%p3 st.global.u32 [%rd1], %r5;",
    "bytes that some lanes do not hold": HALVES + "st.shared.u32 [%r2+512], %r4; "
    "ld.shared.u16 %h1, [%r2+512]; cvt.u32.u16 %r6, %h1; @%p3 st.global.u32 [%rd1], %r6;",
    "a branch of a tail that only computes": "mov.u32 %r4, 0; setp.eq.u32 %p2, %r3, 0; "
    "@%p2 bra OVER; ld.global.u32 %r4, [%rd1]; OVER: @%p1 st.global.u32 [%rd1], %r4;",
    "what is computed behind the branch": "mov.u32 %r4, 0; setp.eq.u32 %p2, %r3, 0; "
    "@%p2 bra OVER; mov.u32 %r5, 2; OVER: mov.u32 %r5, 1; st.global.u32 [%rd1], %r5;",
    "a sum out of which it is taken again": "add.u32 %r4, %r190, %r3; sub.u32 %r5, %r4, %r3; "
    "st.global.u32 [%rd1], %r5;",
    "an exclusive sum, the inclusive one less its own": "shfl.sync.up.b32 %r5|%p2, %r3, 1, 0, -1; "
    "mov.u32 %r4, %r3; @%p2 add.u32 %r4, %r5, %r3; sub.u32 %r4, %r4, %r3; "
    "setp.lt.u32 %p3, %r190, 9; @%p3 st.global.u32 [%rd1], %r4;",
    "predicates that others decide": "setp.eq.u32 %p2, %r3, 5; and.pred %p3, %p1, %p2; "
    "@%p3 st.global.u32 [%rd1], 1;",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", UNUSED)
def test_a_value_that_nobody_uses_is_a_warning(how: str, engine: str) -> None:
    (found,) = of(LOAD + UNUSED[how], engine)
    assert (found.rule, found.severity) == ("uninitialised-not-used", "warning")
    assert re.search(r": nothing wrote [^;]+; nothing uses the value$", found.message)
    assert found.count == 24


@pytest.mark.parametrize("engine", ENGINES)
def test_each_register_of_a_vector_has_its_own_bytes(engine: str) -> None:
    """Words 0 to 7 were written: of lane 1's four all, of lane 2's none."""
    body = """
        shl.b32 %r1, %r190, 3; mov.u32 %r9, tile; add.u32 %r9, %r9, %r1;
        setp.eq.u32 %p2, %r190, 2; @%p2 st.shared.u32 [%r9+20], 3;
        and.b32 %r9, %r9, -16;
        ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r9+16];
        setp.eq.u32 %p2, %r190, 2;
    """
    for register, errors in (("%f1", 1), ("%f2", 0), ("%f3", 1), ("%f4", 1)):
        found = of(f"{body} @%p2 st.global.f32 [%rd1], {register};", engine)
        assert [f.severity for f in found] == ["error" if errors else "warning"], register


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("word", "severity"), [(0, "warning"), (1, "error"), (2, "warning")])
def test_constants_of_a_vector_have_their_places(word: int, severity: str, engine: str) -> None:
    body = f"""{LOAD}
        st.shared.v4.b32 [tile+512], {{%r190, %r3, 7, 7}};
        ld.shared.b32 %r4, [tile+{512 + 4 * word}]; st.global.u32 [%rd1], %r4;
    """
    (found,) = of(body, engine)
    assert found.severity == severity


MATRIX = """
    shl.b32 %r1, %r190, 4; mov.u32 %r9, tile; add.u32 %r9, %r9, %r1;
    setp.lt.u32 %p2, %r190, 5; @%p2 st.shared.v4.b32 [%r9], {%r190, %r190, %r190, %r190};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r4}}, [%r9];
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("trans", "wrong"),
    [("", 0xFFF00000), (".trans", 0xCCCCCCCC)],
)
def test_rows_of_a_matrix_go_to_the_lanes_that_hold_them(
    trans: str, wrong: int, engine: str
) -> None:
    """Rows 0 to 4 were written; with .trans a lane has two rows, and of 4 and 5 only one."""
    body = MATRIX.replace("{trans}", trans).replace("{{", "{").replace("}}", "}")
    (found,) = of(f"{body} st.global.u32 [%rd1], %r4;", engine)
    assert (found.severity, found.lanes) == ("error", wrong)
    kept = 0xFFFFFFFF & ~wrong
    body = f"{body} shr.u32 %r5, {kept:#x}, %r190; and.b32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, 1;"
    (found,) = of(f"{body} @%p3 st.global.u32 [%rd1], %r4;", engine)
    assert found.severity == "warning"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_a_matrix_that_is_stored_and_loaded_again_is_the_same(trans: str, engine: str) -> None:
    store = f"""
        add.u32 %r9, %r9, 256;
        stmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 [%r9], {{%r4}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r5}}, [%r9];
    """
    body = MATRIX.replace("{trans}", "").replace("{{", "{").replace("}}", "}") + store
    (found,) = of(f"{body} st.global.u32 [%rd1], %r5;", engine)
    assert (found.severity, found.lanes) == ("error", 0xFFF00000)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_end_of_a_matrix_row_is_no_padding(engine: str) -> None:
    some = "@!%p2 st.shared.v2.b32 [%r9], {%r190, %r190}; @!%p2 st.shared.b32 [%r9+8], %r190;"
    body = MATRIX.replace("{trans}", "").replace("{{", "{").replace("}}", "}")
    body = body.replace("bar.sync 0;", f"setp.lt.u32 %p3, %r190, 8; {some} bar.sync 0;")
    (found,) = of(f"{body} st.global.u32 [%rd1], %r4;", engine)
    assert (found.rule, found.lanes) == ("uninitialised-shared-read", 0x88800000)


PRODUCT = """
    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
    mov.b32 %r14, 0; mov.b32 %r15, 0;
    {some}
    mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {{%f1, %f2, %f3, %f4}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f1, %f2, %f3, %f4}};
"""
FIRST = "@%p1 mov.b32 {register}, 0; @!%p1 mov.b32 {register}, %r3;"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("register", "wrong"),
    [
        ("%r10", (0xFFFFFF00, 0xFFFFFF00, 0, 0)),  # rows 2 to 7
        ("%r11", (0, 0, 0xFFFFFF00, 0xFFFFFF00)),  # rows 10 to 15
        ("%r14", (0xEEEEEEEE, 0xEEEEEEEE, 0xEEEEEEEE, 0xEEEEEEEE)),  # columns 2 to 7
    ],
)
def test_a_product_of_a_warp_spoils_rows_by_a_and_columns_by_b(
    register: str, wrong: tuple[int, ...], engine: str
) -> None:
    body = LOAD + PRODUCT.format(some=FIRST.format(register=register))
    for number, lanes in enumerate(wrong):
        (found,) = of(f"{body} st.global.f32 [%rd1], %f{number + 1};", engine)
        expected = ("error", lanes) if lanes else ("warning", 0xFFFFFF00)
        assert (found.severity, found.lanes) == expected, number


class Junk(Hooks):
    """Fills the memory that nothing has written."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def started(self, machine: Machine) -> None:
        rng = np.random.default_rng(self.seed)
        shared = machine.memory.shared.bytes
        shared[:] = rng.integers(0, 256, len(shared), np.uint8)


def random_statements(rng: np.random.Generator) -> str:
    """Return statements on %r10 to %r19 and %p10 to %p14, some of which are loaded."""

    def reg() -> str:
        return f"%r{rng.integers(10, 20)}"

    def pred() -> str:
        return f"%p{rng.integers(10, 15)}"

    said = [f"mov.u32 %r{n}, {rng.integers(0, 99)};" for n in range(10, 20)]
    said += [f"ld.shared.u32 {reg()}, [%r2+{4 * rng.integers(0, 9)}];" for _ in range(3)]
    said += [f"setp.lt.u32 %p{n}, %r190, {rng.integers(0, 33)};" for n in range(10, 15)]
    for label in range(rng.integers(6, 24)):
        at = 4 * int(rng.integers(0, 24))
        guard = f"@{rng.choice(['', '!'])}{pred()} " if rng.random() < 0.3 else ""
        forms = [
            f"{guard}ld.shared.u32 {reg()}, [%r2+{at}];",
            f"{guard}st.shared.u32 [%r2+{at}], {reg()};",
            f"{guard}ld.shared.s8 {reg()}, [%r2+{at + rng.integers(0, 4)}];",
            f"{guard}st.shared.u16 [%r2+{at + 2 * rng.integers(0, 2)}], {reg()};",
            f"{guard}add.u32 {reg()}, {reg()}, {reg()};",
            f"{guard}and.b32 {reg()}, {reg()}, {reg()};",
            f"{guard}or.b32 {reg()}, {reg()}, {reg()};",
            f"{guard}mov.u32 {reg()}, {rng.integers(0, 9)};",
            f"selp.b32 {reg()}, {reg()}, {reg()}, {pred()};",
            f"setp.lt.u32 {pred()}, {reg()}, {reg()};",
            f"and.pred {pred()}, {pred()}, {pred()};",
            f"shfl.sync.bfly.b32 {reg()}, {reg()}, {1 << rng.integers(0, 5)}, 31, -1;",
            f"{guard}lop3.b32 {reg()}, {reg()}, {reg()}, {reg()}, {rng.integers(0, 256)};",
            f"{guard}prmt.b32 {reg()}, {reg()}, {reg()}, {rng.integers(0, 1 << 16)};",
            f"{guard}shl.b32 {reg()}, {reg()}, {rng.integers(0, 33)};",
            f"{guard}shr.s32 {reg()}, {reg()}, {rng.integers(0, 33)};",
            f"{guard}bfe.s32 {reg()}, {reg()}, {rng.integers(0, 32)}, {rng.integers(0, 32)};",
            f"{guard}bfi.b32 {reg()}, {reg()}, {reg()}, {rng.integers(0, 32)}, 8;",
            f"mov.b64 %rd9, {{{reg()}, {reg()}}}; shr.u64 %rd9, %rd9, {rng.integers(0, 64)}; "
            f"mov.b64 {{{reg()}, {reg()}}}, %rd9;",
            f"cvt.s16.s32 %h9, {reg()}; cvt.s32.s16 {reg()}, %h9;",
            f"mul.lo.u32 {reg()}, {reg()}, {reg()};",
            f"fma.rn.f16x2 {reg()}, {reg()}, {reg()}, {reg()};",
            f"setp.lt.and.u32 {pred()}, {reg()}, {reg()}, {pred()};",
            f"vote.sync.ballot.b32 {reg()}, {pred()}, -1;",
            f"setp.lt.u32 %p9, %r190, {rng.integers(0, 33)}; @%p9 bra L{label}; "
            f"add.u32 {reg()}, {reg()}, 3; L{label}: bar.warp.sync -1;",
        ]
        said.append(str(rng.choice(forms)))
    said += [f"@{pred()} st.global.u32 [%rd1], {reg()};" for _ in range(2)]
    return "\n".join(said)


@pytest.mark.parametrize(
    "seed", [n if n < 10 else pytest.param(n, marks=pytest.mark.long) for n in range(200)]
)
def test_what_a_result_follows_from_is_found_and_the_engines_agree(seed: int) -> None:
    """Where the output depends on what lay in memory, there is an error."""
    body = random_statements(np.random.default_rng(seed))
    runs = [run_it(body, engine, (Junk(s),)) for engine in ENGINES for s in (1, 2)]
    outputs = {one.buffers["c"].tobytes() for one in runs}
    if len(outputs) > 1:
        assert all("uninitialised" in one.kinds for one in runs), body
    for numpy_, native in zip(runs[:2], runs[2:], strict=True):
        assert numpy_.findings == native.findings
