"""A user's reference decides what is right; what it does wrong is one sentence, never a pass."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.errors import ConfigError
from kernelrig.model import Dtype, InputTensor, Operation, OutputTensor, Pattern, Values
from kernelrig.reference import wanted_outputs as module
from kernelrig.reference.tensors import Elements, encoded, input_elements
from kernelrig.reference.wanted_outputs import Wanted, wanted_outputs

HEAD = "import numpy as np\ndef reference(case, inputs):\n"
X = InputTensor("x", Dtype.BF16, (4, 5), Values.UNIFORM, -2.0, 2.0)


def operation(*outputs: OutputTensor) -> Operation:
    return Operation((("rows", 4), ("scale", 3)), (X,), outputs, 0, ())


def output(
    name: str = "y", dtype: Dtype = Dtype.F32, *, max_abs: float = 0.0, max_rel: float = 0.0
) -> OutputTensor:
    return OutputTensor(name, dtype, (4, 5), max_abs, max_rel)


def refused(body: str, *outputs: OutputTensor) -> str:
    with pytest.raises(ConfigError) as caught:
        wanted_outputs(operation(*outputs or (output(),)), HEAD + body, "r.py", Pattern.RANDOM, 1)
    return caught.value.message


def test_it_gets_the_numbers_of_the_case_and_exactly_what_the_kernel_reads() -> None:
    body = '    return case.scale * inputs["x"] + case["rows"]\n'
    wanted = wanted_outputs(operation(output()), HEAD + body, "r.py", Pattern.INTEGER, 1)["y"]
    assert set(np.unique(wanted.values)) == {1.0, 4.0, 7.0}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return inputs['y']\n", "line 3: KeyError: 'y'"),
        ("    return 1 / 0\n", "line 3: ZeroDivisionError: division by zero"),
        ("    return inputs['x'].T\n", "y has the shape [5, 4], wanted [4, 5]"),
        ("    return np.where(inputs['x'] > 9, 1, np.nan)\n", "y[0, 0] is nan, which is no number"),
        ("    return {'z': inputs['x']}\n", "it returned z, not y (y)"),
        (
            "    return 'many'\n",
            "y is no array of numbers: could not convert string to float",
        ),
        ("    return inputs['x'] * 1e39\n", "which no f32 can be"),
        ("    return 1 +\n", "line 3: invalid syntax"),
        ("    raise SystemExit\n", "line 3: SystemExit:"),
        ("    import os; os._exit(0)\n", "it said nothing"),
        ("    import os; os.kill(os.getpid(), 11)\n", "signal 11 ended it"),
        ("    return np.zeros((1 << 40,))\n", "more memory than it may have"),
    ],
)
def test_what_it_does_wrong_is_one_sentence(body: str, said: str) -> None:
    message = refused(body)
    assert message.startswith("the reference r.py fails: ")
    assert said in message
    assert "\n" not in message


def test_a_file_without_the_function_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"it has no function 'reference\(case, inputs\)'"):
        wanted_outputs(operation(output()), "x = 1\n", "r.py", Pattern.RANDOM, 1)


def test_one_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 1)
    assert "r.py" in refused("    while True: pass\n")


def test_several_outputs_are_told_apart_by_their_names() -> None:
    outputs = (output("y"), output("z", Dtype.I32))
    body = "    return {'z': np.full((4, 5), 7), 'y': inputs['x']}\n"
    wanted = wanted_outputs(operation(*outputs), HEAD + body, "r.py", Pattern.RANDOM, 1)
    assert wanted["z"].rounded.dtype == np.int32
    assert "it returned no mapping of y, z" in refused("    return inputs['x']\n", *outputs)


def of(values: list[float], dtype: Dtype, *, max_abs: float = 0.0, max_rel: float = 0.0) -> Wanted:
    exact = np.array([values], np.float64)
    tensor = output(dtype=dtype, max_abs=max_abs, max_rel=max_rel)
    return Wanted(tensor, exact, encoded(exact, dtype))


def bits(*values: float) -> Elements:
    return encoded(np.array([values], np.float64), Dtype.BF16)


def test_without_a_tolerance_only_the_rounded_reference_is_right() -> None:
    wanted = of([1.0, 1 / 3, 0.0], Dtype.BF16)
    assert wanted.wrong(bits(1.0, 1 / 3, -0.0)).tolist() == [False] * 3
    assert wanted.wrong(bits(1.0, 1 / 3, 0.0) ^ np.uint16(1)).tolist() == [True] * 3


def test_a_tolerance_is_absolute_plus_relative_to_the_exact_reference() -> None:
    wanted = of([100.0, 100.0, 0.0, 0.0], Dtype.F32, max_abs=0.5, max_rel=0.01)
    got = np.array([[101.5, 101.51, -0.5, 0.51]], np.float32)
    assert wanted.wrong(got).tolist() == [False, True, False, True]


@pytest.mark.parametrize("dtype", [d for d in Dtype if d.is_float])
def test_nan_and_infinity_are_wrong_within_any_tolerance(dtype: Dtype) -> None:
    ones = {Dtype.E4M3: 0x7F, Dtype.E5M2: 0x7C, Dtype.BF16: 0x7F80, Dtype.F16: 0x7C00}
    raw = {**ones, Dtype.F32: 0x7F800000, Dtype.F64: 0x7FF << 52}[dtype]
    size = dtype.bytes_each
    got = np.array([[raw, (1 << 8 * size) - 1]], f"<u{size}")
    wanted = of([1.0, 1.0], dtype, max_abs=1e30)
    assert wanted.wrong(got.view(wanted.rounded.dtype)).tolist() == [True, True]


BIG = 1 << 60


@pytest.mark.parametrize(
    ("dtype", "body"),
    [
        (Dtype.I64, "np.full((4, 5), -(1 << 60))"),
        (Dtype.U64, "np.full((4, 5), 1 << 60)"),
        (Dtype.U64, "np.full((4, 5), 2**64 - 16, np.uint64)"),
    ],
)
def test_integers_of_64_bits_are_compared_to_the_last(dtype: Dtype, body: str) -> None:
    """Doubles have 53 bits: as such all of these would be equal."""
    for tolerance in (0, 2):
        tensor = output(dtype=dtype, max_abs=float(tolerance))
        body_of = f"    return {body}\n"
        wanted = wanted_outputs(operation(tensor), HEAD + body_of, "r.py", Pattern.RANDOM, 1)["y"]
        got = wanted.rounded.copy()
        got[1, 2] += got.dtype.type(3)
        got[0, 3] -= got.dtype.type(2)
        wrong = np.argwhere(wanted.wrong(got).reshape(4, 5)).tolist()
        assert wrong == [[0, 3], [1, 2]] if tolerance == 0 else [[1, 2]]


@pytest.mark.parametrize(
    ("dtype", "body", "said"),
    [
        (Dtype.U64, "inputs['x'].astype(int) - 9", "which no u64 can be"),
        (Dtype.I64, "np.full((4, 5), 2**63, np.uint64)", "which no i64 can be"),
        (Dtype.I64, "np.full((4, 5), 0.5)", "y[0, 0] is 0.5, which no i64 can be"),
        (Dtype.I64, "np.full((4, 5), 2.0**54)", "y holds floats beyond 2^53, which are not exact"),
    ],
)
def test_what_is_no_integer_of_64_bits_is_refused(dtype: Dtype, body: str, said: str) -> None:
    assert said in refused(f"    return {body}\n", output(dtype=dtype))


def test_the_reference_gets_integers_of_64_bits_as_such() -> None:
    x = InputTensor("x", Dtype.I64, (4, 5), Values.UNIFORM, -(2.0**62), 2.0**62)
    asked = Operation((("rows", 4),), (x,), (output(dtype=Dtype.I64),), 0, ())
    body = HEAD + "    return inputs['x'] ^ 1\n"
    wanted = wanted_outputs(asked, body, "r.py", Pattern.RANDOM, 1)["y"]
    stored = input_elements(x, Pattern.RANDOM, 1)
    assert np.abs(stored).max() > BIG
    assert not wanted.wrong(stored ^ np.int64(1)).any()
    assert wanted.wrong(stored).all()


def test_places_are_looked_at_by_their_number() -> None:
    wanted = of([0.0, 1.0, 2.0, 3.0], Dtype.F32)
    got = np.array([3.0, 1.5], np.float32)
    assert wanted.wrong_at(got, np.array([3, 1])).tolist() == [False, True]
    assert wanted.wrong(np.array([2.0, 9.0], np.float32), 2).tolist() == [False, True]
