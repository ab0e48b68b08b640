"""What a stage's key holds: what can change its result changes it, a drawn seed does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pytest
from kernelrig.model import (
    Command,
    DeviceKind,
    Plan,
    Purpose,
    Run,
    Stage,
    StageJob,
    StageKind,
    Tool,
)
from kernelrig.remote.transfer import Missing
from kernelrig.run import reuse, store
from kernelrig.run.executors import host
from kernelrig.run.executors.host import UploadSet
from kernelrig.run.prepare import prepare_run
from kernelrig.run.requests import RunRequest
from kernelrig.run.store import RunDirectory

from tests.report import runs

ROOT = Path(__file__).parents[2]
SHIPPED = {"build/siglip_vision": "aa" * 32, "build/selftest": "bb" * 32}
ENV = {"CUDA_VISIBLE_DEVICES": "0"}
JOBS = (
    StageJob("smoke", StageKind.CHECKSUM, (Command("integer-0", ("p", "--seed", "0"), 30.0),)),
    StageJob("memcheck", StageKind.SANITIZER, (Command("memcheck", ("m", "p"), 60.0),)),
    StageJob("racecheck", StageKind.SANITIZER, (Command("racecheck", ("r", "p"), 60.0),)),
    StageJob("absent", StageKind.CHECKSUM, ()),
    StageJob("timing", StageKind.TIMING, (Command("timing", ("p", "--mode", "time"), 60.0),)),
)
HOST = replace(
    runs.HOST,
    gpus=({"name": "NVIDIA H200", "compute_cap": "9.0", "driver_version": "580.159.04"},),
    tools={"compute-sanitizer": Tool("/usr/bin/compute-sanitizer", "2025.3.1", ("--xml",))},
)


def run_of(
    device: Literal[DeviceKind.GPU, DeviceKind.EMULATOR] = DeviceKind.GPU,
) -> Run:
    plan = Plan("default", tuple(Stage(j.name, j.kind) for j in JOBS))
    return Run(
        id="20261125T120000Z-patch_embed-h200-0000",
        kernel=runs.KERNEL,
        variant="production",
        arch="sm_90a",
        remote=replace(runs.H200, device=device),
        plan=plan,
        provenance=runs.PROVENANCE,
        started_utc="2026-11-25T12:00:00Z",
        state="prepared",
        host=HOST,
        seed=7,
    )


def keys(run: Run, **changed: object) -> dict[str, str]:
    given = {"jobs": JOBS, "digests": SHIPPED, "env": ENV, **changed}
    return reuse.stage_keys(RunDirectory(Path(), Path(), run), **given)  # type: ignore[arg-type]


def with_host(**changed: object) -> Run:
    return replace(run_of(), host=replace(HOST, **changed))  # type: ignore[arg-type]


def with_gpu(**changed: str) -> Run:
    return with_host(gpus=({**HOST.gpus[0], **changed},))


def test_what_has_commands_and_judges_results_has_a_key_of_its_own() -> None:
    found = keys(run_of())
    assert list(found) == ["smoke", "memcheck", "racecheck"]
    assert len(set(found.values())) == 3


@pytest.mark.parametrize(
    "same",
    [
        replace(run_of(), seed=8),
        replace(run_of(), id="20261125T130000Z-patch_embed-h200-1111", purpose=Purpose.PROFILE),
        with_host(hostname="host-18", free_bytes=1 << 30),
        with_gpu(uuid="GPU-2", **{"power.draw": "84.1"}),
    ],
    ids=["drawn seed", "run", "host of the class", "card of the class"],
)
def test_a_key_is_the_same_where_the_question_is(same: Run) -> None:
    assert keys(same) == keys(run_of())


@pytest.mark.parametrize(
    "changed",
    [
        lambda: keys(run_of(), digests={**SHIPPED, "build/siglip_vision": "ac" * 32}),
        lambda: keys(run_of(), digests={**SHIPPED, "files/input.npy": "dd" * 32}),
        lambda: keys(run_of(), env={}),
        lambda: keys(run_of(), env={"CUDA_VISIBLE_DEVICES": "1"}),
        lambda: keys(replace(run_of(), arch="sm_100a")),
        lambda: keys(replace(run_of(), kernel=replace(runs.KERNEL, name="other"))),
        lambda: keys(
            replace(run_of(), provenance=replace(runs.PROVENANCE, builds={"a": "another build"}))
        ),
        lambda: keys(with_gpu(name="NVIDIA B200")),
        lambda: keys(with_gpu(compute_cap="10.0")),
        lambda: keys(with_gpu(driver_version="580.200.01")),
        lambda: keys(with_gpu(**{"mig.mode.current": "Enabled"})),
        lambda: keys(with_host(driver="590.1")),
        lambda: keys(with_host(glibc="2.40")),
        lambda: keys(with_host(tools={"compute-sanitizer": Tool("", "2026.1", ("--xml",))})),
        lambda: keys(with_host(tools={"compute-sanitizer": Tool("", "2025.3.1", ())})),
        lambda: keys(run_of(DeviceKind.EMULATOR)),
    ],
)
def test_what_any_result_depends_on_changes_every_key(
    changed: Callable[[], dict[str, str]],
) -> None:
    found, usual = changed(), keys(run_of())
    assert found.keys() == usual.keys()
    assert [name for name in usual if found[name] == usual[name]] == []


def test_another_version_of_this_package_changes_every_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = keys(run_of())
    monkeypatch.setattr(reuse, "package_digest", lambda: "another")
    assert set(keys(run_of()).values()).isdisjoint(usual.values())


def with_command(index: int, **changed: object) -> tuple[StageJob, ...]:
    jobs = list(JOBS)
    (command,) = jobs[index].commands
    jobs[index] = replace(jobs[index], commands=(replace(command, **changed),))  # type: ignore[arg-type]
    return tuple(jobs)


@pytest.mark.parametrize(
    "changed", [{"argv": ("m", "p", "--more")}, {"time_s": 61.0}, {"env": {"A": "1"}}]
)
def test_what_one_stage_asks_changes_its_key_alone(changed: dict[str, object]) -> None:
    usual, found = keys(run_of()), keys(run_of(), jobs=with_command(1, **changed))
    assert [n for n in usual if found[n] != usual[n]] == ["memcheck"]


def test_sanitizers_that_share_an_emulation_depend_on_what_all_of_them_ask() -> None:
    emulated = run_of(DeviceKind.EMULATOR)
    usual, found = keys(emulated), keys(emulated, jobs=with_command(1, argv=("m", "q")))
    assert [n for n in usual if found[n] != usual[n]] == ["memcheck", "racecheck"]


REMOTES = """\
schema: 2
remotes:
  host: {kind: embedded, arch: sm_90a}
  emulated: {kind: embedded, arch: sm_90a, device: emulator}
"""


@pytest.mark.parametrize(
    ("request_", "reuses", "offers"),
    [
        (RunRequest("host", kernel="patch_embed"), True, True),
        (RunRequest("emulated", kernel="patch_embed"), True, True),
        (RunRequest("host", kernel="patch_embed", fresh=True), False, True),
        (RunRequest("host", kernel="patch_embed", require_device="NVIDIA H200"), False, True),
        (RunRequest("host", kernel="patch_embed", seed=7), False, False),
        (
            RunRequest("host", kernel="patch_embed", plan="profile", purpose=Purpose.PROFILE),
            False,
            False,
        ),
    ],
)
def test_who_wants_it_run_gets_it_run(
    tmp_path: Path, request_: RunRequest, reuses: bool, offers: bool
) -> None:
    shutil.copytree(ROOT / "kernel", tmp_path / "kernel")
    (tmp_path / "remotes.yaml").write_text(REMOTES)
    prepared = prepare_run(tmp_path, request_)
    assert (prepared.reuses, prepared.offers) == (reuses, offers)


def test_files_of_equal_content_are_shipped_once_and_each_has_its_digest(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).write_bytes(b"the same")
    digest = sha256(b"the same").hexdigest()
    files = {f"launches/{n}": tmp_path / n for n in ("a.npy", "b.npy")}
    upload = UploadSet(files, {digest: tmp_path / "b.npy"})
    assert upload.digests == dict.fromkeys(files, digest)


class EverythingCame:
    """A link over which all files of a run have come."""

    def bring_back(self, *_: object) -> Missing:
        return Missing()


def test_a_run_is_not_collected_before_it_has_the_files_of_reused_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client killed as it copies them leaves a run that `collect` brings back once more."""

    def killed(_: RunDirectory) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "bring_reused", killed)
    directory = store.open_run(tmp_path, replace(run_of(), state="launched"))
    with pytest.raises(KeyboardInterrupt):
        host.bring_back(directory, EverythingCame())  # type: ignore[arg-type]
    assert store.load_run(tmp_path, directory.run.id).run.state == "launched"
