"""wgmma.mma_async.sp of every form: the programs, their data, and what a GPU leaves.

`python -m tests.emu.sparse_wgmma_cases OUT.npz` runs them on a GPU, says where the emulator
differs, and writes what the GPU left. A case is launched once for each kind of data that
mma_cases has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernelrig.emu.launch.engines import NUMPY
from numpy.typing import NDArray

from tests.emu.gpu import Gpu, GpuError
from tests.emu.harness import Result
from tests.emu.mma_cases import KINDS, float_bits, hashed, metadata
from tests.emu.tensor_harness import descriptor_90, place
from tests.emu.test_wgmma import A_START, B_START, CODES, SIZE, product_text, run_product

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
N = 16
METADATA, _START, _A = 0xC000, 0xD000, 0xE000
"""Offsets in shared memory: a word a thread, the registers of D, and those of A."""


@dataclass(frozen=True)
class Case:
    """A product of 64 rows and 16 columns; `form` has the types of D, A and B."""

    form: str
    selector: int = 0
    in_registers: bool = False
    span: int = 128
    mn_major: bool = False

    @property
    def name(self) -> str:
        source = "registers" if self.in_registers else "shared"
        major = " mn" if self.mn_major else ""
        return f"{self.form} {self.selector} {source} {self.span}{major}"

    @property
    def types(self) -> tuple[str, str, str]:
        d, a, b = self.form.split(".")[-3:]
        return d, a, b

    @property
    def registers(self) -> int:
        return 4 if self.types[0] == "f16" else 8

    @property
    def strides(self) -> tuple[int, int]:
        """Leading and stride offset of A and B."""
        if self.mn_major:
            return 0x800, 8 * self.span
        return (2048, 128) if self.span == 16 else (4096, 8 * self.span)


FLOATS = (
    "f32.f16.f16", "f16.f16.f16", "f32.bf16.bf16", "f32.tf32.tf32",
    "f32.e4m3.e4m3", "f32.e5m2.e5m2", "f32.e4m3.e5m2", "f16.e4m3.e4m3",
)  # fmt: skip
INTEGERS = ("s32.s8.s8", "s32.s8.u8", "s32.u8.s8", "satfinite.s32.u8.u8")


def _cases() -> dict[str, Case]:
    made = []
    for form in FLOATS + INTEGERS:
        selectors = (0,) if BITS[form.split(".")[-1]] == 8 else (0, 1)
        for in_registers in (False, True):
            made += [Case(form, s, in_registers) for s in selectors]
    made += [Case(form, 0, span=span) for span in (16, 64) for form in FLOATS + INTEGERS]
    made += [Case(form, 1, span=span, mn_major=True)
             for span in (64, 128) for form in ("f32.f16.f16", "f32.bf16.bf16")]  # fmt: skip
    # B has 64 bytes of K, which are two spans: the second one a leading offset on
    made += [Case(form, 0, span=32) for form in ("f32.f16.f16", "s32.s8.s8")]
    return {case.name: case for case in made}


CASES = _cases()


def text_of(case: Case) -> str:
    d, a, _ = case.types
    k = 512 // BITS[a]
    leading, stride = case.strides
    of_a, of_b = (
        descriptor_90(start, leading, stride, CODES[case.span]) for start in (A_START, B_START)
    )
    loads = "".join(
        f"ld.shared.b32 %d{v}, [%r120+{_START + 4 * v}];" for v in range(case.registers)
    )
    before = f"""
        mad.lo.u32 %r120, %r1, {4 * case.registers}, %r103; {loads}
        mad.lo.u32 %r121, %r1, 4, %r103; ld.shared.b32 %r122, [%r121+{METADATA}];
        mad.lo.u32 %r123, %r1, 16, %r103;
        ld.shared.v4.b32 {{%r130, %r131, %r132, %r133}}, [%r123+{_A}];
        mov.b64 %rd10, {of_a:#x}; mov.b64 %rd11, {of_b:#x};
    """
    source = "{%r130, %r131, %r132, %r133}" if case.in_registers else "%rd10"
    operands = f"{source}, %rd11, %r122, {case.selector}, 1"
    if d != "s32":
        operands += ", 1, 1"
        if BITS[a] == 16:
            majors = (case.mn_major,) * (1 if case.in_registers else 2)
            operands += "".join(f", {int(m)}" for m in majors)
    form = f"{d}.{'.'.join(case.types[1:])}"
    tail = ".satfinite" if case.form.startswith("satfinite") else ""
    return product_text(
        N, f"m64n{N}k{k}.{form}{tail}", operands, registers=case.registers, before=before,
        sparse=".sp",
    )  # fmt: skip


def _elements(name: str, data: str, count: int, salt: int) -> NDArray[np.uint8]:
    random = hashed(count, salt)
    size = {"s32": 32, "f32": 32}.get(name) or BITS[name]
    made = random if data == "bits" or name[0] in "su" else float_bits(name, data, random)
    unsigned: Any = {8: np.uint8, 16: np.uint16, 32: np.uint32}[size]
    return made.astype(unsigned).view(np.uint8)


def memory_of(case: Case, number: int) -> NDArray[np.uint8]:
    """Return what shared memory holds, for a kind of data by its number."""
    d, a, b = case.types
    data, salt = KINDS[number], 16 * number + sum(map(ord, case.name))
    of_a = _elements(a, data, 64 * 256 // BITS[a], salt).reshape(64, 32)
    of_b = _elements(b, data, N * 512 // BITS[b], salt + 1).reshape(N, 64)
    memory = np.zeros(SIZE, np.uint8)
    leading, stride = case.strides
    for start, rows in ((A_START, of_a), (B_START, of_b)):

        def offset(row: int, kb: int) -> int:
            span, size = case.span, BITS[a] // 8
            if not case.mn_major:
                return row % 8 * span + row // 8 * stride + kb % span + kb // span * leading
            k, mb = kb // size, row * size + kb % size
            return mb % span + mb // span * leading + k % 8 * span + k // 8 * stride

        place(memory, start, rows, offset, case.span)
    words = metadata(BITS[a], 128, salt + 2)
    memory[METADATA : METADATA + 512] = words.view(np.uint8)
    starts = _elements(d, data, 128 * case.registers * (2 if d == "f16" else 1), salt + 3)
    memory[_START : _START + len(starts)] = starts
    if case.in_registers:
        for t in range(128):
            row = 16 * (t // 32) + t % 32 // 4
            for register in range(4):
                kb = 16 * (register >> 1) + 4 * (t % 4)
                piece = of_a[row + 8 * (register & 1), kb : kb + 4]
                memory[_A + 16 * t + 4 * register :][:4] = piece
    return memory


def emulated(case: Case, number: int, engine: str = NUMPY, *, hardware: bool = True) -> Result:
    return run_product(
        text_of(case), memory_of(case, number), case.registers,
        engine=engine, hardware_accumulation=hardware,
    )  # fmt: skip


def on_gpu(gpu: Gpu, case: Case) -> NDArray[np.uint32]:
    """Return the registers of each thread, for each kind of data."""
    text = text_of(case)
    left = []
    for number in range(len(KINDS)):
        buffers: dict[str, NDArray[Any]] = {
            "in": memory_of(case, number), "out": np.zeros((128, case.registers), np.uint32)
        }  # fmt: skip
        left.append(
            gpu.run(text, "k", buffers, block=(128, 1, 1), dynamic_shared_bytes=SIZE)["out"]
        )
    return np.stack(left)


def differing(
    case: Case, theirs: Mapping[int, NDArray[np.uint32]], engine: str = NUMPY
) -> list[str]:
    """Return by kind of data how many words differ, and the first of them."""
    found = []
    for number, there in theirs.items():
        here = emulated(case, number, engine).buffers["out"]
        places = np.argwhere(here != there)
        if len(places):
            at = tuple(places[0].tolist())
            found.append(
                f"{number} {KINDS[number]}: {len(places)} of {here.size} words, thread {at[0]}"
                f" register {at[1]}: {here[at]:#x}, not {there[at]:#x}"
            )
    return found


def main(arguments: Sequence[str]) -> int:
    gpu = Gpu()
    left: dict[str, NDArray[Any]] = {}
    failed = 0
    for name, case in CASES.items():
        try:
            left[name] = on_gpu(gpu, case)
        except GpuError as e:
            failed += 1
            sys.stdout.write(f"{name}: {e}\n")
            gpu = Gpu()
    if arguments:
        np.savez_compressed(arguments[0], **left)  # type: ignore[arg-type]
    for name, theirs in left.items():
        lines = differing(CASES[name], dict(enumerate(theirs)))
        failed += bool(lines)
        sys.stdout.write(f"{name}: {'differs' if lines else 'the same'}\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines)
        sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
