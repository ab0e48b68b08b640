"""A program that hangs is named long before its limit, once a good run of it is known.

cuda-gdb is a script on the host: it prints warps at the barrier of the program's own code.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request, build_all
from kernelrig.model import Build, EndedBy, Outcome, Toolchain
from kernelrig.stages.chains import Chains

from tests.e2e.host import LoopbackHost
from tests.e2e.project import MakeProject, Project, make_project, stage_of
from tests.e2e.test_baselines import SMI
from tests.stages import bench

DATA = Path(__file__).parents[1] / "data/told_program"
KERNEL = """
  stuck:
    level: 0
    kernel_regex: stuck
    sources: {sm_90a: stuck.cu}
    variants: {production: {program: stuck}}
    expected_lines: [done]
"""
GDB = """\
#!/bin/sh
[ "$1" = --version ] && echo "NVIDIA (R) cuda-gdb 13.0" && exit
cat <<'END'
*      0      -   0    4 Active 0x0150000000000000000000000000000000 (1,1,1) (64,1,1) stuck()
Kernel 0
*  (0,0,0)   (0,0,0)     (0,0,0)  (31,0,0)    32 0x00007f32ab7c6c10 stuck.cu    14
at 0x00007f32ab7c6c10
stuck(float*) + {offset} in section .text.{section} of /tmp/cuda-dbg/1/elf
registers of 0:0,0,0:0,0,0
R0             0x1                 1
END
"""


def add_kernel(project: Project) -> None:
    with (project.root / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(KERNEL)
    shutil.copy(DATA / "stuck.cu", project.root / "kernel")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Build:
    project = make_project(tmp_path_factory.mktemp("stuck") / "project", None)
    add_kernel(project)
    kernel = config.load_kernels(project.root)["stuck"]
    (made,) = build_all(project.root, [Request(kernel, "sm_90a", "production")], cuda_toolchain)
    return made


@pytest.mark.long
def test_a_hang_is_named_early_where_a_good_run_is_known(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    told, tools = tmp_path / "told", tmp_path / "tools"
    told.mkdir()
    tools.mkdir()
    ((section, waits),) = Chains(built, "stuck").waits().items()
    wait = next(w for w in waits if w.at_barrier)
    for name, text in (
        ("nvidia-smi", SMI.format(card=bench.UUID)),
        ("cuda-gdb", GDB.format(section=section, offset=wait.last)),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    path = f"{tools}:{Path(sys.executable).resolve().parent}:{os.defpath}"
    project = make(host.remote(env={"PATH": path, "TOLD": str(told)}))
    add_kernel(project)
    words = ("--remote", "host", "--kernel", "stuck", "--build", str(built.folder))

    first = project.invoke("remote-test", *words, "--only", "smoke")
    assert first.exit_code == 0, first.stdout + first.stderr
    (told / "hang").touch()
    second = project.invoke("remote-test", *words, "--only", "smoke")
    smoke = stage_of(second.run, "smoke")
    (command,) = smoke.commands
    assert (second.exit_code, smoke.verdict.outcome) == (1, Outcome.FAIL)
    assert (command.ended_by, command.looks) == (EndedBy.HANG, 3)
    assert command.seconds < 20
    said = "stuck hangs: warp 0 of CTA (0,0,0) waits at stuck.cu:14; found after "
    assert smoke.verdict.summary.startswith(said)
    assert "stuck.cu:14: __syncthreads(); // the other warps have left" in smoke.verdict.evidence
