"""Runs small PTX texts in the emulator: what the tests of the families share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernelrig.emu.launch.bind import Buffer, Kernel, Layout, bind
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from kernelrig.emu.launch.execution import Schedule, ScheduleRun, run
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.machine_state import Geometry, Hooks
from kernelrig.emu.machine.region_names import Shape
from kernelrig.ptx import parse_ptx
from numpy.typing import NDArray

ENGINES = (NUMPY, NATIVE)
HEAD = ".version 9.0\n.target {target}\n.address_size 64\n"


@dataclass(frozen=True)
class Result:
    """What a run left: each buffer as the array it was given as, the findings, the rest."""

    buffers: dict[str, NDArray[Any]]
    findings: tuple[Finding, ...]
    ran: ScheduleRun

    @property
    def kinds(self) -> list[str]:
        return [f.kind for f in self.findings if f.severity == "error"]

    @property
    def warnings(self) -> list[str]:
        return [f.rule for f in self.findings if f.severity == "warning"]


def kernel_text(
    body: str, params: Sequence[str], target: str, directives: str = "", shared: str = ""
) -> str:
    """A module with one entry `k` whose parameters are u64 pointers.

    Use %r0.. (b32), %rd0.. (b64), %h0.. (b16), %p0.. (pred), %f0.. (f32), up to 199 each.
    """
    listed = ", ".join(f".param .u64 {name}" for name in params)
    registers = (
        ".reg .pred %p<200>; .reg .b16 %h<200>; .reg .b32 %r<200>; .reg .b64 %rd<200>; "
        ".reg .f32 %f<200>; .reg .f64 %fd<50>;"
    )
    return (
        HEAD.format(target=target)
        + shared
        + f"\n.visible .entry k({listed})\n{directives}\n{{\n{registers}\n{body}\nret;\n}}\n"
    )


def run_text(
    text: str,
    buffers: dict[str, NDArray[Any]],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    dynamic_shared_bytes: int = 0,
    shapes: dict[str, Shape] | None = None,
    undefined: Sequence[str] = (),
    observers: Sequence[Hooks] = (),
    entry: str = "k",
    arguments: Sequence[bytes] | None = None,
    behind: Sequence[bytes] = (),
    **schedule: Any,  # noqa: ANN401 - fields of Schedule
) -> Result:
    """Run a whole module; each buffer is passed by its address, in order, then what is `behind`, or
    `arguments` are.
    """
    kernel = bound_text(
        text, buffers, Geometry(grid, block, cluster), dynamic_shared_bytes,
        shapes=shapes, undefined=undefined, entry=entry, arguments=arguments, behind=behind,
    )  # fmt: skip
    ran = run(kernel, Schedule(**schedule), observers)
    memory = ran.machine.memory.global_
    left = {}
    for name, array in buffers.items():
        at = kernel.buffers[name]
        raw = memory.bytes[at.start : at.start + at.size]
        left[name] = raw.view(array.dtype).reshape(array.shape).copy()
    return Result(left, ran.findings, ran)


def bound_text(
    text: str,
    buffers: dict[str, NDArray[Any]],
    geometry: Geometry,
    dynamic_shared_bytes: int = 0,
    *,
    shapes: dict[str, Shape] | None = None,
    undefined: Sequence[str] = (),
    entry: str = "k",
    arguments: Sequence[bytes] | None = None,
    behind: Sequence[bytes] = (),
) -> Kernel:
    """Bind a whole module, as `run_text` runs it."""
    module = parse_ptx(text, "test.ptx")
    function = module.function(entry)
    assert function is not None
    kernel = bind(
        module,
        function,
        geometry,
        {
            name: Buffer(
                array.nbytes,
                None
                if name in undefined
                else np.ascontiguousarray(array).reshape(-1).view(np.uint8),
            )
            for name, array in buffers.items()
        },
        dynamic_shared_bytes,
        layout=Layout(shapes=shapes or {}),
    )
    passed = arguments
    if passed is None:
        passed = [made.address.to_bytes(8, "little") for made in kernel.buffers.values()]
        passed += behind
    kernel.fill_params(passed)
    return kernel


def run_ptx(
    body: str,
    buffers: dict[str, NDArray[Any]],
    *,
    target: str = "sm_100a",
    directives: str = "",
    shared: str = "",
    **rest: Any,  # noqa: ANN401 - what run_text takes
) -> Result:
    """Run `body` as the entry `k(one pointer a buffer)`; see `kernel_text` for its registers."""
    return run_text(kernel_text(body, list(buffers), target, directives, shared), buffers, **rest)
