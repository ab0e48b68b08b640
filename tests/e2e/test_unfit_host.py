"""A host that cannot run the build is an error before anything is shipped, with what to do next."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build import Request, build_all
from kernelrig.config import load_kernels
from kernelrig.model import Build, Outcome, Remote, Toolchain

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project, make_project, read_junit, stage_of

KERNEL = """\
  tiny:
    level: 0
    sources: {sm_90a: tiny.cu, sm_100a: tiny.cu}
    variants: {production: {program: tiny}}
"""
SOURCE = """\
__global__ void nothing() {}
int main() {
  nothing<<<1, 1>>>();
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
"""
SMI = """\
#!/bin/sh
# Answers as a real one did on an H200, but for what the test puts in.
case "$1" in
--query-gpu=*) echo "{name}, GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb, {driver}, {capability}, \
00000000:00:06.0, 345, 3201, 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0" ;;
--version) echo "NVIDIA-SMI version  : {driver}" ;;
esac
"""
H200 = {"name": "NVIDIA H200", "driver": "580.159.04", "capability": "9.0"}


def add_kernel(project: Project) -> Project:
    with (project.root / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(KERNEL)
    (project.root / "kernel/tiny.cu").write_text(SOURCE)
    return project


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> dict[str, Build]:
    """The smallest CUDA program, by arch."""
    project = add_kernel(make_project(tmp_path_factory.mktemp("tiny") / "project", None))
    kernel = load_kernels(project.root)["tiny"]
    requests = [Request(kernel, arch, "production") for arch in kernel.sources]
    return {b.arch: b for b in build_all(project.root, requests, cuda_toolchain)}


def with_gpu(host: LoopbackHost, folder: Path, gpu: Mapping[str, str]) -> Remote:
    """Put a GPU's nvidia-smi on the PATH of what runs on the host; its lease is that folder's."""
    smi = folder / "tools/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI.format(**gpu))
    smi.chmod(0o755)
    path = f"{smi.parent}:{Path(sys.executable).resolve().parent}:{os.defpath}"
    return host.remote(env={"PATH": path, "KERNELRIG_LEASES": str(folder / "leases")})


def check_unfit(answer: Answer, check: str, sentence: str) -> None:
    """Check that one need alone was not met, and that nothing was shipped."""
    assert (answer.exit_code, answer.sentences) == (4, [])
    assert answer.shows(f"1. preflight / {check}: {sentence}")
    checks = stage_of(answer.run, "preflight").checks
    assert [c.name for c in checks if c.verdict.outcome is Outcome.ERROR] == [check]
    junit = read_junit(answer.folder)
    assert junit[f"preflight/{check}"] == f"error: {sentence}"
    assert junit["program/stage"] == "skipped: not run: preflight did not pass"
    assert answer.run.shipped is None


@pytest.mark.parametrize(
    ("arch", "changes", "check", "sentence"),
    [
        (
            "sm_100a",
            {},
            "compute capability for sm_100a",
            "sm_100a code runs on compute capability 10.0 only, NVIDIA H200 has 9.0;"
            " build for sm_90a (`arch` in remotes.yaml)",
        ),
        pytest.param(
            "sm_90a",
            {"name": "NVIDIA L40S", "capability": "8.9"},
            "compute capability for sm_90a",
            "sm_90a code runs on compute capability 9.0 only, NVIDIA L40S has 8.9;"
            " choose another remote",
            marks=pytest.mark.long,
        ),
        (
            "sm_90a",
            {"driver": "570.133.20"},
            "driver",
            "driver 570.133.20 on {host}, the build needs 580; rent an image with a newer driver,"
            " install cuda-compat, or build with an older toolkit through CUDA_HOME",
        ),
    ],
    ids=["arch", "GPU", "driver"],
)
def test_a_gpu_that_cannot_run_the_build_is_detected_by_its_nvidia_smi(
    tiny: dict[str, Build],
    make: MakeProject,
    host: LoopbackHost,
    tmp_path: Path,
    arch: str,
    changes: dict[str, str],
    check: str,
    sentence: str,
) -> None:
    remote = replace(with_gpu(host, tmp_path, {**H200, **changes}), arch=arch)
    project = add_kernel(make(remote))
    answer = project.test("tiny", "brief", "--build", str(tiny[arch].folder))
    check_unfit(answer, check, sentence.format(host=os.uname().nodename))
    assert answer.run.host is not None
    assert answer.run.host.gpus[0]["compute_cap"] == {**H200, **changes}["capability"]


def test_a_host_without_a_gpu_is_an_error(
    tiny: dict[str, Build], make: MakeProject, host: LoopbackHost
) -> None:
    answer = add_kernel(make(host.remote())).test(
        "tiny", "brief", "--build", str(tiny["sm_90a"].folder)
    )
    assert (answer.exit_code, answer.sentences) == (4, [])
    assert read_junit(answer.folder)["preflight/GPU"] == (
        f"error: no GPU on {os.uname().nodename}: nvidia-smi lists none; choose another remote"
    )


def test_a_glibc_older_than_the_builds_is_an_error_with_both_versions(
    project: Project, tmp_path: Path
) -> None:
    assert project.invoke("build", "--kernel", "passes", "--arch", "sm_90a").exit_code == 0
    (made,) = project.root.glob("artifacts/builds/passes-sm_90a-*")
    newer = tmp_path / "newer"
    shutil.copytree(made, newer)
    # What a distribution of years to come would have written.
    record = json.loads((newer / "build.json").read_text())
    (newer / "build.json").write_text(json.dumps({**record, "glibc": "2.99"}))
    answer = project.test("passes", "brief", "--build", str(newer))
    here = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    sentence = (
        f"glibc {here} on {os.uname().nodename}, the build needs 2.99;"
        " build on an older distribution, or rent a newer image"
    )
    check_unfit(answer, "glibc", sentence)


def test_a_build_of_another_arch_than_the_remote_s_never_gets_to_the_host(
    tiny: dict[str, Build], make: MakeProject, host: LoopbackHost
) -> None:
    project = add_kernel(make(host.remote()))
    answer = project.test("tiny", "brief", "--build", str(tiny["sm_100a"].folder))
    assert (answer.exit_code, answer.sentences) == (
        2,
        [
            "--build gives no build of tiny for sm_90a, the remote's arch:"
            f" {tiny['sm_100a'].folder.name};"
            " `ci/invoke build --kernel tiny --arch sm_90a` makes it"
        ],
    )
