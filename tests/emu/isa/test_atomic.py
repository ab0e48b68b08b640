"""atom and red: every operation, and lanes that share an address."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.observe.registry import OBSERVERS as BY_NAME

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import place, places, thread


@pytest.mark.parametrize(
    ("form", "old", "operand", "new"),
    [
        ("and.b32", 0xF0F0, 0x00FF, 0x00F0),
        ("or.b32", 0xF000, 0x000F, 0xF00F),
        ("xor.b32", 0xFF00, 0x0FF0, 0xF0F0),
        ("exch.b32", 1, 2, 2),
        ("add.u32", 0xFFFFFFFF, 2, 1),
        ("add.s32", 5, 0xFFFFFFFF, 4),
        ("min.s32", 0xFFFFFFFF, 1, 0xFFFFFFFF),
        ("min.u32", 0xFFFFFFFF, 1, 1),
        ("max.s32", 0xFFFFFFFF, 1, 1),
        ("max.u32", 0xFFFFFFFF, 1, 0xFFFFFFFF),
        ("inc.u32", 3, 3, 0),
        ("inc.u32", 2, 3, 3),
        ("dec.u32", 0, 7, 7),
        ("dec.u32", 9, 7, 7),
        ("dec.u32", 7, 7, 6),
        ("add.f32", 0x3F800000, 0x40000000, 0x40400000),  # 1 + 2
        ("add.noftz.f16x2", 0x3C003C00, 0x40003C00, 0x42004000),  # 1 + 2, 1 + 1
        ("add.noftz.bf16x2", 0x3F803F80, 0x40003F80, 0x40404000),
    ],
)
def test_32_bits(form: str, old: int, operand: int, new: int) -> None:
    body = (
        places(a=0, c=0)
        + f"""
        setp.eq.u32 %p1, %r190, 0;
        mov.b32 %r1, {operand};
        @%p1 atom.global.{form} %r2, [%rd1], %r1;
        @%p1 st.global.b32 [%rd2], %r2;
    """
    )
    result = run_ptx(body, {"a": np.array([old], np.uint32), "c": np.zeros(1, np.uint32)})
    assert result.findings == ()
    assert [hex(result.buffers["a"][0]), hex(result.buffers["c"][0])] == [hex(new), hex(old)]


@pytest.mark.parametrize(
    ("form", "old", "operand", "new"),
    [
        ("add.u64", (1 << 64) - 1, 3, 2),
        ("min.s64", (1 << 64) - 1, 3, (1 << 64) - 1),
        ("max.u64", (1 << 64) - 1, 3, (1 << 64) - 1),
        ("and.b64", 0xFF << 40, 0x0F << 40, 0x0F << 40),
        ("exch.b64", 5, 1 << 63, 1 << 63),
        ("add.f64", 0x3FF0000000000000, 0x3FF0000000000000, 0x4000000000000000),
    ],
)
def test_64_bits(form: str, old: int, operand: int, new: int) -> None:
    body = (
        places(a=0)
        + f"""
        setp.eq.u32 %p1, %r190, 0;
        mov.b64 %rd5, {operand};
        @%p1 atom.shared.exch.b64 _, [tile], {old};
        @%p1 atom.shared.{form} %rd6, [tile], %rd5;
        ld.shared.b64 %rd7, [tile];
        st.global.v2.b64 [%rd1], {{%rd6, %rd7}};
    """
    )
    shared = ".shared .align 8 .b8 tile[8];"
    body = body.replace("st.global", "@%p1 st.global")
    result = run_ptx(body, {"a": np.zeros(2, np.uint64)}, shared=shared)
    assert result.buffers["a"].tolist() == [old, new]


@pytest.mark.parametrize(
    ("form", "register", "old", "operand", "new"),
    [
        ("add.noftz.f16", "%h1", 0x0001, 0x0001, 0x0002),  # subnormals stay
        ("add.noftz.bf16", "%h1", 0x3F80, 0x3B80, 0x3F80),  # 1 + 2^-8: a tie goes to even
        ("add.noftz.bf16", "%h1", 0x3F81, 0x3B80, 0x3F82),
        ("add.noftz.f16", "%h1", 0x7C00, 0xFC00, 0x7FFF),  # inf - inf
    ],
)
def test_16_bits(form: str, register: str, old: int, operand: int, new: int) -> None:
    body = (
        places(a=0)
        + f"""
        setp.eq.u32 %p1, %r190, 0;
        mov.b16 {register}, {operand};
        @%p1 red.global.{form} [%rd1], {register};
    """
    )
    result = run_ptx(body, {"a": np.array([old], np.uint16)})
    assert hex(result.buffers["a"][0]) == hex(new)


def test_cas_swaps_where_the_value_is_the_expected_one() -> None:
    body = (
        places(a=2, c=2)
        + """
        mov.b16 %h1, 7;
        mov.b16 %h2, 99;
        atom.global.cas.b16 %h3, [%rd1], %h1, %h2;
        st.global.b16 [%rd2], %h3;
    """
    )
    memory = np.array([7, 8] * 16, np.uint16)
    result = run_ptx(body, {"a": memory, "c": np.zeros(32, np.uint16)})
    assert result.buffers["a"].tolist() == [99, 8] * 16
    assert result.buffers["c"].tolist() == [7, 8] * 16


@pytest.mark.parametrize("number", range(4))
def test_lanes_of_one_address_go_one_after_the_other(number: int) -> None:
    body = places(a=0, c=4) + "atom.add.u32 %r1, [%rd1], 1; st.global.u32 [%rd2], %r1;"
    result = run_ptx(
        body,
        {"a": np.zeros(1, np.uint32), "c": np.zeros(64, np.uint32)},
        block=(64, 1, 1),
        number=number,
    )
    assert result.buffers["a"].tolist() == [64]
    assert sorted(result.buffers["c"].tolist()) == list(range(64))


def test_the_seed_chooses_their_order() -> None:
    body = places(a=0, c=4) + "atom.add.u32 %r1, [%rd1], 1; st.global.u32 [%rd2], %r1;"

    def order(seed: int) -> list[int]:
        buffers = {"a": np.zeros(1, np.uint32), "c": np.zeros(32, np.uint32)}
        found: list[int] = run_ptx(body, buffers, seed=seed).buffers["c"].tolist()
        return found

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_sum_of_f32_flushes_subnormals_in_global_memory_alone() -> None:
    body = (
        places(a=0)
        + """
        setp.eq.u32 %p1, %r190, 0;
        mov.b32 %r1, 1;
        @%p1 red.global.add.f32 [%rd1], %r1;
        @%p1 st.shared.b32 [tile], 1;
        @%p1 red.shared.add.f32 [tile], %r1;
        ld.shared.b32 %r2, [tile];
        @%p1 st.global.b32 [%rd1+4], %r2;
    """
    )
    result = run_ptx(
        body, {"a": np.array([1, 0], np.uint32)}, shared=".shared .align 4 .b8 tile[4];"
    )
    assert result.buffers["a"].tolist() == [0, 2]


@pytest.mark.parametrize("form", ["red.global.add.v4.f32", "red.relaxed.gpu.global.v4.f32.add"])
def test_a_vector_is_an_atomic_an_element(form: str) -> None:
    body = places(a=0) + f"mov.b32 %f1, 0f3F800000; {form} [%rd1], {{%f1, %f1, %f1, %f1}};"
    result = run_ptx(body, {"a": np.array([0, 1, 2, 3], np.float32)})
    assert result.buffers["a"].tolist() == [32.0, 33.0, 34.0, 35.0]


@pytest.mark.parametrize(
    ("form", "old", "operand", "new"),
    [
        ("min.noftz.v2.f16x2", 0x80007E00, 0x00003C00, 0x80003C00),  # -0 < +0; NaN gives way
        ("max.noftz.v2.bf16x2", 0x80003F80, 0x0000BF80, 0x00003F80),
        ("max.noftz.v2.f16x2", 0x7E003C00, 0x7E014000, 0x7FFF4000),  # two NaNs
    ],
)
def test_least_and_greatest_halves(form: str, old: int, operand: int, new: int) -> None:
    body = places(a=0) + f"mov.b32 %r1, {operand}; red.global.{form} [%rd1], {{%r1, %r1}};"
    result = run_ptx(body, {"a": np.array([old, old], np.uint32)})
    assert [hex(word) for word in result.buffers["a"]] == [hex(new)] * 2


def test_a_vector_returns_what_each_element_was() -> None:
    body = (
        thread()
        + place("a", "%rd1")
        + place("c", "%rd2")
        + """
        setp.eq.u32 %p1, %r190, 0;
        mov.b32 %r1, 0x40003C00;
        @%p1 atom.global.add.noftz.v2.f16x2 {%r2, %r3}, [%rd1], {%r1, %r1};
        @%p1 st.global.v2.b32 [%rd2], {%r2, %r3};
    """
    )
    memory = np.array([1, 2, 3, 4], np.float16)
    result = run_ptx(body, {"a": memory, "c": np.zeros(4, np.float16)})
    assert result.buffers["a"].tolist() == [2.0, 4.0, 4.0, 6.0]
    assert result.buffers["c"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_atomic_out_of_bounds_is_reported_and_returns_0() -> None:
    body = (
        places(a=4, c=4)
        + """
        atom.global.add.u32 %r1, [%rd1+4], 1;
        st.global.u32 [%rd2], %r1;
    """
    )
    result = run_ptx(body, {"a": np.full(32, 5, np.uint32), "c": np.zeros(32, np.uint32)})
    assert [f.message.split(":")[0] for f in result.findings] == [
        "atom.add of 4 bytes at 0x7f0000010080"
    ]
    assert result.buffers["c"].tolist() == [*[5] * 31, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("atom.global.add.s64 %rd1, [%rd2], %rd3;", "no .add of .s64"),
        ("atom.global.min.f32 %f1, [%rd2], %f2;", "no .min of .f32"),
        ("red.global.exch.b32 [%rd2], %r1;", "no .exch"),
        ("atom.global.add.f16 %h1, [%rd2], %h2;", ".noftz is missing"),
        ("atom.shared.add.v2.f32 {%f1, %f2}, [%rd2], {%f3, %f4};", "a vector is for .global only"),
        ("red.global.min.noftz.f16x2 [%rd2], %r1;", "for vectors alone"),
        ("red.acquire.gpu.global.add.u32 [%rd2], %r1;", ".relaxed or .release"),
    ],
)
def test_what_ptx_does_not_have_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedKernel) as unsupported:
        run_ptx(text, {"a": np.zeros(1)})
    assert reason in unsupported.value.instructions[0].text


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_exchange_128_bits_one_after_the_other(engine: str, number: int) -> None:
    body = places(a=0, c=16) + """
        .reg .b128 %q<3>;
        cvt.u64.u32 %rd5, %r190; add.u64 %rd6, %rd5, 1000;
        mov.b128 %q0, {%rd5, %rd6};
        atom.global.exch.b128 %q1, [%rd1], %q0;
        st.global.b128 [%rd2], %q1;
    """  # fmt: skip
    buffers = {"a": np.array([77, 1077], np.uint64), "c": np.zeros(128, np.uint64)}
    found = run_ptx(body, buffers, block=(64, 1, 1), number=number, engine=engine)
    assert found.findings == ()
    lower = [int(found.buffers["a"][0]), *found.buffers["c"][::2].tolist()]
    upper = [int(found.buffers["a"][1]), *found.buffers["c"][1::2].tolist()]
    assert sorted(lower) == [*range(64), 77]
    assert upper == [value + 1000 for value in lower]


@pytest.mark.parametrize("engine", ENGINES)
def test_128_bits_are_swapped_where_all_of_them_are_the_expected(engine: str) -> None:
    body = places(a=16, c=16) + """
        .reg .b128 %q<4>;
        mov.b64 %rd5, 7; mov.b64 %rd6, 9; mov.b128 %q0, {%rd5, %rd6}; mov.b128 %q1, {%rd6, %rd5};
        atom.global.cas.b128 %q2, [%rd1], %q0, %q1;
        st.global.b128 [%rd2], %q2;
    """  # fmt: skip
    memory = np.array([7, 9, 7, 8, 8, 9, 0, 0] * 8, np.uint64)
    found = run_ptx(body, {"a": memory, "c": np.zeros(64, np.uint64)}, engine=engine)
    assert found.findings == ()
    assert found.buffers["a"].tolist() == [9, 7, 7, 8, 8, 9, 0, 0] * 8
    assert found.buffers["c"].tolist() == memory.tolist()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("red.global.exch.b128 [%rd1], %q0;", "no .exch of .b128"),
        ("atom.global.add.b128 %q0, [%rd1], %q0;", "no .add of .b128"),
        ("atom.global.exch.b128 %rd5, [%rd1], %q0;", "no register of 128 bits"),
    ],
)
def test_of_128_bits_there_are_only_exch_and_cas(form: str, words: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_ptx(f".reg .b128 %q<2>; {form}", {})
    assert words in "; ".join(r.text for r in refused.value.instructions)


@pytest.mark.parametrize("engine", ENGINES)
def test_128_bits_lie_at_multiples_of_16(engine: str) -> None:
    body = places(a=0) + ".reg .b128 %q<2>; mov.b128 %q0, {%rd1, %rd1};"
    found = run_ptx(
        body + "atom.global.exch.b128 %q1, [%rd1+8], %q0;",
        {"a": np.zeros(4, np.uint64)},
        engine=engine,
    )
    assert {f.kind for f in found.findings} == {"misaligned"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "signal",
    [
        "red.async.release.gpu.global.add.u64 [%rd2], 1;",
        "red.async.mmio.release.sys.global.add.u64 [%rd2], 1;",
        "st.async.release.gpu.global.u64 [%rd2], 1;",
    ],
)
def test_asynchronous_ones_to_global_memory_release(signal: str, engine: str) -> None:
    """CTA 1 waits for CTA 0's signal, and reads what CTA 0 has stored before."""
    body = places(a=0, c=0) + f"""
        mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT;
        setp.ne.u32 %p2, %r190, 0; @%p2 bra END;
        st.global.u64 [%rd1], 7;
        {signal}
        bra END;
    WAIT:
        ld.acquire.gpu.global.u64 %rd5, [%rd2]; setp.eq.u64 %p3, %rd5, 0; @%p3 bra WAIT;
        ld.global.u64 %rd6, [%rd1]; st.global.u64 [%rd1+8], %rd6;
    END:
    """  # fmt: skip
    buffers = {"a": np.zeros(2, np.uint64), "c": np.zeros(1, np.uint64)}
    result = run_ptx(
        body, buffers, grid=(2, 1, 1), block=(1, 1, 1), engine=engine,
        observers=tuple(made() for made in BY_NAME.values()),
    )  # fmt: skip
    assert result.findings == ()
    assert result.buffers["a"].tolist() == [7, 7]


def test_those_forms_take_what_ptx_has() -> None:
    for text in ("red.async.gpu.global.add.f32 [%rd1], %f1;",
                 "st.async.release.gpu.global.v2.b32 [%rd1], {%r1, %r2};"):  # fmt: skip
        with pytest.raises(UnsupportedKernel):
            run_ptx(text, {})
