"""The tensors computed here are those of kernel/tensor.cuh, and of the formats' definitions."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from kernelrig.model import Dtype, InputTensor, OutputTensor, Pattern, Values
from kernelrig.proc import run_process
from kernelrig.reference.tensors import STORED, Elements, decoded, encoded, input_elements

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/inputs/write_tensor.cpp"
PATTERNS = (Pattern.CONSTANT, Pattern.INTEGER, Pattern.RANDOM)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("tensor") / "write_tensor")


def made(dtype: Dtype, values: Values, low: float, high: float) -> InputTensor:
    return InputTensor("x", dtype, (7, 3, 50), values, low, high)


@pytest.mark.parametrize("dtype", list(Dtype))
def test_the_bits_are_those_of_the_harness(dtype: Dtype, program: Path, tmp_path: Path) -> None:
    ends = (0.0, 200.0) if dtype.is_unsigned else (-3.7, 100.3)
    for number, (values, pattern) in enumerate(product(Values, PATTERNS)):
        tensor = made(dtype, values, *ends)
        file = tmp_path / f"{number}.npy"
        words = (program, file, str(PATTERNS.index(pattern)), "77", str(tensor))
        assert run_process(words).exit_code == 0
        written = np.load(file)
        assert (written.shape, written.dtype) == (tensor.shape, STORED[dtype])
        assert np.array_equal(written, input_elements(tensor, pattern, 77), equal_nan=True)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("x:f32:8", "expected NAME:DTYPE:EXTENTxEXTENT:VALUES:LOW:HIGH"),
        ("1x:f32:8:uniform:0:1", "'1x' is no name: letters, digits and '_'"),
        (
            "x:f8:8:uniform:0:1",
            f"unknown dtype 'f8': {', '.join(list(Dtype)[:-1])} or u64",
        ),
        ("x:f32:8x0:uniform:0:1", "'8x0' is no shape of 1 element to 1 TiB, as 8x1000"),
        (
            "x:f32:99999999x99999999x9:uniform:0:1",
            "'99999999x99999999x9' is no shape of 1 element to 1 TiB, as 8x1000",
        ),
        ("x:f32:8:odd:0:1", "unknown values 'odd': uniform, uneven, ramp or zeros"),
        ("x:f32:8:uniform:0:inf", "'0:inf' are no two numbers"),
    ],
)
def test_a_flag_that_is_no_tensor_is_refused(
    flag: str, said: str, program: Path, tmp_path: Path
) -> None:
    done = run_process([program, tmp_path / "x.npy", "2", "0", flag])
    assert (done.exit_code, done.stdout) == (2, f"{said}\n")


def test_values_differ_as_their_names_say() -> None:
    def of(values: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        tensor = InputTensor("x", Dtype.F32, (64, 251), values, 1.0, 2.0)
        return decoded(input_elements(tensor, Pattern.RANDOM, 3), Dtype.F32)

    uniform, uneven, ramp = of(Values.UNIFORM), of(Values.UNEVEN), of(Values.RAMP)
    assert 1.0 <= uniform.min() < 1.01 < 1.99 < uniform.max() < 2.0
    assert uneven.min() < 2.0**-14
    assert set(np.unique(np.round(np.log2(uniform / uneven)))) == set(range(16))
    assert np.array_equal(ramp[0], 1.0 + np.arange(251) / 256)
    assert np.array_equal(ramp[0], ramp[63])
    assert not of(Values.ZEROS).any()


def test_values_of_64_bits_have_more_digits_than_a_float() -> None:
    def of(dtype: Dtype, high: float) -> Elements:
        tensor = InputTensor("x", dtype, (1000,), Values.UNIFORM, 0.0, high)
        return input_elements(tensor, Pattern.RANDOM, 3)

    doubles, whole = of(Dtype.F64, 1.0), of(Dtype.U64, 2.0**52)
    assert np.count_nonzero(doubles == doubles.astype(np.float32)) < 10
    assert 400 < np.count_nonzero(whole & np.uint64(1)) < 600
    assert whole.max() > 2**51


@pytest.mark.parametrize("dtype", [d for d in Dtype if d.is_float])
def test_every_number_of_a_type_is_itself_and_halves_go_to_even(dtype: Dtype) -> None:
    size = STORED[dtype].itemsize
    # of larger types the upper 16 bits
    bits = np.arange(1 << min(16, 8 * size), dtype=np.uint64) << np.uint64(8 * max(size - 2, 0))
    codes = bits.astype(f"<u{size}").view(STORED[dtype])
    numbers = decoded(codes, dtype)
    finite = np.isfinite(numbers)
    back = encoded(numbers[finite], dtype)
    assert np.array_equal(back.view(f"<u{size}"), codes[finite].view(f"<u{size}"))
    if size > 2:
        return
    rising = np.unique(numbers[finite])
    middles = (rising[1:] + rising[:-1]) / 2
    even = decoded(encoded(middles, dtype), dtype)
    odd_bits = encoded(even, dtype).view(f"<u{size}") & 1
    assert not odd_bits.any()
    # just off the middle: a double that FP32 would round to the tie
    above = decoded(encoded(np.nextafter(middles, np.inf), dtype), dtype)
    below = decoded(encoded(np.nextafter(middles, -np.inf), dtype), dtype)
    assert np.array_equal(above, rising[1:])
    assert np.array_equal(below, rising[:-1])


def test_flags_name_all_of_a_tensor() -> None:
    assert str(made(Dtype.BF16, Values.RAMP, -2.0, 0.1)) == "x:bf16:7x3x50:ramp:-2.0:0.1"
    assert str(OutputTensor("y", Dtype.I8, (3,), 0.0, 0.0)) == "y:i8:3"
