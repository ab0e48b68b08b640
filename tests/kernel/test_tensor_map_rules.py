"""A tensor map that the driver would reject is rejected with a sentence of map and field."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.proc import run_process

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/kernel/print_refusal.cpp"
CUBE = "dims=768,16,32 strides_bytes=768,12288 box=64,4,4 element_strides=1,1,1"

ALLOWED = (
    "",
    "dims=4294967296,1 strides_bytes=1099511627760",
    "dims=768 strides_bytes= box=128 element_strides=1",
    "dims=16,2,2,2,2 strides_bytes=16,32,64,128 box=16,2,2,2,2 element_strides=1,1,1,1,1",
    "swizzle=none box=256,256",
    "swizzle=32B box=32,1",
    "swizzle=64B box=64,1",
    "swizzle=128B_ATOM_32B",
    "swizzle=128B_ATOM_64B",
    "dtype=bf16 box=64,32 oob_fill=nan",
    "dtype=f64 box=16,1 element_strides=1,8",
    "element_strides=4,1",
    "l2_promotion=256B",
    f"{CUBE} interleave=16B",
    f"{CUBE} interleave=32B swizzle=32B",
)

REFUSED = {
    "dtype=e4m3": (
        "dtype is 'e4m3': expected one of u8, u16, u32, i32, u64, i64, f16, f32, f64, bf16"
    ),
    "swizzle=16B": "swizzle is '16B': expected one of none, 32B, 64B, 128B, 128B_ATOM_32B,"
    " 128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B",
    "interleave=64B": "interleave is '64B': expected one of none, 16B, 32B",
    "l2_promotion=32B": "l2_promotion is '32B': expected one of none, 64B, 128B, 256B",
    "oob_fill=ones": "oob_fill is 'ones': expected one of zeros, nan",
    "oob_fill=nan": "oob_fill is nan: u8 has none, expected zeros",
    "dims=": "dims has 0 entries: 1 to 5 are allowed",
    "dims=1,1,1,1,1,1": "dims has 6 entries: 1 to 5 are allowed",
    "dims=768,0": "dims[1] is 0: 1 to 4294967296 is allowed",
    "dims=4294967297,1": "dims[0] is 4294967297: 1 to 4294967296 is allowed",
    "strides_bytes=": "strides_bytes has 0 entries: the rank of dims asks for 1",
    "strides_bytes=776": "strides_bytes[0] is 776: expected a multiple of 16 below 2^40",
    "strides_bytes=1099511627776": (
        "strides_bytes[0] is 1099511627776: expected a multiple of 16 below 2^40"
    ),
    f"{CUBE} interleave=32B swizzle=32B strides_bytes=784,12544": (
        "strides_bytes[0] is 784: expected a multiple of 32 below 2^40"
    ),
    "box=128": "box has 1 entries: the rank of dims asks for 2",
    "box=128,0": "box[1] is 0: 1 to 256 is allowed",
    "box=128,257": "box[1] is 257: 1 to 256 is allowed",
    "box=120,128": "box[0] is 120 of u8, 120 bytes: expected a multiple of 16 bytes",
    f"{CUBE} interleave=16B box=8,4,4": (
        "box[0] is 8 of u8, 8 bytes: expected a multiple of 16 bytes"
    ),
    "box=144,128": "box[0] is 144 of u8, 144 bytes: at most 128 fit the swizzle",
    "dtype=bf16 box=128,128": "box[0] is 128 of bf16, 256 bytes: at most 128 fit the swizzle",
    "swizzle=64B": "box[0] is 128 of u8, 128 bytes: at most 64 fit the swizzle",
    "swizzle=128B_ATOM_32B_FLIP_8B box=144,1": (
        "box[0] is 144 of u8, 144 bytes: at most 128 fit the swizzle"
    ),
    "swizzle=32B box=48,1": "box[0] is 48 of u8, 48 bytes: at most 32 fit the swizzle",
    "element_strides=1": "element_strides has 1 entries: the rank of dims asks for 2",
    "element_strides=9,1": "element_strides[0] is 9: 1 to 8 is allowed",
    "element_strides=1,0": "element_strides[1] is 0: 1 to 8 is allowed",
    "element_strides=1,9": "element_strides[1] is 9: 1 to 8 is allowed",
    f"{CUBE} interleave=16B element_strides=9,1,1": "element_strides[0] is 9: 1 to 8 is allowed",
    "interleave=16B": "interleave is 16B with 2 dims: expected at least 3",
    f"{CUBE} interleave=32B": "swizzle is 128B: interleave 32B goes with swizzle 32B alone",
    "address=4104": "the address of A is 8 past a multiple of 16 bytes: expected a multiple",
    f"{CUBE} interleave=32B swizzle=32B address=4112": (
        "the address of A is 16 past a multiple of 32 bytes: expected a multiple"
    ),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("rules") / "print_refusal")


@pytest.mark.parametrize("fields", ALLOWED)
def test_what_the_driver_takes_is_not_refused(fields: str, program: Path) -> None:
    assert run_process([program, *fields.split()]).stdout == "\n"


@pytest.mark.parametrize("fields", REFUSED)
def test_what_the_driver_would_refuse_is_told_by_map_and_field(fields: str, program: Path) -> None:
    said = run_process([program, *fields.split()])
    assert said.stdout == f"tensor map A_map: {REFUSED[fields]}\n"
