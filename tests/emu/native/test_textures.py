"""Textures and surfaces: the core's handlers have the bits of the steps, whatever the object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.isa import surface, texture
from kernelrig.emu.isa._texture_object import BORDER, CLAMP, MIRROR, SURFACE, WRAP
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from numpy.typing import NDArray

from tests.emu.isa.test_texture import LANES, ran

TYPES = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.float16, np.float32)
ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e12, -1e12, 0.5, -0.25)
DEEP = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}
MOVES = {8: "cvt.u32.u16", 16: "cvt.u32.u16", 32: "mov.b32", 64: "cvt.u32.u64"}
ALL_FOUR = "mov.b32 %r50, %r40;\n" + "".join(
    f"mad.lo.u32 %r50, %r50, 31, %r{n};\n" for n in (41, 42, 43)
)


def drawn(rng: np.random.Generator, dtype: type[Any], *shape: int) -> NDArray[Any]:
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def coordinates(rng: np.random.Generator, whole: bool, columns: int) -> NDArray[Any]:
    if whole:
        return rng.integers(-3, 9, (LANES, columns), np.int32)
    at = rng.uniform(-3, 9, (LANES, columns)).astype(np.float32)
    return np.where(rng.random(at.shape) < 0.2, rng.choice(ODD, at.shape), at).astype(np.float32)


def fetch(geometry: str, whole: bool) -> str:
    """Return a tex of coordinates in %r1.. or %f1.., whose channels %r50 mixes."""
    letter, kind = ("r", "s32") if whole else ("f", "f32")
    at = [f"%{letter}{n + 1}" for n in range(DEEP[geometry])]
    text = ""
    if geometry.startswith("a"):
        text = f"cvt{'' if whole else '.rzi'}.u32.{'u32' if whole else 'f32'} %r30, {at[0]};\n"
        at.insert(0, "%r30")
    at += [at[-1]] * (-(-len(at) // 2) * 2 - len(at) if len(at) != 1 else 0)
    results = ", ".join(f"%r{n}" for n in range(40, 44))
    return f"{text}tex.{geometry}.v4.s32.{kind} {{{results}}}, [%rd1, {{{', '.join(at)}}}];\n"


def alone(monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str) -> None:
    """Let what the steps do with an object fail: the core takes it, or the test fails."""

    def step(*_: object, **_named: object) -> None:
        raise AssertionError("the core left this to Python")

    monkeypatch.setattr(owner, name, step)


@pytest.mark.parametrize("seed", range(24))
def test_the_core_fetches_what_the_steps_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    geometry = list(DEEP)[seed % len(DEEP)]
    dtype, whole = TYPES[seed % len(TYPES)], bool(rng.random() < 0.25)
    channels, layers = int(rng.choice([1, 2, 4])), 3 if geometry.startswith("a") else 0
    rows = (3,) * (layers > 0 or geometry == "3d") + (
        4 if "1d" not in geometry else 1,
        5 * channels,
    )
    texels = drawn(rng, dtype, *rows)
    at = coordinates(rng, whole, DEEP[geometry])
    if layers and not whole:  # the layer of a lane that is no number would be any
        at[:, 0] = rng.uniform(-1, 6, LANES)
    given: dict[str, Any] = {
        "channels": channels, "layers": layers, "depth": 3 if geometry == "3d" else 0,
        "linear": geometry == "1d" and bool(rng.integers(2)),
        "mode": int(rng.choice([WRAP, CLAMP, MIRROR, BORDER])), "border": 0.75,
        "filtered": bool(rng.integers(2)), "normalized": bool(rng.integers(2)),
        "as_float": np.dtype(dtype).kind != "f" and bool(rng.integers(2)),
    }  # fmt: skip
    body = fetch(geometry, whole) + ALL_FOUR
    expected, _, said = ran(body, texels, at, NUMPY, **given)
    alone(monkeypatch, texture._Fetch, "_fetched")
    out, _, found = ran(body, texels, at, NATIVE, **given)
    assert (out.tolist(), found) == (expected.tolist(), said)


def test_a_texel_that_is_no_number_keeps_its_bits() -> None:
    texels = np.array([[0x7F800001, 0xFFC12345, 0x7FC00000, 0x7F800000]], np.uint32)
    at = np.array([[n + 0.5, 0.5] for n in range(4)], np.float32)
    body = fetch("2d", False) + ALL_FOUR
    for filtered in (False, True):
        one, other = (
            ran(body, texels.view(np.float32), at, engine, filtered=filtered)[0].tolist()
            for engine in (NUMPY, NATIVE)
        )
        assert one == other


@pytest.mark.parametrize("form", ["b8", "v2.b8", "v4.b8", "v2.b16", "b32", "v4.b32", "v2.b64"])
@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_the_core_reads_and_writes_surfaces_as_the_steps_do(
    form: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    bits, count = int(form.rpartition("b")[2]), int(form[1]) if form[0] == "v" else 1
    letter = {8: "h", 16: "h", 32: "r", 64: "rd"}[bits]
    values = [f"%{letter}{n}" for n in range(20, 20 + count)]
    listed = f"{{{', '.join(values)}}}" if count > 1 else values[0]
    size = bits // 8 * count
    word = np.uint8 if bits == 8 else np.uint16 if bits == 16 else np.uint32
    channels = min(size // np.dtype(word).itemsize, 4)
    elements = -(-size // (channels * np.dtype(word).itemsize))
    texels = drawn(rng, word, 2, 3, 6 * channels * elements)
    at = rng.integers(-1, 4, (LANES, 3), np.int32)
    at[:, 0] = rng.permutation(LANES) - 8  # no two lanes write one place, but where they clamp
    body = (
        f"mul.lo.u32 %r9, %r1, {size};\nmax.s32 %r30, %r3, 0;\n"
        f"suld.b.a2d.{form}.{mode} {listed}, [%rd1, {{%r30, %r9, %r2, %r2}}];\n"
        f"{MOVES[bits]} %r50, {values[-1]};\n"
        f"sust.b.a2d.{form}.{mode} [%rd1, {{%r30, %r9, %r2, %r2}}], {listed};\n"
    )
    given: dict[str, Any] = {"magic": SURFACE, "channels": channels, "layers": 2}
    expected, left, said = ran(body, texels, at, NUMPY, **given)
    alone(monkeypatch, surface._Access, "place")
    out, others, found = ran(body, texels, at, NATIVE, **given)
    assert out.tolist() == expected.tolist()
    assert others.tobytes() == left.tobytes()
    assert found == said
