"""What neither the schema nor zizmor says of our workflows, and the host's owner relies on."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernelrig.model import Run, StageRecord
from kernelrig.proc import run_process

from tests.workflows.expressions import calls_status
from tests.workflows.runner import SHELL

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def _load(path: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true
    loaded = yaml.safe_load(path.read_text())
    return {("on" if key is True else key): value for key, value in loaded.items()}


GPU = _load(ROOT / ".github" / "workflows" / "gpu.yml")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_hash_with_their_version_beside_it(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_is_pasted_into_a_shell(path: Path) -> None:
    for job in _load(path)["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_may_read_the_repository_and_nothing_more(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read"}


def test_a_forks_pull_request_reaches_no_job_with_secrets() -> None:
    assert "pull_request_target" not in GPU["on"]
    holders = [name for name, job in GPU["jobs"].items() if "secrets." in str(job)]
    assert holders == ["run"]
    # `run` follows `build`, and is skipped with it
    assert GPU["jobs"]["run"]["needs"] == "build"
    # Without a function of the status a condition is one more: those that it needs must succeed
    assert not calls_status(GPU["jobs"]["run"]["if"])
    condition = GPU["jobs"]["build"]["if"]
    assert "github.event.pull_request.head.repo.full_name == github.repository &&" in condition


def test_the_host_is_skipped_by_the_decision_alone_and_never_where_a_profile_is_asked_for() -> None:
    build, run = GPU["jobs"]["build"], GPU["jobs"]["run"]
    assert run["if"].split(" || ") == [
        "needs.build.outputs.needed == 'true'",
        "inputs.profile",
        "github.event.label.name == 'gpu-profile'",
    ]
    assert build["outputs"]["needed"] == "${{ steps.decision.outputs.needed }}"
    steps = {step["id"]: step for step in build["steps"] if "id" in step}
    # It is decided by what was kept under the key, so that it is asked once before and once behind
    assert steps["key"]["run"] == steps["decision"]["run"]
    caches = [s["with"] for j in (build, run) for s in j["steps"] if "passed-on-gpu" in str(s)]
    assert [cache["path"] for cache in caches] == ["artifacts/passed-on-gpu"] * 2
    assert "restore-keys" not in caches[0] | caches[1]
    # What is decided for is what is run
    for words in ('${ONLY:+--only "$ONLY"}', '"$GPU"'):
        assert words in steps["decision"]["run"]
        assert words in _step("Test on the host")["run"]


def test_one_run_a_host_at_a_time_and_none_is_cut_short() -> None:
    assert GPU["jobs"]["run"]["concurrency"] == {"group": "gpu-host", "cancel-in-progress": False}


def test_results_come_back_whatever_happened() -> None:
    upload = GPU["jobs"]["run"]["steps"][-1]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert upload["if"] == "always()"
    assert upload["with"]["path"] == "artifacts/runs"


def test_the_host_is_added_with_a_pinned_key_and_the_gpu_it_must_have() -> None:
    (add,) = [s for s in GPU["jobs"]["run"]["steps"] if "remote-add" in s.get("run", "")]
    for words in ('--fingerprint "$GPU_HOST_FINGERPRINT"', '--arch "$ARCH"', '--gpu "$GPU"'):
        assert words in add["run"]


def _step(name: str) -> dict[str, Any]:
    (step,) = [s for s in GPU["jobs"]["run"]["steps"] if s.get("name", "").startswith(name)]
    return dict(step)


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq, which GitHub's images have")
@pytest.mark.parametrize(
    ("stages", "passes"),
    [
        (
            [
                ("build", "static", ""),  # the record of a build that was given
                ("check", "static", ""),
                ("preflight", "gpu", "NVIDIA H200"),
                ("checksum", "gpu", "NVIDIA H200"),
            ],
            True,
        ),
        ([("checksum", "gpu", "NVIDIA H200"), ("timing", "gpu", "NVIDIA L40S")], False),
        ([("checksum", "cpu", "NVIDIA H200")], False),
        ([("checksum", "emulator", "")], False),
        ([("check", "static", ""), ("preflight", "gpu", "NVIDIA H200")], False),
        (None, False),
    ],
)
def test_the_workflow_fails_where_another_device_answered(
    tmp_path: Path, stages: list[tuple[str, str, str]] | None, passes: bool
) -> None:
    if stages is not None:
        run = tmp_path / "artifacts/runs/one/run.json"
        run.parent.mkdir(parents=True)
        named = [dict(zip(("kind", "device", "machine"), stage, strict=True)) for stage in stages]
        run.write_text(json.dumps({"stages": named}))
    done = run_process(
        [*SHELL, "-c", _step("Assert")["run"]],
        cwd=tmp_path,
        env={**os.environ, "GPU": "NVIDIA H200"},
    )
    assert done.exit_code == (0 if passes else 1)
    assert ("not all of it ran on a NVIDIA H200" in done.stdout) != passes


def test_the_builds_are_unpacked_with_their_modes_in_a_fresh_clone(tmp_path: Path) -> None:
    (tmp_path / "builder/artifacts/builds/x").mkdir(parents=True)
    program = tmp_path / "builder/artifacts/builds/x/program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (pack,) = [s for s in GPU["jobs"]["build"]["steps"] if s.get("name", "").startswith("Pack")]
    clone = tmp_path / "clone"
    clone.mkdir()
    for folder, script in ((program.parents[3], pack["run"]), (clone, _step("Unpack")["run"])):
        done = run_process([*SHELL, "-c", script], cwd=folder)
        assert done.exit_code == 0, done.stderr
        if folder != clone:
            shutil.move(folder / "builds.tar.gz", clone)
    assert (clone / "artifacts/builds/x/program").stat().st_mode & 0o777 == 0o755


def test_a_cancelled_jobs_signals_reach_what_uses_the_host() -> None:
    for name in ("Test on the host", "Profile on the host"):
        assert _step(name)["run"].startswith("exec ci/invoke "), name


def test_the_workflows_own_assertion_reads_fields_that_exist() -> None:
    step = _step("Assert")
    assert "if" not in step
    assert '.device == "gpu" and .machine == $gpu' in step["run"]
    assert "stages" in {f.name for f in fields(Run)}
    assert {"kind", "device", "machine"} <= {f.name for f in fields(StageRecord)}
