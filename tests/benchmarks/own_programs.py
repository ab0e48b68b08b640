"""Our kernels' own programs on a GPU and, by `run`, on the CPU: do they print the same?

`python tests/benchmarks/own_programs.py FILE.json [--gpu] [--system-cuda]` runs small cases of each
by `kernelrig run`. With --gpu the same sources are compiled for the GPU of this machine and run
there: what they print is written to FILE and compared. Without, it is compared with FILE.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build import Request
from kernelrig.build.command import user_flags
from kernelrig.build.toolchain import find_toolchain
from kernelrig.config import load_kernels
from kernelrig.model import Toolchain

ROOT = Path(__file__).parents[2]
LIMIT_S = 900
ARCH = "sm_90a"
KERNELS = ("patch_embed", "patch_embed_cuda")
CHECK = ("--mode", "check", "--case", "images=1,ctas=4", "--pattern")
STARTS = (
    *((*CHECK, pattern) for pattern in ("constant", "integer", "random")),
    ("--mode", "once", "--case", "images=1,ctas=4", "--pattern", "integer"),
    ("--mode", "nothing"),
    ("--case", "images=0"),
)
"""What each program is started with; the last two are refused by it."""
_DEVICE = re.compile(r" on NVIDIA [^,]+,")
_ENDED = re.compile(r"; the program (.+) \(emulated: ")


@dataclass(frozen=True)
class Said:
    """What a start printed, the GPU's name aside, and how it ended."""

    lines: list[str]
    end: str


def on_gpu(program: Path, words: tuple[str, ...]) -> Said:
    done = subprocess.run((program, *words), capture_output=True, text=True, timeout=LIMIT_S)
    code = done.returncode
    end = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
    return Said(_lines(done.stdout), end)


def on_cpu(source: str, words: tuple[str, ...], flags: tuple[str, ...]) -> Said:
    """Return what a program prints under `run`; its report follows what the program printed."""
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "kernelrig",
        "--root",
        ROOT,
        "run",
        source,
        "--arch",
        ARCH,
    ]
    argv += ["--schedules", "1", "--kernel", "patch_embed_gemm", "--accumulate", "hardware"]
    argv += [*flags, "--", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT)
    ended = _ENDED.findall(done.stdout)
    if not ended:
        return Said([], f"was not run: {done.stderr.strip()[-500:]}")
    return Said(_lines(done.stdout), ended[-1])


def same(gpu: Said, cpu: Said) -> bool:
    """Say whether both ended alike, and the CPU's output begins with the GPU's."""
    return gpu.end == cpu.end and cpu.lines[: len(gpu.lines)] == gpu.lines


def _lines(text: str) -> list[str]:
    return [_DEVICE.sub(" on a GPU,", line) for line in text.splitlines()]


def compiled(folder: Path, request: Request, tools: Toolchain) -> Path:
    """Return a kernel's program for the GPU, with the flags of kernels.yaml."""
    flags = user_flags(request, tools)
    program = folder / request.kernel.name
    target = ("-gencode", "arch=compute_90a,code=sm_90a")
    argv: list[str | Path] = [tools.nvcc, "-std=c++17", "-O3", *target, *flags]
    argv += [request.source, "-o", program]
    subprocess.run(argv, check=True, cwd=ROOT, capture_output=True)
    return program


def named(name: str, start: tuple[str, ...]) -> str:
    """Return the name of a program's start in a capture."""
    return f"{name} {' '.join(start)}"


def names() -> list[str]:
    return [named(name, start) for name in KERNELS for start in STARTS]


def main(words: list[str]) -> int:
    file, gpu, system = Path(words[0]), "--gpu" in words, "--system-cuda" in words
    tools = find_toolchain(ROOT, system=system)
    more = ("--system-cuda",) if system else ()
    measured: dict[str, dict[str, object]] = {} if gpu else json.loads(file.read_text())
    if not gpu and list(measured) != names():
        return _say(f"{file} is of other starts: on a GPU, write it again with --gpu", code=2)
    cpu = {}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(8 if gpu else 1) as pool:
        for name in KERNELS:
            request = Request(load_kernels(ROOT)[name], ARCH, "production")
            flags = shlex.join(user_flags(request, tools))
            for start in STARTS:
                key = named(name, start)
                given = (f"--nvcc-flags={flags}", *more)
                cpu[key] = pool.submit(on_cpu, request.source, start, given)
            if gpu:
                program = compiled(Path(place), request, tools)
                for start in STARTS:
                    seen = on_gpu(program, start)
                    measured[named(name, start)] = {"lines": seen.lines, "end": seen.end}
        if gpu:
            file.write_text(json.dumps(measured, indent=1) + "\n")
        wrong = 0
        for key, future in cpu.items():
            here, there = future.result(), Said(**measured[key])  # type: ignore[arg-type]
            equal = same(there, here)
            wrong += not equal
            sys.stdout.write(f"{'same' if equal else 'DIFFERENT'}: {key}: {here.end}\n")
            for side, said in () if equal else (("GPU", there), ("CPU", here)):
                sys.stdout.write(f"  {side}: {said.end}: {said.lines}\n")
            sys.stdout.flush()
    return _say(f"{len(cpu) - wrong} of {len(cpu)} starts the same", code=1 if wrong else 0)


def _say(line: str, *, code: int) -> int:
    sys.stdout.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
