"""Products of operands with a tail that nothing wrote: what follows from it must not be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernelrig.emu.observe.initialisation import Init

from tests.emu import test_wgmma
from tests.emu.boxes import SHARED, START, image, map_of
from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.isa.test_tensor_copy import DRAIN, FILL
from tests.emu.tensor_harness import descriptor_90, descriptor_100
from tests.emu.test_tcgen05 import AGAIN, BF16, SIZE, load_columns, run_pair, text_of

FIRST, SECOND = 0x400, 0x1400
"""Where shared memory begins, and 4096 bytes on: what lies there last is not wholly copied."""
MMA = """
    mov.b64 %rd10, {a:#x}; mov.b64 %rd11, {b:#x}; mov.b32 %r60, {bits:#x};
    tcgen05.mma.cta_group::1.kind::f16 [%r50], %rd10, %rd11, %r60, 0;
"""
WARP_0 = "setp.lt.u32 %p20, %r1, 32;\n"
EVERYONE = "setp.eq.u32 %p20, 0, 0;\n"
NEVER = "tensor memory that was never written"


def storing(who: str, columns: int = 32) -> str:
    """All load their lane's columns, and threads of %p20 store them."""
    return who + load_columns(columns).replace("st.global", "@%p20 st.global")


def copied(text: str, size: int) -> str:
    """Copy only the first bytes of shared memory."""
    return text.replace(f"setp.lt.u32 %p100, %r104, {SIZE};", f"setp.lt.u32 %p100, %r104, {size};")


def run_it(text: str, engine: str, number: int = 0) -> Result:
    memory = np.zeros((1, SIZE), np.uint8)
    return run_pair(text, memory, 1, observers=[Init()], engine=engine, number=number)


def check(result: Result, rule: str, lanes: int = 0, words: str = "") -> None:
    """See that there is one finding: an error of `rule`, or, for "", the warning of no use."""
    (found,) = result.findings
    assert found.severity == ("error" if rule else "warning"), found.message
    assert found.rule == (rule or "uninitialised-not-used")
    assert words in found.message
    if rule:
        assert "; its value is used by st.global.b32" in found.message
        assert found.count == lanes


def of_shared(a: int, b: int, after: str, size: int, again: str = "") -> str:
    body = MMA.format(a=descriptor_100(a, 0, 1024, 2), b=descriptor_100(b, 0, 1024, 2), bits=BF16)
    return copied(text_of(1, body + again, after), size)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("who", "rule"), [(WARP_0, ""), (EVERYONE, "uninitialised-shared-read")])
@pytest.mark.parametrize("again", ["", AGAIN.format(group=1, kind="f16")])
def test_rows_of_d_follow_from_rows_of_a(who: str, rule: str, again: str, engine: str) -> None:
    """B, then 64 of A's 128 rows are copied: of D those rows are right."""
    text = of_shared(SECOND, FIRST, storing(who), 0x1000 + 64 * 128, again)
    result = run_it(text, engine)
    assert len(result.findings) == 1 + bool(again)  # the second product reads the same rows
    first, *_ = result.findings
    check(replace(result, findings=(first,)), rule, 32 * 64, "kind::f16 reads shared memory")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("columns", "rule"), [(16, ""), (32, "uninitialised-shared-read")])
def test_columns_of_d_follow_from_rows_of_b(columns: int, rule: str, engine: str) -> None:
    """A, then 16 of B's 32 rows are copied."""
    text = of_shared(FIRST, FIRST + 0x4000, storing(EVERYONE, columns), 0x4000 + 16 * 128)
    check(run_it(text, engine), rule, 16 * 128)


STORE_A = """
    setp.ge.u32 %p21, %r1, 32; @%p21 bra STORED;
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51+64], {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};
    tcgen05.wait::st.sync.aligned;
STORED:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    or.b32 %r9, %r1, %r2;
"""


def of_words(after: str) -> str:
    body = MMA.format(a=0, b=descriptor_100(FIRST, 0, 1024, 2), bits=BF16)
    text = text_of(1, body.replace("%rd10, %rd11", "[%r50+64], %rd11"), after)
    return text.replace("or.b32 %r9, %r1, %r2;", STORE_A)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("who", "rule"), [(WARP_0, ""), (EVERYONE, "uninitialised-operand")])
def test_rows_of_a_in_tensor_memory_that_one_warp_alone_writes(
    who: str, rule: str, engine: str
) -> None:
    """So CUTLASS's attention for one query has it."""
    for number in range(3):
        result = run_it(of_words(storing(who)), engine, number)
        check(result, rule, 32 * 96, f"{NEVER}: 768 of 1024 words, lane 32, column 64 first")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("who", "rule"), [(WARP_0, ""), (EVERYONE, "uninitialised-operand")])
def test_a_value_goes_through_tensor_memory(who: str, rule: str, engine: str) -> None:
    """As where sums are scaled: loaded, multiplied, stored and loaded again."""
    again = """
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%r51+3];
        tcgen05.wait::ld.sync.aligned;
        add.f32 %d0, %d0, %d0;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51+128], {%d0};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%r51+128];
        tcgen05.wait::ld.sync.aligned;
        @%p20 st.global.b32 [%rd1], %d0;
    """
    check(run_it(of_words(who + again), engine), rule, 96)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rule", "stores"), [("uninitialised-tensor-load", 16), ("", 0)])
def test_a_load_of_words_that_hold_nothing_is_wrong_where_they_are_used(
    rule: str, stores: int, engine: str
) -> None:
    after = load_columns(16, "%r51+100")
    if not stores:
        after = after[: after.index("st.global")]
    result = run_it(of_shared(FIRST, FIRST + 0x4000, after, 0x5000), engine)
    check(result, rule, 128 * stores, NEVER)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("a", "b", "size", "registers", "threads", "wrong"),
    [
        (0x1400, 0x400, 0x1000 + 32 * 128, 16, 128, 16 * 64),  # 32 of 64 rows of A are copied
        (0x1400, 0x400, 0x1000 + 32 * 128, 16, 64, 0),
        (0x400, 0x2400, 0x2000 + 16 * 128, 8, 128, 0),  # 16 of 32 rows of B
        (0x400, 0x2400, 0x2000 + 16 * 128, 9, 128, 128),
    ],
)
def test_a_product_of_a_warpgroup_spoils_rows_by_a_and_columns_by_b(
    a: int, b: int, size: int, registers: int, threads: int, wrong: int, engine: str
) -> None:
    """The first registers of the first threads are stored, and `wrong` of them count."""
    of_a, of_b = descriptor_90(a, 0, 1024, 1), descriptor_90(b, 0, 1024, 1)
    text = test_wgmma.product_text(
        32, "m64n32k16.f32.bf16.bf16", "%rd10, %rd11, 0, 1, 1, 0, 0", registers=16,
        before=f"mov.b64 %rd10, {of_a:#x}; mov.b64 %rd11, {of_b:#x};"
        f" setp.lt.u32 %p20, %r1, {threads};",
    )  # fmt: skip
    whole = test_wgmma.SIZE
    text = text.replace(f"setp.lt.u32 %p100, %r104, {whole};", f"setp.lt.u32 %p100, %r104, {size};")
    for number in range(registers, 16):
        text = text.replace(f"st.global.b32 [%rd1+{4 * number}], %d{number};", "")
    text = text.replace("st.global", "@%p20 st.global")
    memory = np.zeros(whole, np.uint8)
    result = test_wgmma.run_product(text, memory, 16, observers=[Init()], engine=engine)
    (found,) = result.findings
    rule = "uninitialised-shared-read" if wrong else "uninitialised-not-used"
    assert found.rule == rule, found.message
    assert found.message.startswith("wgmma.mma_async.m64n32k16.f32.bf16.bf16 reads shared memory")
    assert found.count == (wrong or 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize(("rows", "kinds"), [(5, []), (4, ["uninitialised"])])
def test_of_a_box_that_reaches_out_of_its_tensor_the_part_inside_counts(
    rows: int, kinds: list[str], swizzle: str, engine: str
) -> None:
    """Of 8 rows of 32 words the tensor has room for 5 rows of 28; the first rows are written."""
    target = np.zeros((10, 60), np.uint32)
    store = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {32, 5}], [%r2];\n"
    some = f"setp.lt.u32 %p21, %r0, {8 * rows}; and.b32 %r9, %r0, 7; "
    if swizzle == "none":  # else the words that are not needed lie elsewhere in each row
        some += "setp.lt.and.u32 %p21, %r9, 7, %p21; "
    fill = FILL.replace("st.shared", f"{some}@%p21 st.shared")
    buffers: dict[str, np.ndarray] = {
        "a": target,
        "map": image(map_of(target, "u32", (32, 8), swizzle=swizzle)),
    }
    result = run_ptx(
        START + fill + store + DRAIN, buffers, shared=SHARED, block=(64, 1, 1), engine=engine,
        observers=[Init()],
    )  # fmt: skip
    assert result.kinds == kinds


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("to", "kinds"), [(56, []), (52, ["uninitialised"]), (0, ["uninitialised"])]
)
def test_a_box_narrower_than_its_swizzle_counts_from_where_its_rows_begin(
    to: int, kinds: list[str], engine: str
) -> None:
    """Rows of 64 bytes in a pattern of 128, from its sixth row on: they lie in the second halves.

    The tensor has room for two of the four: chunks 44 to 47 and 52 to 55 of 16 bytes.
    """
    target = np.zeros((2, 16), np.uint32)
    store = "add.u32 %r2, %r2, 640; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
    store += " [%rd1, {0, 0}], [%r2];\n"
    some = f"setp.ge.u32 %p21, %r0, 44; setp.lt.and.u32 %p21, %r0, {to}, %p21; @%p21 st.shared"
    buffers: dict[str, np.ndarray] = {
        "a": target,
        "map": image(map_of(target, "u32", (16, 4), swizzle="128B")),
    }
    text = START + FILL.replace("st.shared", some) + store + DRAIN
    result = run_ptx(
        text, buffers, shared=SHARED, block=(64, 1, 1), engine=engine, observers=[Init()]
    )
    assert result.kinds == kinds
