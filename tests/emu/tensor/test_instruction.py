"""Instruction and matrix descriptors of tcgen05: the worked examples, and what is rejected."""

from __future__ import annotations

import pytest
from kernelrig.emu.tensor.formats import BF16, E4M3, E5M2, F16, TF32
from kernelrig.emu.tensor.instruction_descriptor import Product, doubtful, product
from kernelrig.emu.tensor.operand_layout import (
    BadDescriptor,
    Descriptor,
    check_layout,
    sm90_descriptor,
    sm100_descriptor,
)
from kernelrig.emu.tensor.swizzle import SWIZZLE_128B


@pytest.mark.parametrize(
    ("bits", "kind", "group", "expected"),
    [
        (0x10400010, "f8f6f4", 2, Product(256, 256, E4M3, E4M3, "f32")),
        (0x08400490, "f16", 1, Product(128, 256, BF16, BF16, "f32")),
        (0x08400010, "f16", 1, Product(128, 256, F16, F16, "f32")),
        (0x08400910, "tf32", 1, Product(128, 256, TF32, TF32, "f32")),
        (0x10400490, "f16", 2, Product(256, 256, BF16, BF16, "f32")),
        (0x10400410, "f8f6f4", 2, Product(256, 256, E4M3, E5M2, "f32")),
    ],
)
def test_worked_examples(bits: int, kind: str, group: int, expected: Product) -> None:
    assert product(bits, kind, group) == expected


def test_signed_bytes() -> None:
    found = product(0x084004A0, "i8", 1)
    assert (found.m, found.n, found.a.name, found.b.name, found.d) == (128, 256, "s8", "s8", "s32")


@pytest.mark.parametrize(
    ("bits", "kind", "group", "words"),
    [
        (0x10400014, "f8f6f4", 2, "sparse"),
        (0x10400050, "f8f6f4", 2, "bit 6 is set"),
        (0x10400020, "f8f6f4", 2, "type of D in bits 4-5 is 2"),
        (0x10408290, "f8f6f4", 2, "A is e2m1, which is K-major: clear bit 15"),
        (0x10400010, "f8f6f4", 1, "cta_group::1 takes 64 or 128"),
        (0x10000010, "f8f6f4", 2, "N in bits 17-22 is 0"),
        (0x10420010, "f8f6f4", 2, "N in bits 17-22 is 264"),
        (0x08400480, "f16", 1, "f16 where D is f16"),
        (0x08400090, "f16", 1, "of one type"),
        (0x50400010, "f8f6f4", 2, "maximum shift"),
    ],
)
def test_what_a_field_may_not_say(bits: int, kind: str, group: int, words: str) -> None:
    with pytest.raises(BadDescriptor, match=words):
        product(bits, kind, group)


def test_sources_disagree_on_some_n() -> None:
    assert doubtful(product(0x08000010 | 3 << 17, "f8f6f4", 1), 1).startswith("N is 24")
    assert doubtful(product(0x10400010, "f8f6f4", 2), 2) == ""


def test_the_descriptor_of_the_kernels() -> None:
    expected = Descriptor(0x1400, 0, 1024, SWIZZLE_128B)
    assert sm100_descriptor(0x4000404000000000 | 0x140) == expected
    assert sm90_descriptor(1 << 62 | 0x40 << 32 | 0x140) == expected


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x4000004000000140, "bits 46-48 .* are 0, and must be 1"),
        (0x6000404000000140, "swizzle in bits 61-63 .* is 3"),
        (0x4010404000000140, "bit 52"),
        (0x4002404000000140, "base offset in bits 49-51 .* is 1"),
        (0x400040400000C140, "bits 14-15"),
        (0x4040404000000140, "bits 53-60"),
    ],
)
def test_what_an_sm100_descriptor_may_not_say(bits: int, words: str) -> None:
    with pytest.raises(BadDescriptor, match=words):
        sm100_descriptor(bits)


def test_32_byte_atoms_are_for_mn_major_tf32() -> None:
    atoms = sm100_descriptor(0x2000404000000140).swizzle
    check_layout("A", atoms, TF32, True)
    with pytest.raises(BadDescriptor, match="for MN-major tf32 alone"):
        check_layout("A", atoms, BF16, True)
    with pytest.raises(BadDescriptor, match="needs 128B with 32B atoms"):
        check_layout("A", SWIZZLE_128B, TF32, True)
