"""Diagnose a hung kernel before it is ended: a GPU core dump, nvidia-smi, cuda-gdb."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from .children import Children
from .process_table import POLL_S
from .tools import find_tool

CORE_WAIT_S = 20.0  # measured on an H200: the core is written within 2 s
CORE_STABLE_S = 0.5
GDB_S = 60.0
SMI_S = 20.0


class CoreDump:
    """Takes and reads the core dump; files <command>.core, .gdb.txt, .nvidia-smi.txt."""

    def __init__(self, command: str, folder: Path, children: Children) -> None:
        self.command = command
        self.folder = folder
        self.children = children

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.command}.{kind}"

    def files(self, kind: str) -> list[Path]:
        prefix = self.file(kind).name
        return sorted(p for p in self.folder.iterdir() if p.name.startswith(prefix))

    def environment(self) -> dict[str, str]:
        """Return the environment that makes the CUDA driver write a core when a pipe is written to.

        Of the GPU state no memory is dumped: a core would be as large as the kernel's buffers.
        """
        return {
            "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
            "CUDA_COREDUMP_PIPE": str(self.file("pipe_%p")),
            "CUDA_COREDUMP_FILE": str(self.file("core_%p")),
            "CUDA_COREDUMP_GENERATION_FLAGS": (
                "skip_nonrelocated_elf_images,skip_global_memory,skip_local_memory,skip_abort"
            ),
        }

    def take_core(self, process: subprocess.Popen[bytes]) -> str:
        """Request a core by one byte into the pipe; return why there is none, empty if there is.

        It is read later, when the GPU is free again.
        """
        asked = False
        for pipe in self.files("pipe_"):
            with contextlib.suppress(OSError):  # ENXIO: no process reads this pipe any more
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                asked = os.write(descriptor, b"1") == 1 or asked
                os.close(descriptor)
        if not asked:
            return "no core dump: the program opened no dump pipe"
        cores = self.wait_for_cores(process)
        if not cores:
            return f"no core dump within {CORE_WAIT_S:.0f} s"
        cores[0].replace(self.file("core"))
        return ""

    def wait_for_cores(self, process: subprocess.Popen[bytes]) -> list[Path]:
        """Wait for a core that has stopped growing (the driver writes it in pieces)."""
        limit = time.monotonic() + CORE_WAIT_S
        sizes: dict[Path, int] = {}
        stable_since = time.monotonic()
        while time.monotonic() < limit and not self.children.cancelled:
            now = {p: p.stat().st_size for p in self.files("core_")}
            if now != sizes:
                sizes, stable_since = now, time.monotonic()
            stable = time.monotonic() - stable_since >= CORE_STABLE_S
            if stable and (any(sizes.values()) or process.poll() is not None):
                break
            self.children.beat()
            time.sleep(POLL_S)
        return [path for path, size in sizes.items() if size]

    def note_gpu(self) -> None:
        smi = find_tool("nvidia-smi")
        if smi:
            self.children.run_helper([smi, "-q"], self.file("nvidia-smi.txt"), SMI_S)

    def read_core(self) -> str:
        """Let cuda-gdb print which warps wait at which line; return a note on the outcome."""
        gdb = find_tool("cuda-gdb")
        if gdb is None:
            return "core dumped, but there is no cuda-gdb to read it"
        argv = [gdb, "-batch", "-ex", f"target cudacore {self.file('core').name}"]
        for what in ("kernels", "warps", "threads"):
            argv += ["-ex", f"info cuda {what}"]
        code = self.children.run_helper(argv, self.file("gdb.txt"), GDB_S)
        return "core dumped" if code == 0 else f"core dumped, cuda-gdb exited with {code}"

    def remove_pipes(self) -> None:
        for pipe in self.files("pipe_"):
            pipe.unlink()
