"""Programs on memory that a GPU and the emulator must leave the same bytes for.

`python -m tests.emu.memory_cases [OUT.json]` runs them on both and prints what differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kernelrig.emu.launch.engines import NUMPY
from numpy.typing import NDArray

from tests.emu.gpu import Gpu, GpuError
from tests.emu.harness import Result, kernel_text, run_text
from tests.emu.places import places

THREADS = 256
SHARED = ".shared .align 16 .b8 tile[8192]; .shared .align 8 .b64 bar;"
BUFFERS = ("a", "b", "c", "d")
SHOWN = 4


@dataclass(frozen=True)
class Program:
    """`body` has its thread's 16 bytes of a, b, c and d at %rd1 to %rd4, and of the tile at %r2."""

    name: str
    body: str
    ctas: int = 1  # of the only cluster
    arch: int = 90

    def text(self, target: str) -> str:
        start = places(a=16, b=16, c=16, d=16) + (
            "shl.b32 %r1, %r190, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;\n"
        )
        return kernel_text(start + self.body, BUFFERS, target, "", SHARED)


def inputs() -> dict[str, NDArray[Any]]:
    """Old values in a, operands in b and c: random bits, every edge of the types among them."""
    rng = np.random.default_rng(5)
    made = {name: rng.integers(0, 1 << 32, THREADS * 4, np.uint32) for name in BUFFERS}
    edges = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00800000, 0x80000001, 0x7F800000,
             0xFF800000, 0x3F800000, 0x3C003C00, 0x00010001, 0x80018001, 0x7C00FC00, 0x80000000,
             0x7F7F0080)  # fmt: skip
    grid = np.array([(x, y) for x in edges for y in edges], np.uint32)
    made["a"][: THREADS * 4 : 4] = grid[:, 0]
    made["b"][: THREADS * 4 : 4] = grid[:, 1]
    near = rng.random(THREADS) < 0.5  # for cas
    made["c"][: THREADS * 4 : 4][near] = made["a"][: THREADS * 4 : 4][near]
    made["d"][:] = 0
    return made


def _atomics() -> list[Program]:
    forms = [f"{o}.b{n}" for o in ("and", "or", "xor", "exch") for n in (32, 64)]
    forms += [f"{o}.{t}" for o in ("min", "max") for t in ("u32", "s32", "u64", "s64")]
    forms += ["inc.u32", "dec.u32", *(f"add.{t}" for t in ("u32", "s32", "u64", "f32", "f64"))]
    forms += [f"add.noftz.{t}" for t in ("f16", "f16x2", "bf16", "bf16x2")]
    made = []
    for form in forms:
        bits = 16 if form.endswith(("f16", ".bf16")) else 64 if form.endswith("64") else 32
        register = {16: "%h", 32: "%r", 64: "%rd"}[bits]
        for space, at in (("global", "%rd1"), ("shared", "%r2")):
            made.append(
                Program(
                    f"atom.{space}.{form}",
                    f"""
                    ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd1];
                    st.shared.v4.b32 [%r2], {{%r20, %r21, %r22, %r23}};
                    ld.global.b{bits} {register}30, [%rd2];
                    atom.{space}.{form} {register}31, [{at}], {register}30;
                    st.global.b{bits} [%rd4], {register}31;
                    ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2];
                    st.global.v4.b32 [%rd3], {{%r20, %r21, %r22, %r23}};
                    """,
                )
            )
    for bits, register in ((16, "%h"), (32, "%r"), (64, "%rd")):
        body = f"""
            ld.global.b{bits} {register}30, [%rd2];
            ld.global.b{bits} {register}32, [%rd3];
            atom.global.cas.b{bits} {register}31, [%rd1], {register}32, {register}30;
            st.global.b{bits} [%rd4], {register}31;
        """
        made.append(Program(f"atom.cas.b{bits}", body))
    for form in ("exch", "cas"):
        operands = "%q2, %q1" if form == "cas" else "%q1"
        body = f"""
            .reg .b128 %q<5>;
            ld.global.b128 %q0, [%rd1]; ld.global.b128 %q1, [%rd2];
            mov.b128 {{%rd20, %rd21}}, %q0;
            and.b32 %r20, %r190, 3; setp.eq.u32 %p1, %r20, 0; setp.eq.u32 %p2, %r20, 1;
            @%p1 xor.b64 %rd20, %rd20, 1; @%p2 xor.b64 %rd21, %rd21, 0x100000000;
            mov.b128 %q2, {{%rd20, %rd21}};
            st.shared.b128 [%r2], %q0;
            atom.global.{form}.b128 %q3, [%rd1], {operands};
            st.global.b128 [%rd4], %q3;
            atom.shared.{form}.b128 %q4, [%r2], {operands};
            @%p1 atom.relaxed.cta.shared.{form}.b128 _, [%r2], {operands};
            ld.shared.b128 %q3, [%r2];
            st.global.b128 [%rd3], %q3; st.global.b128 [%rd2], %q4;
        """
        made.append(Program(f"atom.{form}.b128", body))
    for form in ("add.v4.f32", "add.noftz.v4.f16x2", "min.noftz.v4.f16x2", "max.noftz.v4.bf16x2"):
        body = f"""
            ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd2];
            atom.global.{form} {{%r24, %r25, %r26, %r27}}, [%rd1], {{%r20, %r21, %r22, %r23}};
            st.global.v4.b32 [%rd4], {{%r24, %r25, %r26, %r27}};
        """
        made.append(Program(f"atom.{form}", body.replace("%r2", "%f2") if "f32" in form else body))
    return made


def _plain() -> list[Program]:
    made = []
    for kind in ("u8", "s8", "u16", "s16"):
        body = f"""
            ld.global.{kind} %r20, [%rd1+2]; ld.global.{kind} %rd20, [%rd1+4];
            st.global.b32 [%rd4], %r20; st.global.b64 [%rd4+8], %rd20;
        """
        made.append(Program(f"ld.{kind}", body))
    made.append(
        Program(
            "ld.v4.u8",
            """
            ld.global.v4.u8 {%r20, %r21, %r22, %r23}, [%rd1];
            st.global.v4.b32 [%rd4], {%r20, %r21, %r22, %r23};
            """,
        )
    )
    fill = """
        ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];
        st.shared.v4.b32 [%r2], {%r20, %r21, %r22, %r23};
        bar.sync 0;
    """
    for count, registers in ((1, "%r24"), (2, "%r24, %r25"), (4, "%r24, %r25, %r26, %r27")):
        for trans in ("", ".trans"):
            other = "" if trans else ".trans"
            body = f"""
                {fill}
                mov.b32 %r24, 0; mov.b32 %r25, 0; mov.b32 %r26, 0; mov.b32 %r27, 0;
                ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r2];
                st.global.v4.b32 [%rd4], {{%r24, %r25, %r26, %r27}};
                bar.sync 0;
                stmatrix.sync.aligned.m8n8.x{count}{other}.shared.b16 [%r2], {{{registers}}};
                bar.sync 0;
                ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2];
                st.global.v4.b32 [%rd3], {{%r20, %r21, %r22, %r23}};
            """
            made.append(Program(f"matrix.x{count}{trans}", body))
    body = """
        ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];
        movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r20;
        movmatrix.sync.aligned.m8n8.trans.b16 %r24, %r21;
        st.global.v4.b32 [%rd4], {%r20, %r24, %r22, %r21};
    """
    made.append(Program("movmatrix", body))
    body = """
        .reg .b128 %q<4>;
        ld.global.b128 %q0, [%rd1];
        mov.b128 {%rd20, %rd21}, %q0;
        st.shared.b128 [%r2], %q0;
        mov.b128 %q1, {%rd21, %rd20};
        ld.shared.b128 %q2, [%r2];
        ld.global.u32 %r20, [%rd2];
        setp.lt.s32 %p1, %r20, 0;
        @%p1 mov.b128 %q2, %q1;
        st.global.b128 [%rd3], %q1;
        @!%p1 ld.global.b128 %q2, [%rd2];
        st.global.b128 [%rd4], %q2;
    """
    made.append(Program("b128", body))
    for size, kind in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        body = f"""
            {fill}
            and.b32 %r24, %r190, {size - 1};
            cp.async.{kind}.shared.global [%r2], [%rd2], {size}, %r24;
            cp.async.wait_all;
            ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2];
            st.global.v4.b32 [%rd4], {{%r20, %r21, %r22, %r23}};
        """
        made.append(Program(f"cp.async.{kind}.{size}", body))
    spaces = ("global", "shared", "shared::cta", "shared::cluster", "local", "param")
    body = """
        mov.u64 %rd20, tile; cvta.shared.u64 %rd21, %rd20;
        mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1;
        mapa.u64 %rd22, %rd21, %r21;
        cvta.param.u64 %rd23, a;
        mov.u32 %r30, 0;
    """
    for n, address in enumerate(("%rd1", "%rd21", "%rd22", "%rd23")):
        for bit, space in enumerate(spaces):
            body += f"isspacep.{space} %p1, {address}; selp.b32 %r31, {1 << 6 * n + bit}, 0, %p1;"
            body += "or.b32 %r30, %r30, %r31;\n"
    body += """
        getctarank.u64 %r32, %rd22; xor.b32 %r32, %r32, %r20;
        setp.eq.u32 %p2, %r20, 0;
        @%p2 st.global.v2.b32 [%rd4], {%r30, %r32};
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    made.append(Program("isspacep", body, ctas=2))
    body = """
        mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1;
        ld.global.v4.b32 {%r24, %r25, %r26, %r27}, [%rd1];
        mapa.shared::cluster.u32 %r22, %r2, %r21;
        setp.eq.u32 %p1, %r20, 0;
        @%p1 st.shared::cluster.v4.b32 [%r22], {%r24, %r25, %r26, %r27};
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        @!%p1 ld.shared.v4.b32 {%r24, %r25, %r26, %r27}, [%r2];
        @!%p1 st.global.v4.b32 [%rd4], {%r24, %r25, %r26, %r27};
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    made.append(Program("distributed", body, ctas=2))
    return made


PROGRAMS = {p.name: p for p in (*_atomics(), *_plain())}


def emulated(program: Program, engine: str = NUMPY) -> Result:
    shape = (program.ctas, 1, 1)
    return run_text(
        program.text("sm_90a"), inputs(), grid=shape, cluster=shape, block=(THREADS, 1, 1),
        engine=engine,
    )  # fmt: skip


def on_gpu(gpu: Gpu, program: Program) -> dict[str, NDArray[Any]]:
    shape = (program.ctas, 1, 1)
    text = program.text(f"sm_{gpu.arch}a")
    return gpu.run(text, "k", inputs(), grid=shape, cluster=shape, block=(THREADS, 1, 1))


def differing(ours: dict[str, NDArray[Any]], theirs: dict[str, NDArray[Any]]) -> list[str]:
    """Say which words differ, with what went into them."""
    given = inputs()
    lines = []
    for name in BUFFERS:
        for at in np.flatnonzero(ours[name] != theirs[name]):
            lines.append(
                f"{name}[{at}]: here {ours[name][at]:#010x}, GPU {theirs[name][at]:#010x}, of"
                f" {given['a'][at]:#010x} {given['b'][at]:#010x}"
            )
    return lines


def digest(buffers: dict[str, NDArray[Any]]) -> str:
    return hashlib.sha256(b"".join(buffers[n].tobytes() for n in BUFFERS)).hexdigest()[:16]


def main(arguments: Sequence[str]) -> int:
    gpu = Gpu()
    sums, failed = {}, 0
    for program in PROGRAMS.values():
        if program.arch > gpu.arch:
            continue
        try:
            theirs = on_gpu(gpu, program)
            lines = differing(emulated(program).buffers, theirs)
            sums[program.name] = digest(theirs)
        except GpuError as e:
            lines = [str(e)]
        if lines:
            failed += 1
            sys.stdout.write(f"{program.name}: {len(lines)} differ\n")
            sys.stdout.writelines(f"    {line}\n" for line in lines[:SHOWN])
    sys.stdout.write(f"{len(PROGRAMS)} programs, {failed} differ\n")
    if arguments:
        record = {"gpu": gpu.name, "arch": gpu.arch, "programs": sums}
        Path(arguments[0]).write_text(json.dumps(record, indent=1) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
