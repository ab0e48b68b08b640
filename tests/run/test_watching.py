"""`watch`: what counts as a save, and, with the kernel itself, the loop until Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from kernelrig.errors import ConfigError
from kernelrig.model import Toolchain
from kernelrig.run.quick_verdict import WatchRequest, judge_sources
from kernelrig.run.watching import folders_of, stamp

from tests.cpu_project import make_cpu_project
from tests.toolchain_fixture import REPOSITORY

SOURCE = "kernel/sm100a_patch_embed_fp8.cu"


def test_a_save_a_new_file_and_a_removed_one_count_and_an_editors_own_files_do_not(
    tmp_path: Path,
) -> None:
    source = tmp_path / "kernel/k.cu"
    source.parent.mkdir()
    source.write_text("one")
    folders = folders_of(tmp_path, ["kernel/k.cu"])
    before = stamp(folders)
    for own in (".k.cu.swp", "k.cu~", "4913"):
        (source.parent / own).write_text("")
    assert stamp(folders) == before
    part = source.with_suffix(".tmp")
    part.write_text("two")
    part.replace(source)  # as an editor saves
    saved = stamp(folders)
    assert saved != before
    (source.parent / "new.cuh").write_text("")
    with_header = stamp(folders)
    assert with_header != saved
    (source.parent / "new.cuh").unlink()
    assert stamp(folders) == saved
    source.unlink()
    shutil.rmtree(source.parent)
    assert stamp(folders) == frozenset()


def test_a_cpu_program_is_not_watched(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    with pytest.raises(ConfigError, match="is a CPU program"):
        judge_sources(root, WatchRequest("passes"))


@pytest.fixture
def project(tmp_path: Path, cuda_toolchain: Toolchain) -> Path:
    shutil.copytree(REPOSITORY / "kernel", tmp_path / "kernel")
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/tools").symlink_to(REPOSITORY / "artifacts/tools")
    return tmp_path


RACY = """\
#include <cstdio>
__global__ void first(int *out) {
  __shared__ int part[64];
  part[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = part[63 - threadIdx.x];
}
int main() {
  int *out, host[64];
  cudaMalloc(&out, sizeof host);
  first<<<1, 64>>>(out);
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%d\\n", host[0]);
}
"""
PLAIN = """\
schema: 3
kernels:
  prog: {sources: prog.cu, must_print: '^63$'}
"""


@pytest.mark.long
def test_a_plain_program_is_judged_as_in_its_emulated_stages(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    source, kernels = tmp_path / "kernel/prog.cu", tmp_path / "kernel/kernels.yaml"
    source.parent.mkdir()
    source.write_text(RACY)
    kernels.write_text(PLAIN)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/tools").symlink_to(REPOSITORY / "artifacts/tools")
    racy = judge_sources(tmp_path, WatchRequest())
    assert racy.exit_code == 1
    assert "\n1. race at kernel/prog.cu:5 in first\n" in racy.text
    source.write_text(RACY.replace("  out[", "  __syncthreads();\n  out["))
    right = judge_sources(tmp_path, WatchRequest())
    assert (right.exit_code, "kernel/prog.cu" in right.inputs) == (0, True)
    kernels.write_text(PLAIN.replace("63", "64"))
    other = judge_sources(tmp_path, WatchRequest())
    assert other.exit_code == 1
    assert "nothing that it printed matches\n   must_print: ^64$\n" in other.text


@pytest.fixture
def watch(project: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "kernelrig", "--root", str(project), "watch"]
    with (project / "stderr.log").open("w") as log:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True)
    yield process
    process.kill()
    process.communicate()


def next_verdict(stream: IO[str]) -> str:
    """Return the next line that is a verdict; those between say why."""
    words = ("pass: ", "fail: ", "error: ")
    return next(line for line in stream if line.startswith(words))


@pytest.mark.long
@pytest.mark.limit(900)
def test_each_save_gets_its_verdict_until_ctrl_c(
    project: Path, watch: subprocess.Popen[str]
) -> None:
    source, text = project / SOURCE, (project / SOURCE).read_text()
    assert watch.stdout is not None
    assert next_verdict(watch.stdout).startswith("pass: patch_embed sm_100a production, case smoke")
    # The launch of the host code that was described first serves the next ones.
    kept = set((project / "artifacts/watch").iterdir())
    fence = "    ptx::fence_proxy_async_shared();\n"
    assert text.count(fence) == 1
    source.write_text(text.replace(fence, "\n\n"))
    assert next_verdict(watch.stdout).startswith("fail: ")
    said = [line for line in (watch.stdout.readline() for _ in range(3)) if "proxy-fence" in line]
    assert said
    source.write_text(text[: len(text) // 2])  # half of it is there
    assert next_verdict(watch.stdout).startswith("error: ")
    # A save while another is judged: the verdict is on the last one alone.
    source.write_text(text.replace(fence, ""))
    source.write_text(text)
    assert next_verdict(watch.stdout).startswith("pass: ")
    assert set((project / "artifacts/watch").iterdir()) == kept
    watch.send_signal(signal.SIGINT)
    assert (watch.wait(), watch.stdout.read()) == (0, "watching has ended\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(watch.pid, 0)
