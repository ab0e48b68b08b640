"""mma.sync and mma.sp of every form: the programs, their data, and what a GPU leaves.

`python -m tests.emu.mma_cases [--sparse] OUT.npz` runs them on a GPU (of mma.sp alone), says where
the emulator differs, and writes what the GPU left. Warps of one launch have data of different
kinds: small integers, which add up exactly, numbers of like and of far magnitudes, and any bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from kernelrig.emu.isa.mma import form_of
from kernelrig.emu.launch.engines import NUMPY
from kernelrig.emu.numerics.arrays import UNSIGNED
from kernelrig.emu.tensor.warp_product import WarpForm
from kernelrig.ptx import parse_ptx
from numpy.typing import NDArray

from tests.emu.gpu import Gpu, GpuError
from tests.emu.harness import HEAD, Result, run_text

LANES, WARPS = 32, 8
KINDS = ("integers", "like", "like", "far", "far", "bits", "bits", "bits")
"""Of the data of each warp."""


def _forms() -> tuple[str, ...]:
    made = []
    for shape in ("m16n8k8", "m16n8k16"):
        made += [f"{shape}.row.col.{d}.f16.f16.{d}" for d in ("f16", "f32")]
        made.append(f"{shape}.row.col.f32.bf16.bf16.f32")
    made += [f"m16n8k{k}.row.col.f32.tf32.tf32.f32" for k in (4, 8)]
    eight = ("e4m3", "e5m2")
    made += [
        f"m16n8k32.row.col.{d}.{a}.{b}.{d}" for d in ("f16", "f32") for a in eight for b in eight
    ]
    made += [f"m16n8k16.row.col.{d}.e4m3.e4m3.{d}" for d in ("f16", "f32")]
    for shapes, types in (
        (("m8n8k16", "m16n8k16", "m16n8k32"), ("s8", "u8")),
        (("m8n8k32", "m16n8k32", "m16n8k64"), ("s4", "u4")),
    ):
        for shape in shapes:
            made += [f"{shape}.row.col.s32.{a}.{b}.s32" for a in types for b in types]
            made.append(f"{shape}.row.col.satfinite.s32.{types[0]}.{types[1]}.s32")
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        made += [f"{shape}.row.col.s32.b1.b1.s32.{o}.popc" for o in ("and", "xor")]
    made += [f"{s}.row.col.f64.f64.f64.f64" for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
    return tuple(made)


def _sparse_forms() -> tuple[str, ...]:
    """mma.sp: its variant, its selector, then as above."""
    ordered, any_order = "sp::ordered_metadata", "sp"
    made = []
    for shape, selectors in (("m16n8k16", 4), ("m16n8k32", 2)):
        for types in ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32"):
            made += [f"{ordered} {s} {shape}.row.col.{types}" for s in range(selectors)]
    for shape, selectors in (("m16n8k8", 4), ("m16n8k16", 2)):
        made += [f"{ordered} {s} {shape}.row.col.f32.tf32.tf32.f32" for s in range(selectors)]
    eight = ("e4m3", "e5m2")
    made += [f"{ordered} 0 m16n8k64.row.col.f32.{a}.{b}.f32" for a in eight for b in eight]
    for shape, selectors, kinds in (
        ("m16n8k32", 2, ("s8", "u8")),
        ("m16n8k64", 1, ("s8", "u8")),
        ("m16n8k64", 2, ("s4", "u4")),
        ("m16n8k128", 1, ("s4", "u4")),
    ):
        for s in range(selectors):
            pairs = [f"{a}.{b}" for a in kinds for b in kinds]
            made += [f"{ordered} {s} {shape}.row.col.s32.{pair}.s32" for pair in pairs]
        made.append(f"{ordered} 0 {shape}.row.col.satfinite.s32.{'.'.join(kinds)}.s32")
    made += [
        f"{any_order} {selector} {form}"
        for selector, form in (
            (3, "m16n8k16.row.col.f32.f16.f16.f32"),
            (1, "m16n8k32.row.col.f32.bf16.bf16.f32"),
            (1, "m16n8k16.row.col.f32.tf32.tf32.f32"),
            (0, "m16n8k64.row.col.f32.e4m3.e5m2.f32"),
            (1, "m16n8k32.row.col.s32.s8.u8.s32"),
            (0, "m16n8k64.row.col.s32.u8.s8.s32"),
            (0, "m16n8k128.row.col.s32.s4.u4.s32"),
        )
    ]
    return tuple(made)


DENSE_FORMS = _forms()
SPARSE_FORMS = _sparse_forms()
FORMS = DENSE_FORMS + SPARSE_FORMS


def _parts(form: str) -> tuple[str, str, str]:
    """Return what stands behind `mma.` of a form's mnemonic, its selector, and its shape and
    types.
    """
    variant, _, rest = form.rpartition(" ")
    sparse, _, selector = variant.partition(" ")
    return f"{sparse}.sync" if sparse else "sync", selector, rest


_FLOATS = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2),
    "f32": (8, 23), "f64": (11, 52),
}  # fmt: skip
"""The bits of exponents and fractions."""
_FAR = {"f16": 20, "bf16": 60, "tf32": 60, "e4m3": 12, "e5m2": 20, "f32": 60, "f64": 100}


def text_of(form: str) -> str:
    """A kernel k(a, b, c, d): registers one behind the other, each with a word a thread."""
    shape = shape_of(form)
    wide = shape.d == "f64"
    size, register = (8, "b64") if wide else (4, "b32")
    of_a, of_b, of_d = shape.counts
    counts = {"a": of_a, "b": of_b, "c": of_d, "d": of_d}
    mnemonic, selector, rest = _parts(form)
    inputs = "abc"
    if selector:
        counts["e"], inputs = 1, "abce"
    lines = [f".reg .{register} %{name}<{count}>;" for name, count in counts.items()]
    lines += [".reg .b32 %t; .reg .b64 %off, %at;", "mov.u32 %t, %tid.x;"]
    lines.append(f"mul.wide.u32 %off, %t, {size};")
    for name in inputs:
        lines.append(f"ld.param.u64 %at, [{name}]; add.s64 %at, %at, %off;")
        for n in range(counts[name]):
            lines.append(f"ld.global.{register} %{name}{n}, [%at+{n * size * LANES * WARPS}];")
    named = ({n: ", ".join(f"%{n}{k}" for k in range(count))} for n, count in counts.items())
    listed = {name: text for one in named for name, text in one.items()}
    operands = [f"{{{listed[n]}}}" for n in "dabc"] + (["%e0", selector] if selector else [])
    lines.append(f"mma.{mnemonic}.aligned.{rest} {', '.join(operands)};")
    lines.append("ld.param.u64 %at, [d]; add.s64 %at, %at, %off;")
    for n in range(of_d):
        lines.append(f"st.global.{register} [%at+{n * size * LANES * WARPS}], %d{n};")
    params = ", ".join(f".param .u64 {name}" for name in f"{inputs}d")
    body = "\n".join(lines)
    head = HEAD.format(target="sm_90a").replace("9.0", "8.7")
    return f"{head}.visible .entry k({params})\n{{\n{body}\nret;\n}}\n"


@cache
def shape_of(form: str) -> WarpForm:
    mnemonic, selector, rest = _parts(form)
    operands = f"0, 0, 0, 0, 0, {selector}" if selector else "0, 0, 0, 0"
    head = HEAD.format(target="sm_90a")
    text = f"{head}.entry k()\n{{\nmma.{mnemonic}.aligned.{rest} {operands};\n}}\n"
    entry = parse_ptx(text, "form.ptx").function("k")
    assert entry is not None
    return form_of(entry.instructions[0])


def hashed(count: int, salt: int) -> NDArray[np.uint64]:
    """splitmix64: the same bits with every NumPy."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(salt * 0x51ED270B + 0x7654321)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def float_bits(kind: str, data: str, random: NDArray[np.uint64]) -> NDArray[np.uint64]:
    exponent_bits, fraction_bits = _FLOATS[kind]
    sign = random & np.uint64(1)
    bias, fraction = (1 << exponent_bits - 1) - 1, random >> np.uint64(64 - fraction_bits)
    if data == "integers":
        value = random >> np.uint64(8) & np.uint64(3)  # 0 to 3
        exponent = np.where(value > 1, bias + 1, bias).astype(np.uint64)
        fraction = np.where(value == 3, np.uint64(1 << fraction_bits - 1), np.uint64(0))
        bits = exponent << np.uint64(fraction_bits) | fraction
        bits = np.where(value == 0, np.uint64(0), bits)
    else:
        reach = 4 if data == "like" else _FAR[kind]
        exponent = np.uint64(bias - reach // 2) + (random >> np.uint64(8)) % np.uint64(reach)
        bits = exponent << np.uint64(fraction_bits) | fraction
    made: NDArray[np.uint64] = bits | sign << np.uint64(exponent_bits + fraction_bits)
    return made


def _registers(kind: str, bits: int, count: int, salt: int) -> NDArray[Any]:
    """Return (count, 256) words of elements of a type, by warp of each kind of data."""
    size = 64 if kind == "f64" else 32
    each = size // bits
    random = hashed(count * WARPS * LANES * each, salt).reshape(count, WARPS, LANES, each)
    made = random.copy()
    if kind in _FLOATS:
        for warp, data in enumerate(KINDS):
            if data != "bits":
                made[:, warp] = float_bits(kind, data, random[:, warp])
    if bits < 64:
        made &= np.uint64((1 << bits) - 1)
    shifts = np.arange(each, dtype=np.uint64) * np.uint64(bits)
    words = np.bitwise_or.reduce(made << shifts, axis=-1)
    listed: NDArray[Any] = words.reshape(count, WARPS * LANES).astype(UNSIGNED[size // 8])
    return listed


def data_of(form: str) -> dict[str, NDArray[Any]]:
    """Return what the kernel of a form is given, and room for its results."""
    shape = shape_of(form)
    of_a, of_b, of_d = shape.counts
    salt = sum(map(ord, form))
    d_bits = {"f16": 16, "f64": 64}.get(shape.d, 32)
    c = _registers(shape.d, d_bits, of_d, salt + 2)
    found = {
        "a": _registers(shape.a, shape.bits, of_a, salt),
        "b": _registers(shape.b, shape.bits, of_b, salt + 1),
        "c": c,
    }
    if shape.sparsity:
        found["e"] = metadata(shape.bits, WARPS * LANES, salt + 3)
    return found | {"d": np.zeros_like(c)}


IN_ORDER = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
"""Two of four elements: the lower index in the low bits."""
OF_TWO = (0b0100, 0b1110)
"""One of two elements of tf32."""


def metadata(bits: int, count: int, salt: int) -> NDArray[np.uint32]:
    """Return words of eight valid codes each, for elements of so many bits."""
    codes = np.array(OF_TWO if bits == 32 else IN_ORDER, np.uint64)
    picked = codes[hashed(8 * count, salt).reshape(count, 8) % np.uint64(len(codes))]
    words = np.bitwise_or.reduce(picked << np.arange(0, 32, 4, dtype=np.uint64), axis=1)
    return np.asarray(words, np.uint32)


def emulated(form: str, engine: str = NUMPY, *, hardware: bool = True) -> Result:
    return emulated_words(text_of(form), data_of(form), engine, hardware=hardware)


def on_gpu(gpu: Gpu, form: str) -> NDArray[Any]:
    return words_on_gpu(gpu, text_of(form), data_of(form))


def emulated_words(
    text: str, data: dict[str, NDArray[Any]], engine: str, *, hardware: bool
) -> Result:
    """Run a kernel of this shape, whatever its instruction."""
    return run_text(
        text, data, block=(LANES * WARPS, 1, 1), engine=engine, hardware_accumulation=hardware
    )


def words_on_gpu(gpu: Gpu, text: str, data: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return what such a kernel leaves in `d`."""
    left: NDArray[Any] = gpu.run(text, "k", data, grid=(1, 1, 1), block=(LANES * WARPS, 1, 1))["d"]
    return left


def differing(ours: NDArray[Any], theirs: NDArray[Any]) -> list[str]:
    """Return by kind of data how many words differ, and the first of them.

    A NaN of float64 stands for any other: an H200 keeps digits of one it was given.
    """
    found = []
    if ours.itemsize == 8:
        none = np.isnan(ours.view(np.float64)) & np.isnan(theirs.view(np.float64))
        theirs = np.where(none, ours, theirs)
    for warp, data in enumerate(KINDS):
        lanes = slice(warp * LANES, (warp + 1) * LANES)
        here, there = ours[:, lanes], theirs[:, lanes]
        places = np.argwhere(here != there)
        if len(places):
            at = tuple(places[0])
            said = f"register {at[0]} lane {at[1]}: {here[at]:#x}, not {there[at]:#x}"
            found.append(f"warp {warp}, {data}: {len(places)} of {here.size} words, {said}")
    return found


def main(arguments: Sequence[str]) -> int:
    sparse, files = "--sparse" in arguments, [a for a in arguments if a != "--sparse"]
    return compare(SPARSE_FORMS if sparse else FORMS, emulated, on_gpu, files)


def compare(
    forms: Iterable[str],
    ours: Callable[[str], Result],
    theirs: Callable[[Gpu, str], NDArray[Any]],
    files: Sequence[str],
) -> int:
    """Say of each form whether the GPU here leaves the same; write what it left to a file."""
    gpu = Gpu()
    left: dict[str, NDArray[Any]] = {}
    failed = 0
    for form in forms:
        try:
            left[form] = theirs(gpu, form)
        except GpuError as e:
            failed += 1
            sys.stdout.write(f"{form}: {e}\n")
            gpu = Gpu()
            continue
        lines = differing(ours(form).buffers["d"], left[form])
        failed += bool(lines)
        sys.stdout.write(f"{form}: {'differs' if lines else 'the same'}\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines)
        sys.stdout.flush()
    if files:
        np.savez_compressed(files[0], **left)  # type: ignore[arg-type]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
