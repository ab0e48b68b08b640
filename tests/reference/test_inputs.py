"""The outputs computed here are those of kernel/inputs.cuh, and a lost product shows in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kernelrig.model import Pattern
from kernelrig.proc import run_process
from kernelrig.reference.expected import Expected, OutputRows, expected, recompute
from kernelrig.reference.inputs import (
    E4M3_VALUES,
    Doubles,
    Indices,
    bf16_bits,
    bf16_sum,
    bf16_ulp,
    bf16_values,
    combined_bits,
    e4m3_codes,
    fnv1a64,
    hash_at,
    operand_codes,
    splitmix64,
    table_values,
    uniform_at,
    unit_at,
)

from tests.kernel.host_program import compile_for_host

DATA = Path(__file__).parents[1] / "data/inputs"
SOURCE = DATA / "print_inputs.cpp"
PATTERNS = (Pattern.CONSTANT, Pattern.INTEGER, Pattern.RANDOM)
N, K, ROWS_PER_IMAGE = 768, 768, 196

ON_H200 = json.loads((DATA / "580.159.04-h200-check-images7.json").read_text())
"""Outputs that the first kernel wrote on an H200, by pattern: `[row, column, BF16 bits]`."""


@pytest.fixture(scope="module")
def print_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that prints what kernel/inputs.cuh makes, compiled without CUDA."""
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("inputs") / "print_inputs")


def at(index: int) -> Indices:
    return np.array([index], np.int64)


def places(count: int, rows: int) -> tuple[Indices, Indices]:
    """Return rows and columns of `count` outputs, drawn from the hash."""
    drawn = unit_at("places", 0, np.arange(2 * count)).astype(np.float64)
    scaled = np.floor(drawn.reshape(2, count) * np.array([[rows], [N]])).astype(np.int64)
    return scaled[0], scaled[1]


def again(
    sampled: list[tuple[int, int, int]], pattern: Pattern, seed: int = 0, accum_tol: float = 1e-5
) -> list[str]:
    found = recompute(
        sampled,
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=N,
        k=K,
        rows_per_image=ROWS_PER_IMAGE,
    )
    return [str(one) for one in found]


def test_the_hash_is_the_one_of_the_format() -> None:
    assert int(splitmix64(np.array([0], np.uint64))[0]) == 0xE220A8397B1DCDAF
    assert fnv1a64("") == 0xCBF29CE484222325
    assert [f"{h:x}" for h in hash_at("A", 0, np.arange(2))] == [
        "5c71ee7a3c53bb57",
        "6bb84de1e8ec4df5",
    ]
    assert float(unit_at("A", 0, at(0))[0]) == 0x5C71EE / 2**24


def test_every_committed_vector_is_met() -> None:
    vectors = json.loads((DATA / "vectors.json").read_text())
    for name, seed, index, hashed, *values in vectors["elements"]:
        assert int(hash_at(name, seed, at(index))[0]) == int(hashed, 16)
        for pattern, code, table in zip(PATTERNS, values[::2], values[1::2], strict=True):
            assert int(operand_codes(pattern, name, seed, at(index))[0]) == code
            bits = table_values(pattern, name, seed, at(index)).view(np.uint32)
            assert f"{int(bits[0]):08x}" == table
    for seed, position, column, *words in vectors["combined"]:
        for pattern, word in zip(PATTERNS, words, strict=True):
            assert int(combined_bits(pattern, seed, at(position), at(column), N)[0]) == word


def test_the_header_compiled_for_the_host_prints_the_committed_vectors(print_inputs: Path) -> None:
    printed = run_process([print_inputs, "vectors"])
    assert printed.stdout == (DATA / "vectors.json").read_text()


def test_the_header_rounds_as_numpy_does(print_inputs: Path) -> None:
    text = run_process([print_inputs, "rounding"]).stdout
    every_bf16 = bf16_values(np.arange(65536, dtype=np.uint16))
    codes = e4m3_codes(every_bf16).astype(np.uint8).tobytes()
    indices = np.arange(65536)
    words = (hash_at("rounding", 0, indices) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    wild = words.view(np.float32)
    small = uniform_at("rounding", 0, indices, -2.0, 2.0)
    added = bf16_bits(unit_at("rounding", 0, indices + 65536))
    parts = [
        codes.hex(),
        *(f"{w:04x}{c:02x}" for w, c in zip(bf16_bits(wild), e4m3_codes(wild), strict=True)),
        *(
            f"{w:04x}{c:02x}"
            for w, c in zip(bf16_sum(bf16_bits(small), added), e4m3_codes(small), strict=True)
        ),
        *(f"{value:08x}" for value in E4M3_VALUES.view(np.uint32) & np.uint32(0xFFFFFFFF)),
    ]
    same = text == "".join(parts) + "\n"
    assert same, "pytest would compare a megabyte of hex for minutes"


def test_e4m3_rounds_to_the_nearest_and_on_a_tie_to_even() -> None:
    values = np.array(
        [1.5, 1.0625, 1.1875, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, -(2.0**-11), 448, 1e9, np.nan],
        np.float32,
    )
    wanted = [0x3C, 0x38, 0x3A, 0x01, 0x00, 0x02, 0x80, 0x7E, 0x7E, 0x7F]
    assert e4m3_codes(values).tolist() == wanted


def test_e4m3_rounds_at_each_midpoint_and_beside_it() -> None:
    values = E4M3_VALUES[:127]
    middle = (values[:-1] + values[1:]) / np.float32(2)
    below, above = np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))
    codes = np.arange(126)
    assert e4m3_codes(below).tolist() == codes.tolist()
    assert e4m3_codes(above).tolist() == (codes + 1).tolist()
    assert e4m3_codes(middle).tolist() == (codes + codes % 2).tolist()


def test_bf16_rounds_to_the_nearest_and_on_a_tie_to_even() -> None:
    assert bf16_values(bf16_bits(np.array([1725.75, 257.0, 259.0], np.float32))).tolist() == [
        1728.0,
        256.0,
        260.0,
    ]
    assert bf16_bits(np.array([np.nan, -0.0], np.float32)).tolist() == [0x7FFF, 0x8000]
    assert bf16_ulp(np.array([1.0, 255.0, 256.0])).tolist() == [2.0**-7, 1.0, 2.0]


def test_the_patterns_keep_to_their_values() -> None:
    indices = np.arange(100_000)
    codes = operand_codes(Pattern.INTEGER, "A", 0, indices)
    assert sorted(set(E4M3_VALUES[codes].tolist())) == [-1.0, 0.0, 1.0]
    table = table_values(Pattern.INTEGER, "bias", 0, indices)
    assert sorted(set(table.tolist())) == [float(v) for v in range(-8, 9)]
    random = E4M3_VALUES[operand_codes(Pattern.RANDOM, "A", 0, indices)]
    assert (random.min(), random.max()) == (-2.0, 2.0)


def test_the_golden_case_is_1728_everywhere() -> None:
    rows, columns = places(50, 928_256)
    bits = int(bf16_bits(np.array([1728.0], np.float32))[0])
    sampled = [(int(r), int(c), bits) for r, c in zip(rows, columns, strict=True)]
    assert again(sampled, Pattern.CONSTANT) == []
    assert again([(0, 0, bits + 1)], Pattern.CONSTANT) == ["row 0, column 0: got 1736, wanted 1728"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_an_h200_wrote_is_what_is_computed_here(pattern: Pattern) -> None:
    sampled = [(row, column, bits) for row, column, bits in ON_H200[pattern.value]]
    assert len(sampled) == 1261
    assert again(sampled, pattern) == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_changed_bit_a_nan_and_another_seed_are_seen(pattern: Pattern) -> None:
    row, column, bits = ON_H200[pattern.value][700]
    assert len(again([(row, column, bits ^ 4)], pattern)) == 1
    assert len(again([(row, column, 0xFFFF), (row, column, 0xFF81)], pattern)) == 2
    if pattern is not Pattern.CONSTANT:
        sampled = [tuple(place) for place in ON_H200[pattern.value][:200]]
        assert len(again(sampled, pattern, seed=1)) > 150


def test_swapped_columns_show_in_all_but_the_golden_case() -> None:
    rows, columns = places(200, 1372)
    wrong = []
    for pattern in PATTERNS:
        neighbours = wanted_at(rows, columns ^ 1, pattern, 0, 1e-5).bits
        swapped = zip(rows.tolist(), columns.tolist(), neighbours.tolist(), strict=True)
        wrong.append(len(again(list(swapped), pattern)))
    assert wrong == [0, 196, 199]  # of 200: four pairs are equal, one within the bound


@pytest.mark.parametrize("accum_tol", [1e-5, 5e-4], ids=["FP32", "13-bit accumulation"])
def test_the_bound_is_tight_for_any_dropped_k_step(accum_tol: float) -> None:
    """One K step of 32 is dropped: at least 90% of the outputs are out of the bound, each step."""
    rows, columns = places(2000, 1372)
    wanted = wanted_at(rows, columns, Pattern.RANDOM, 3, accum_tol)
    products = operands("A", rows) * operands("B", columns)
    comb = combined_bits(Pattern.RANDOM, 3, rows % ROWS_PER_IMAGE, columns, N)
    acc = products.sum(axis=1)
    assert not wanted.wrong(output(acc, comb)).any()
    for step in range(0, K, 32):
        short = acc - products[:, step : step + 32].sum(axis=1)
        assert wanted.wrong(output(short, comb)).mean() >= 0.9


def test_two_ties_in_a_row_are_no_fault_of_the_kernel() -> None:
    """Seen on an H200: acc on a BF16 tie, the sum with comb on a tie again, two ulp from ours."""
    for row, column, bits, seed in ((797517, 381, 0x4278, 0), (292505, 697, 0xC201, 2)):
        assert again([(row, column, bits)], Pattern.RANDOM, seed) == []
        assert len(again([(row, column, bits + 1)], Pattern.RANDOM, seed)) == 1


@pytest.mark.parametrize("pattern", list(Pattern))
def test_all_outputs_of_rows_are_those_of_each_by_itself(pattern: Pattern) -> None:
    first, count = ROWS_PER_IMAGE - 1, 3
    rows, columns = np.divmod(np.arange(first * N, (first + count) * N), N)
    each = wanted_at(rows, columns, pattern, 4, 1e-5)
    made = OutputRows(
        pattern=pattern, seed=4, accum_tol=1e-5, n=N, k=K, rows_per_image=ROWS_PER_IMAGE
    )
    whole = made.rows(first, count)
    for name in ("bits", "bound", "lowest", "highest"):
        assert np.array_equal(getattr(whole, name), getattr(each, name)), name


def wanted_at(
    rows: Indices, columns: Indices, pattern: Pattern, seed: int, accum_tol: float
) -> Expected:
    return expected(
        rows,
        columns,
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=N,
        k=K,
        rows_per_image=ROWS_PER_IMAGE,
    )


def operands(name: str, lines: Indices) -> Doubles:
    codes = operand_codes(Pattern.RANDOM, name, 3, lines[:, None] * K + np.arange(K))
    return E4M3_VALUES[codes].astype(np.float64)


def output(acc: Doubles, comb: np.typing.NDArray[np.uint16]) -> np.typing.NDArray[np.uint16]:
    return bf16_sum(bf16_bits(acc.astype(np.float32)), comb)
