"""Every `run:` step of both workflows, in order, in clean clones; `.ci/run` alone is replaced.

The host of gpu.yml is a real sshd on loopback with a stand-in for its GPU: an nvidia-smi that
answers as that of an H200, and a program that launches a kernel and does not ask how it went.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernelrig.remote.ssh.known_hosts import parse_host_key

from tests.e2e.project import read_junit
from tests.remote.sshd_fixture import Sshd, start_server
from tests.workflows.actions import Store
from tests.workflows.joblog import JobLog
from tests.workflows.runner import JobResult, Runner, commit, commit_tree

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CI, GPU = (ROOT / ".github/workflows" / name for name in ("ci.yml", "gpu.yml"))
SHORT = """#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec ci/invoke doctor
"""
SUDO = """#!/bin/sh
# The packages are looked up, none is installed.
case "$1 $2" in
"apt-get update") ;;
"apt-get install") shift 2; exec apt-get --simulate install "$@" ;;
*) exit 1 ;;
esac
"""
SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) echo "NVIDIA H200, GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb, 580.159.04, 9.0, \
00000000:00:06.0, 345, 3201, 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0" ;;
--version) echo "NVIDIA-SMI version  : 580.159.04" ;;
esac
"""
SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
__global__ void nothing() {}
int main() {
  nothing<<<1, 1>>>();
  char path[4096], what[16] = "";
  std::snprintf(path, sizeof path, "%s/behaviour", std::getenv("HOME"));
  if (std::FILE* file = std::fopen(path, "r")) {
    if (!std::fgets(what, sizeof what, file)) what[0] = 0;
    std::fclose(file);
  }
  std::printf("told: %s\n", what);
  std::fflush(stdout);
  if (!std::strcmp(what, "hang")) while (true) pause();
  return !std::strcmp(what, "fail");
}
"""
KERNEL = """
  stand_in:
    level: 0
    sources: {sm_90a: stand_in.cu}
    variants: {production: {program: stand_in}}
"""
PLAN = """schema: 1
stages:
  - {name: preflight, kind: preflight}
  - {name: program, kind: checksum, needs: [preflight], time_s: 600}
"""
INPUTS = {
    "kernel": "stand_in",
    "arch": "sm_90a",
    "gpu": "NVIDIA H200",
    "profile": False,
    "only": "",
}
DISPATCH = "workflow_dispatch"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("actions")


@pytest.fixture(scope="module")
def repository(place: Path) -> Path:
    """The files of this repository as they are now, committed anew, with fewer kernels."""
    argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    made = commit_tree(ROOT, listed.split("\0")[:-1], place / "repository")
    (made / ".ci/run").write_text(SHORT)
    keep_kernels(made, "patch_embed", "sanitizer_selftest")
    commit(made)
    return made


@pytest.fixture(scope="module")
def with_stand_in(repository: Path, place: Path) -> Path:
    """The repository with a kernel that needs no GPU, and a plan that asks nothing more of it."""
    made = copy_of(repository, place / "with-stand-in")
    keep_kernels(made, "sanitizer_selftest")
    with (made / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(KERNEL)
    (made / "kernel/stand_in.cu").write_text(SOURCE)
    (made / "ci/plans").mkdir(parents=True)
    (made / "ci/plans/default.yaml").write_text(PLAN)
    commit(made)
    return made


def keep_kernels(repository: Path, *names: str) -> None:
    path = repository / "kernel/kernels.yaml"
    document = yaml.safe_load(path.read_text())
    document["kernels"] = {name: document["kernels"][name] for name in names}
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def copy_of(repository: Path, folder: Path) -> Path:
    shutil.copytree(repository, folder)
    return folder


@pytest.fixture(scope="module")
def make_runner(place: Path) -> Callable[..., Runner]:
    """Make a runner whose artifacts are its own; caches and the workspace's path are shared."""
    commands, tools = place / "commands", place / "tools/Python/3.12.99/x64/bin"
    for folder in (commands, tools, place / "caches"):
        folder.mkdir(parents=True)
    (commands / "sudo").write_text(SUDO)
    (commands / "sudo").chmod(0o755)
    # Whatever runs the tests stands in for the Python of the image
    (tools / "python3").symlink_to(Path(sys.executable).resolve())

    def make(name: str, repository: Path, **settings: Any) -> Runner:  # noqa: ANN401 - fields of Runner
        artifacts = place / "artifacts" / name
        artifacts.mkdir(parents=True)
        store = Store(repository, artifacts, place / "caches")
        return Runner(place / "runner", store, commands, place / "tools", **settings)

    return make


@pytest.fixture(scope="module")
def host(openssh: None, place: Path) -> Iterator[Sshd]:
    tools = place / "host-tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    server = start_server(place / "sshd", tools=tools)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def secrets(host: Sshd) -> dict[str, str]:
    return {
        "GPU_HOST_TARGET": f"{host.user}@{host.host}:{host.port}",
        "GPU_HOST_FINGERPRINT": parse_host_key(host.host_key).fingerprint,
        "GPU_HOST_KEY": host.identity.read_text(),
    }


def show(job: JobResult) -> str:
    return "\n".join([*(f"{s.outcome:9} {s.exit_code} {s.name}" for s in job.steps), job.log.text])


def runs_of(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/run.json"))


def test_ci_tests_builds_checks_and_emulates(
    make_runner: Callable[..., Runner], repository: Path
) -> None:
    runner = make_runner("ci", repository)
    results = runner.run(CI, "pull_request", {}, {})
    assert set(results) == {"test", "build"}
    for job in results.values():
        assert job.conclusion == "success", show(job)
        assert [step.outcome for step in job.steps] == ["success"] * len(job.steps)
        assert job.log.annotations == []
    store = runner.store.artifacts
    runs = runs_of(store / "checks")
    verdicts = {value for run in runs for value in read_junit(run).values()}
    assert not any(verdict.startswith(("failure", "error")) for verdict in verdicts)
    assert len(runs) == 2
    assert "# pass: patch_embed" in results["build"].summary
    assert (store / "builds/builds.tar.gz").stat().st_size > 100_000


def test_ci_marks_an_error_of_the_compiler_on_its_line(
    make_runner: Callable[..., Runner], with_stand_in: Path, place: Path
) -> None:
    broken = copy_of(with_stand_in, place / "broken")
    source = broken / "kernel/stand_in.cu"
    source.write_text(source.read_text().replace("nothing<<<1, 1>>>()", "nothing<<<1, 1>>>(4)"))
    number = SOURCE.splitlines().index("  nothing<<<1, 1>>>();") + 1
    commit(broken)
    runner = make_runner("broken", broken)
    build = runner.run(CI, "push", {}, {})["build"]
    assert build.conclusion == "failure", show(build)
    assert build.step("Build every kernel").exit_code == 3
    assert build.step("Check all").outcome == "skipped"
    marked = [(a.level, a.file, a.line) for a in build.log.annotations if a.file]
    assert marked == [("error", "kernel/stand_in.cu", number)]
    assert "stand_in" in build.summary
    (run,) = runs_of(runner.store.artifacts / "checks")
    assert (run / "junit.xml").is_file()
    assert not (runner.store.artifacts / "builds").exists()


@pytest.fixture(scope="module")
def built(make_runner: Callable[..., Runner], with_stand_in: Path) -> tuple[Path, JobResult]:
    """The build job of gpu.yml, which what runs on the host starts from; it sees no secret."""
    runner = make_runner("gpu-build", with_stand_in)
    results = runner.run(GPU, DISPATCH, {}, INPUTS)
    build = results["build"]
    assert build.conclusion == "success", show(build)
    assert {step.outcome for step in build.steps} == {"success"}
    # Without the secrets the next job stops before it connects to anything
    assert results["run"].step("Pin the host's host key").outcome == "failure"
    assert "GPU_HOST_TARGET: is not set in the environment gpu-host" in results["run"].log.text
    return runner.store.artifacts / "gpu-builds", build


@pytest.fixture
def on_host(
    make_runner: Callable[..., Runner],
    with_stand_in: Path,
    built: tuple[Path, JobResult],
    host: Sshd,
    secrets: Mapping[str, str],
) -> Iterator[Callable[..., tuple[JobResult, Path]]]:
    """Run the job `run` of gpu.yml; return it and the artifacts, neither of which has a secret."""

    def run(
        name: str,
        behaviour: str = "",
        *,
        profile: bool = False,
        gpu: str = "NVIDIA H200",
        **settings: Any,  # noqa: ANN401 - fields of Runner
    ) -> tuple[JobResult, Path]:
        (host.home / "behaviour").write_text(behaviour)
        runner = make_runner(name, with_stand_in, environments={"gpu-host": secrets}, **settings)
        shutil.copytree(built[0], runner.store.artifacts / "gpu-builds")
        inputs = {**INPUTS, "profile": profile, "gpu": gpu}
        job = runner.run(GPU, DISPATCH, {}, inputs, done={"build": built[1]})["run"]
        assert job.step("Forget the key").outcome == "success", show(job)
        assert not (job.workspace.parents[2] / "temp/gpu_host_key").exists()
        artifacts = runner.store.artifacts / "gpu-runs"
        check_secrets(job, artifacts, secrets)
        return job, artifacts

    yield run
    (host.home / "behaviour").unlink(missing_ok=True)


def check_secrets(job: JobResult, artifacts: Path, secrets: Mapping[str, str]) -> None:
    """Look for every line of every secret, and for the parts of the address."""
    shown = {"log": job.log.text, "summary": job.summary, "marks": repr(job.log.annotations)}
    kept = {str(path.relative_to(artifacts)): path for path in artifacts.rglob("*")}
    texts = {name: path.read_bytes() for name, path in kept.items() if path.is_file()}
    shown |= {n: data.decode(errors="replace") for n, data in texts.items() if b"\0" not in data}
    target, host_key, key = secrets.values()
    wanted = [target, target.partition("@")[2], target.rpartition(":")[2], *key.splitlines()]
    found = [(where, word[:12]) for where, text in shown.items() for word in wanted if word in text]
    found += [(where, "name") for where in kept for word in wanted if word in where]
    assert found == []
    # A run records which host key it verified; the log shows no secret at all
    assert host_key not in job.log.text + job.summary


def test_a_pass_on_the_gpu_that_was_asked_for(on_host: Callable[..., Any]) -> None:
    job, artifacts = on_host("pass")
    assert job.conclusion == "success", show(job)
    assert job.step("Assert that the GPU").outcome == "success"
    assert job.step("Profile").outcome == "skipped"
    (run,) = runs_of(artifacts)
    stages = json.loads((run / "run.json").read_text())["stages"]
    assert {(s["device"], s["machine"]) for s in stages if s["kind"] == "exit status"} == {
        ("gpu", "NVIDIA H200")
    }
    said = "# pass, of the exit status only: stand_in, sm_90a, production"
    assert job.summary.startswith(said)
    assert "built from**: commit " in job.summary
    assert " with changes " not in job.summary
    assert job.log.annotations == []


def test_a_failing_kernel_fails_the_job_and_its_results_are_uploaded(
    on_host: Callable[..., Any],
) -> None:
    job, artifacts = on_host("fail", "fail")
    assert job.conclusion == "failure"
    assert job.step("Test on the host").exit_code == 1, show(job)
    assert job.step("Assert that the GPU").outcome == "skipped"
    (run,) = runs_of(artifacts)
    assert any(v.startswith("failure") for v in read_junit(run).values())
    assert job.summary.startswith("# fail: stand_in")
    ours, exit_code = job.log.annotations
    assert "program" in ours.title
    assert exit_code.message == "Process completed with exit code 1."


def test_another_gpu_than_was_asked_for_is_no_pass(on_host: Callable[..., Any]) -> None:
    job, artifacts = on_host("other", gpu="NVIDIA B200")
    assert job.conclusion == "failure"
    assert job.step("Test on the host").exit_code != 0, show(job)
    for run in runs_of(artifacts):
        assert not json.loads((run / "run.json").read_text()).get("shipped")


def test_a_profile_without_ncu_on_the_host_fails_the_job_after_the_test(
    on_host: Callable[..., Any],
) -> None:
    job, artifacts = on_host("profile", profile=True)
    assert job.step("Test on the host").outcome == "success", show(job)
    assert job.step("Profile on the host").outcome == "failure"
    assert job.conclusion == "failure"
    assert len(runs_of(artifacts)) == 2


def test_a_cancelled_job_leaves_its_reports(on_host: Callable[..., Any], host: Sshd) -> None:
    def hangs(log: JobLog) -> bool:
        return any(host.home.rglob("stages/*/*.stdout.log"))

    shutil.rmtree(host.home / ".kernelrig/runs", ignore_errors=True)
    job, artifacts = on_host("cancelled", "hang", cancel_when=hangs)
    assert job.conclusion == "cancelled"
    assert job.step("Test on the host").exit_code == 6, show(job)
    assert job.step("Assert that the GPU").outcome == "skipped"
    (run,) = runs_of(artifacts)
    assert (run / "junit.xml").is_file()
    assert "collect" in (run / "summary.md").read_text()
    assert job.summary
    end_what_runs(host)


def end_what_runs(host: Sshd) -> None:
    """A cancelled job leaves its stage running on the host: here it is the test's to end."""
    marker = os.fsencode(host.home)
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = environ.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"HOME=" + marker in words and any(w.startswith(b"KERNELRIG_RUN=") for w in words):
            os.kill(int(environ.parent.name), 9)
