"""Textures and surfaces: addressing, filtering, formats, what is out of range."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.isa._texture_object import BORDER, CLAMP, MIRROR, SURFACE, TEXTURE, WRAP
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, bound_text, kernel_text
from tests.emu.places import place, thread

SIGNED, UNSIGNED, FLOAT = range(3)
LANES = 32


def described(
    address: int,
    texels: NDArray[Any],
    *,
    magic: int = TEXTURE,
    channels: int = 1,
    linear: bool = False,
    layers: int = 0,
    cube: bool = False,
    depth: int = 0,
    mode: int = CLAMP,
    filtered: bool = False,
    normalized: bool = False,
    as_float: bool = False,
    border: float = 0.0,
) -> bytes:
    """What the host side writes for rows of elements (cudart/library/textures.cpp)."""
    kind = {"i": SIGNED, "u": UNSIGNED, "f": FLOAT}[texels.dtype.kind]
    rows, width = texels.shape[-2], texels.shape[-1] // channels
    height = 0 if linear or texels.ndim < 2 else rows
    pitch = texels.shape[-1] * texels.itemsize
    return struct.pack(
        "<IIQ8IQ7I4f28x",
        *(magic, linear, address, width, height, depth, layers, cube),
        *(channels, 8 * texels.itemsize, kind, pitch, mode, mode, mode),
        *(filtered, normalized, as_float, 0, border, border, border, border),
    )


def ran(
    body: str,
    texels: NDArray[Any],
    at: NDArray[Any],
    engine: str,
    **description: Any,  # noqa: ANN401 - what `described` takes
) -> tuple[NDArray[np.uint32], NDArray[Any], list[Finding]]:
    """Run `body`, which reads %f1.. or %r1.., the lane's row of `at`, and leaves %r50."""
    columns = at.shape[1]
    text = thread() + "ld.param.u64 %rd1, [d];\n" + place("at", "%rd2", 4 * columns)
    letter = "f" if at.dtype == np.float32 else "r"
    for n in range(columns):
        text += f"ld.global.b32 %{letter}{n + 1}, [%rd2+{4 * n}];\n"
    text += place("out", "%rd3", 4) + body + "st.global.b32 [%rd3], %r50;\n"
    buffers = {
        "t": texels, "d": np.zeros(128, np.uint8), "at": at, "out": np.zeros(LANES, np.uint32),
    }  # fmt: skip
    geometry = Geometry((1, 1, 1), (len(at), 1, 1))
    kernel = bound_text(kernel_text(text, list(buffers), "sm_90"), buffers, geometry)
    data = described(kernel.buffers["t"].address, texels, **description)
    kernel.memory.fill(kernel.buffers["d"], data)
    observers = [make() for make in OBSERVERS.values()]
    outcome = run(kernel, Schedule(engine=engine), observers)
    memory = outcome.machine.memory.global_

    def left(name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        home = kernel.buffers[name]
        return memory.bytes[home.start : home.start + home.size].view(dtype).copy()

    out = left("out", np.dtype(np.uint32))[: len(at)]
    return out.astype(np.uint32), left("t", texels.dtype), list(outcome.findings)


TEX_2D = "tex.2d.v4.f32.f32 {%f50, %f51, %f52, %f53}, [%rd1, {%f1, %f2}];\nmov.b32 %r50, %f50;\n"
GRID = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2


def bilinear(x: float, y: float) -> float:
    """The guide's formula where weights are exact: clamped, not normalized."""
    x, y = x - 0.5, y - 0.5
    i, j = int(np.floor(x)), int(np.floor(y))
    a, b = x - i, y - j

    def at(row: int, column: int) -> float:
        return float(GRID[np.clip(row, 0, 2), np.clip(column, 0, 3)])

    return (
        (1 - a) * (1 - b) * at(j, i) + a * (1 - b) * at(j, i + 1)
        + (1 - a) * b * at(j + 1, i) + a * b * at(j + 1, i + 1)
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filtered_texture_weighs_its_four_neighbours(engine: str) -> None:
    at = np.array([[x / 4, y / 8] for x in range(-2, 18) for y in (-3, 9, 20)][:32], np.float32)
    out, _, findings = ran(TEX_2D, GRID, at, engine, filtered=True)
    assert findings == []
    assert out.view(np.float32).tolist() == [np.float32(bilinear(x, y)) for x, y in at.tolist()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("mode", "columns"),
    [
        (CLAMP, [0, 0, 0, 1, 2, 3, 3, 3]),
        (WRAP, [2, 3, 0, 1, 2, 3, 0, 1]),
        (MIRROR, [1, 0, 0, 1, 2, 3, 3, 2]),
        (BORDER, [-1, -1, 0, 1, 2, 3, -1, -1]),
    ],
)
def test_coordinates_that_are_normalized_go_on_as_the_mode_says(
    mode: int, columns: list[int], engine: str
) -> None:
    at = np.array([[(n + 0.5) / 4, 0.5] for n in range(-2, 6)], np.float32)
    out, _, findings = ran(TEX_2D, GRID, at, engine, mode=mode, normalized=True, border=7.5)
    assert findings == []
    expected = [7.5 if c < 0 else float(GRID[1, c]) for c in columns]
    assert out.view(np.float32).tolist() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_without_rows_reads_as_zero_where_it_ends(engine: str) -> None:
    body = "tex.1d.v4.s32.s32 {%r50, %r51, %r52, %r53}, [%rd1, {%r1}];\nadd.u32 %r50, %r50, %r51;\n"
    texels = np.array([[1, -2, 3, -4, 5, -6]], np.int16)
    at = np.array([[-1], [0], [1], [2], [3]], np.int32)
    out, _, findings = ran(body, texels, at, engine, channels=2, linear=True)
    assert (out.view(np.int32).tolist(), findings) == ([0, -1, -1, -1, 0], [])


@pytest.mark.parametrize("engine", ENGINES)
def test_whole_numbers_are_read_as_fractions_where_the_object_says_so(engine: str) -> None:
    texels = np.array([[0, 51, 255, 102]], np.uint8)
    at = np.array([[n + 0.5, 0.5] for n in range(4)], np.float32)
    out, _, _ = ran(TEX_2D, texels, at, engine, as_float=True)
    assert out.view(np.float32).tolist() == [np.float32(v) for v in (0, 0.2, 1, 0.4)]


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_and_slices_are_further_rows(engine: str) -> None:
    texels = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    at = np.array([[n % 3 + 0.5, n % 2 + 0.5] for n in range(8)], np.float32)
    body = (
        "cvt.rzi.u32.f32 %r9, %f1;\n"
        "tex.a2d.v4.f32.f32 {%f50, %f51, %f52, %f53}, [%rd1, {%r9, %f1, %f2, %f2}];\n"
        "mov.b32 %r50, %f50;\n"
    )
    out, _, _ = ran(body, texels, at, engine, layers=4)
    assert out.view(np.float32).tolist() == [float(texels[n % 3, n % 2, n % 3]) for n in range(8)]
    body = (
        "add.f32 %f3, %f1, 0f3F800000;\n"
        "tex.3d.v4.f32.f32 {%f50, %f51, %f52, %f53}, [%rd1, {%f1, %f2, %f3, %f3}];\n"
        "mov.b32 %r50, %f50;\n"
    )
    out, _, _ = ran(body, texels, at, engine, depth=4)
    assert out.view(np.float32).tolist() == [
        float(texels[n % 3 + 1, n % 2, n % 3]) for n in range(8)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_direction_reads_the_face_of_the_cube_that_it_hits(engine: str) -> None:
    texels = np.arange(24, dtype=np.float32).reshape(6, 2, 2)
    ways = [[1, 0.1, 0.2], [-1, 0.1, 0.2], [0.1, 1, 0.2], [0.1, -1, 0.2], [0.1, 0.2, 1]]
    at = np.array([*ways, [0.1, 0.2, -1]], np.float32)
    body = (
        "tex.cube.v4.f32.f32 {%f50, %f51, %f52, %f53}, [%rd1, {%f1, %f2, %f3, %f3}];\n"
        "mov.b32 %r50, %f50;\n"
    )
    out, _, _ = ran(body, texels, at, engine, layers=6, cube=True, normalized=True)
    # (s, t) of each face: (-z, -y), (z, -y), (x, z), (x, -z), (x, -y), (-x, -y)
    inside = [(0, 0), (1, 0), (1, 1), (1, 0), (1, 0), (0, 0)]
    expected = [float(texels[face, t, s]) for face, (s, t) in enumerate(inside)]
    assert out.view(np.float32).tolist() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gather_has_the_corners_against_the_clock(engine: str) -> None:
    at = np.array([[2.0, 1.0]], np.float32)
    body = "tld4.r.2d.v4.f32.f32 {%f50, %f51, %f52, %f53}, [%rd1, {%f1, %f2}];\n"
    for n, expected in enumerate((GRID[1, 1], GRID[1, 2], GRID[0, 2], GRID[0, 1])):
        out, _, _ = ran(body + f"mov.b32 %r50, %f{50 + n};\n", GRID, at, engine)
        assert out.view(np.float32).tolist() == [expected]


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_tell_the_extents(engine: str) -> None:
    body = "txq.width.b32 %r50, [%rd1];\ntxq.height.b32 %r51, [%rd1];\n"
    body += "mad.lo.u32 %r50, %r51, 100, %r50;\n"
    out, _, _ = ran(body, GRID, np.zeros((1, 1), np.float32), engine)
    assert out.tolist() == [304]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_no_object_is_named(engine: str) -> None:
    _, _, findings = ran(TEX_2D, GRID, np.zeros((1, 2), np.float32), engine, magic=SURFACE)
    assert [f.kind for f in findings] == ["descriptor"]
    assert "is no texture object" in findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_texture_that_the_kernel_writes_is_a_race(engine: str) -> None:
    body = "ld.param.u64 %rd9, [t];\nst.global.f32 [%rd9], 0f3F800000;\nbar.sync 0;\n" + TEX_2D
    _, _, findings = ran(body, GRID, np.full((1, 2), 0.5, np.float32), engine)
    assert [f.kind for f in findings] == ["race"]


SURFACE_BODY = (
    "shl.b32 %r9, %r1, 1;\n"
    "suld.b.2d.v2.b8.{mode} {%h1, %h2}, [%rd1, {%r9, %r2}];\n"
    "cvt.u32.u16 %r50, %h1;\nadd.u16 %h3, %h1, 1;\n"
    "sust.b.2d.v2.b8.{mode} [%rd1, {%r9, %r2}], {%h2, %h3};\n"
)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_surface_is_read_and_written_by_bytes(engine: str) -> None:
    texels = np.arange(12, dtype=np.uint8).reshape(2, 6)
    at = np.array([[x, y] for y in range(2) for x in range(3)], np.int32)
    body = SURFACE_BODY.replace("{mode}", "trap")
    out, left, findings = ran(body, texels, at, engine, magic=SURFACE, channels=2)
    assert (out.tolist(), findings) == ([0, 2, 4, 6, 8, 10], [])
    expected = [[b, a + 1] for a, b in texels.reshape(-1, 2).tolist()]
    assert left.reshape(-1, 2).tolist() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_beyond_a_surface_the_mode_says_what_is_read(engine: str) -> None:
    texels = np.arange(1, 13, dtype=np.uint8).reshape(2, 6)
    at = np.array([[3, 1], [-1, 0]], np.int32)
    given: dict[str, Any] = {"magic": SURFACE, "channels": 2}
    zero, left, findings = ran(SURFACE_BODY.replace("{mode}", "zero"), texels, at, engine, **given)
    assert (zero.tolist(), left.tolist(), findings) == ([0, 0], list(range(1, 13)), [])
    clamped, _, _ = ran(SURFACE_BODY.replace("{mode}", "clamp"), texels, at, engine, **given)
    assert clamped.tolist() == [11, 1]
    _, _, found = ran(SURFACE_BODY.replace("{mode}", "trap"), texels, at, engine, **given)
    assert {f.kind for f in found} == {"out-of-bounds"}
