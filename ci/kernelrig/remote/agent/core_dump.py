"""Diagnose a hung kernel before it is ended: a GPU core dump, nvidia-smi, cuda-gdb."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import time

from .children import Children
from .cuda_gdb import LIST, read_look
from .process_table import POLL_S
from .stage_folder import StageFolder
from .tools import find_tool

CORE_WAIT_S = 20.0  # measured on an H200: the core is written within 2 s
CORE_STABLE_S = 0.5
GDB_S = 60.0
SMI_S = 20.0


class CoreDump:
    """Takes and reads the core dump; files <command>.core, .gdb.txt, .nvidia-smi.txt."""

    def __init__(self, command: str, folder: StageFolder, children: Children) -> None:
        self.command = command
        self.folder = folder
        self.children = children

    def file(self, kind: str) -> str:
        return f"{self.command}.{kind}"

    def files(self, kind: str) -> list[str]:
        return self.folder.names(self.file(kind))

    def environment(self) -> dict[str, str]:
        """Return the environment that makes the CUDA driver write a core when a pipe is written to.

        Of the GPU state no memory is dumped: a core would be as large as the kernel's buffers.
        """
        return {
            "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
            "CUDA_COREDUMP_PIPE": str(self.folder.path / self.file("pipe_%p")),
            "CUDA_COREDUMP_FILE": str(self.folder.path / self.file("core_%p")),
            "CUDA_COREDUMP_GENERATION_FLAGS": (
                "skip_nonrelocated_elf_images,skip_global_memory,skip_local_memory,skip_abort"
            ),
        }

    def take_core(self, process: subprocess.Popen[bytes]) -> str:
        """Request a core by one byte into the pipe; return why there is none, empty if there is.

        It is read later, when the GPU is free again.
        """
        if not self.ask():
            return "no core dump: the program opened no dump pipe"
        cores = self.wait_for_cores(process)
        if not cores:
            return f"no core dump within {CORE_WAIT_S:.0f} s"
        self.folder.rename(cores[0], self.file("core"))
        return ""

    def ask(self) -> bool:
        """Write one byte into each dump pipe; return whether a process reads one."""
        asked = False
        for name in self.files("pipe_"):
            with contextlib.suppress(OSError):  # ENXIO: no process reads this pipe any more
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW
                pipe = os.open(name, flags, dir_fd=self.folder.descriptor)
                # A regular file of that name would take the byte, and mean nothing.
                is_pipe = stat.S_ISFIFO(os.fstat(pipe).st_mode)
                asked = (is_pipe and os.write(pipe, b"1") == 1) or asked
                os.close(pipe)
        return asked

    def wait_for_cores(self, process: subprocess.Popen[bytes]) -> list[str]:
        """Wait for a core that has stopped growing (the driver writes it in pieces)."""
        limit = time.monotonic() + CORE_WAIT_S
        sizes: dict[str, int] = {}
        stable_since = time.monotonic()
        while time.monotonic() < limit and not self.children.cancelled:
            now = {name: self.folder.size(name) for name in self.files("core_")}
            if now != sizes:
                sizes, stable_since = now, time.monotonic()
            stable = time.monotonic() - stable_since >= CORE_STABLE_S
            if stable and (any(sizes.values()) or process.poll() is not None):
                break
            self.children.beat()
            time.sleep(POLL_S)
        return [name for name, size in sizes.items() if size]

    def note_gpu(self) -> None:
        smi = find_tool("nvidia-smi")
        if smi:
            self.run_helper([smi, "-q"], "nvidia-smi.txt", SMI_S)

    def read_core(self) -> str:
        """Let cuda-gdb print which warps wait at which line; return a note on the outcome."""
        gdb = find_tool("cuda-gdb")
        if gdb is None:
            return "core dumped, but there is no cuda-gdb to read it"
        # -nx: an untrusted program may have written the start-up files that a debugger executes
        argv = [gdb, "-nx", "-batch", "-ex", f"target cudacore {self.file('core')}"]
        for command in LIST:
            argv += ["-ex", command]
        code = self.run_helper(argv, "gdb.txt", GDB_S)
        if code == 0:  # once more, with what is at each of the program counters
            look = read_look(self.folder.real / self.file("gdb.txt"))
            for command in look.symbols():
                argv += ["-ex", command]
            code = self.run_helper(argv, "gdb.txt", GDB_S)
        return "core dumped" if code == 0 else f"core dumped, cuda-gdb exited with {code}"

    def run_helper(self, argv: list[str], kind: str, limit_s: float) -> int | None:
        with self.folder.create(self.file(kind)) as output:
            return self.children.run_helper(argv, self.folder.path, output, limit_s)

    def remove_pipes(self) -> None:
        for name in self.files("pipe_"):
            self.folder.remove(name)
