"""One run at a time has a GPU: across work folders, users, killed agents and hostile files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from kernelrig.errors import RemoteError
from kernelrig.model import Host, Remote, alone, with_gpus
from kernelrig.remote import host_link
from kernelrig.remote.agent import lease as leases
from kernelrig.remote.agent import lease_folder
from kernelrig.remote.agent.lease import Held, Lease, holder_of
from kernelrig.remote.agent.refusal import Refused

from tests.remote.local_host import LocalHost, job, shell

GPU = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
OTHER = "GPU-11111111-2222-3333-4444-555555555555"
NOBODY = 65534
SMI = f"""
case "$1" in
*,compute_cap,*)
  echo "NVIDIA H200, {GPU}, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0"
  echo "NVIDIA H200, {OTHER}, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0"
  ;;
--version) echo "NVIDIA-SMI version  : 580.1" ;;
esac
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "leases"
    monkeypatch.setenv(lease_folder.VARIABLE, str(path))
    return path


def taken(run: str, *gpus: str) -> Lease:
    lease = Lease(run, list(gpus or (GPU,)), 60.0)
    lease.take()
    return lease


def change(record: Path, **fields: object) -> None:
    """Put other values into a record, as its owner can."""
    text = record.read_bytes()
    beat = f"{fields.pop('beat'):23.3f}\n".encode() if "beat" in fields else text[:24]
    record.write_bytes(beat + json.dumps({**json.loads(text[24:]), **fields}).encode())


def test_a_second_run_is_refused_with_owner_and_times_until_the_first_ends() -> None:
    first = taken("run-a")
    with pytest.raises(Held) as held:
        taken("run-b")
    said = str(held.value)
    assert said.startswith(f"{GPU} is leased by {leases.login(os.geteuid())} for run run-a since 2")
    assert said.endswith("Z at the latest")
    assert holder_of(GPU) == said
    first.drop()
    assert holder_of(GPU) == ""
    taken("run-b").drop()


def test_all_gpus_are_taken_or_none() -> None:
    first = taken("run-a", OTHER)
    with pytest.raises(Held):
        taken("run-b", GPU, OTHER)
    assert holder_of(GPU) == ""
    first.drop()


def test_runs_that_wait_get_the_gpu_in_their_order() -> None:
    first = taken("run-a")
    waiting = [Lease(run, [GPU], 60.0) for run in ("run-c", "run-b")]
    for place, lease in enumerate(waiting, 1):
        with pytest.raises(Held) as held:
            lease.take(wait=True)
        assert held.value.position == place
    assert waiting[0].await_turn()["position"] == 1  # asking again keeps the place
    first.drop()
    with pytest.raises(Held, match=f"runs that wait for {GPU}: 2"):
        taken("run-d")
    with pytest.raises(Held, match=f"runs that wait for {GPU}: 1"):
        waiting[1].take(wait=True)
    assert waiting[0].await_turn() == {"free": True, "text": "", "position": 0}
    waiting[0].take()
    assert not waiting[1].await_turn()["free"]
    waiting[0].drop()
    waiting[1].take()
    waiting[1].drop()


def test_one_that_no_longer_waits_is_before_nobody_and_leaves_no_file(folder: Path) -> None:
    assert Lease("run-a", [GPU], 60.0).await_turn()["free"]
    (waits,) = folder.glob("*.wait")
    change(waits, start=1)
    taken("run-b").drop()
    assert [path.name for path in folder.iterdir()] == [f"{GPU}.mutex"]


def test_the_daemon_takes_over_what_the_launch_leased_also_past_a_queue() -> None:
    launched, queued = taken("run-a"), Lease("run-b", [GPU], 60.0)
    assert not queued.await_turn()["free"]
    daemon = taken("run-a")
    launched.drop()  # too late: the record is the daemon's
    assert "run-a" in holder_of(GPU)
    daemon.drop()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"boot": "another"}, "the host was booted since"),
        ({"start": 1}, "its process {pid} is gone"),
        ({"beat": -1e6}, "its process {pid} gave no sign of life for 120 s"),
        ({"beat": 1e15}, "its process {pid} gave no sign of life for 120 s"),
    ],
)
def test_a_stale_lease_is_broken_and_that_is_said(
    folder: Path, fields: dict[str, object], why: str
) -> None:
    first = taken("run-a")
    (record,) = folder.glob("*.lease")
    change(record, **fields)
    second = taken("run-b")
    (said,) = second.broken
    assert said.startswith(f"a stale lease was broken: {GPU} is leased by ")
    assert said.endswith(f"; {why.format(pid=os.getpid())}")
    first.drop()
    assert "run-b" in holder_of(GPU)
    second.drop()


def test_a_run_that_was_stopped_for_too_long_hears_that_it_lost_its_gpu(folder: Path) -> None:
    first = taken("run-a")
    (record,) = folder.glob("*.lease")
    change(record, beat=-1e6)
    second = taken("run-b")
    first.beaten -= 2 * leases.STALE_S
    lost = first.beat()
    assert lost.startswith(f"this run did not beat for 120 s, and {GPU} is ")
    second.drop()
    first.drop()


def test_a_run_that_was_stopped_and_not_replaced_goes_on() -> None:
    lease = taken("run-a")
    lease.beaten -= 2 * leases.STALE_S
    assert lease.beat() == ""
    lease.drop()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b"x" * 24 + b"[" * 5000])
def test_a_record_that_is_none_holds_nothing(folder: Path, content: bytes) -> None:
    taken("run-a").drop()
    (folder / f"{GPU}.{os.geteuid()}.lease").write_bytes(content)
    taken("run-b").drop()


def test_nothing_is_opened_or_removed_through_a_link(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    taken("run-a").drop()
    (folder / f"{GPU}.{os.geteuid()}.lease").symlink_to(victim)
    taken("run-b").drop()
    (folder / f"{GPU}.mutex").unlink()
    (folder / f"{GPU}.mutex").symlink_to(victim)
    with pytest.raises(Refused, match="of the leases is no file"):
        taken("run-c")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "file", "private"])
def test_a_folder_that_is_none_is_refused_with_what_to_do(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    elif kind == "private":
        folder.mkdir(0o755)
    else:
        folder.write_text("")
    with pytest.raises(Refused, match=r"no GPU can be leased: .*; remove it, or name another"):
        taken("run-a")


# The same, from the process of another user.
AS_NOBODY = f"""
import os, sys
from kernelrig.remote.agent.lease import Held, Lease
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
try:
    lease = Lease("run-b", ["{GPU}"], 60.0)
    lease.take()
    print("taken", *lease.broken, flush=True)
    sys.stdin.read()
except Held as e:
    print(e)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root to be started")
def test_two_users_share_the_folder_and_neither_touches_the_others_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    argv = [sys.executable, "-c", AS_NOBODY]
    with tempfile.TemporaryDirectory(prefix="kernelrig-leases-") as shared:
        Path(shared).chmod(0o755)  # pytest's own folders are closed to other users
        monkeypatch.setenv(lease_folder.VARIABLE, f"{shared}/leases")
        own = taken("run-a")
        refused = subprocess.run(argv, input="", capture_output=True, text=True, check=True)
        assert refused.stdout.startswith(f"{GPU} is leased by root for run run-a since ")
        own.drop()
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "taken\n"
            with pytest.raises(Held, match="is leased by nobody for run run-b"):
                taken("run-c")
            other.kill()
            other.wait()
        third = taken("run-d")
        assert third.broken[0].endswith("is gone")
        third.drop()


# through a host


def test_a_run_leases_its_gpu_shows_it_to_its_programs_and_gives_it_back(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    link = host.link()
    assert (link.facts.leased, link.facts.visible_devices) == ((GPU,), GPU)
    show = shell("show", f"echo $CUDA_VISIBLE_DEVICES; ls {os.environ[lease_folder.VARIABLE]}")
    jobs = [job("smoke", show)]
    link.launch("run-1", jobs, {}, stop_at_first=False, lease=True)
    assert link.bring_back("run-1", host.back, jobs, lambda _: None).names == ()
    said = (host.back / "stages/01-smoke/show.stdout.log").read_text().split()
    assert said == [GPU, f"{GPU}.{os.geteuid()}.lease", f"{GPU}.mutex"]
    assert holder_of(GPU) == ""


def test_a_gpu_that_another_run_has_is_refused_before_anything_starts(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    own = taken("run-of-somebody")
    link = host.link()
    assert "run-of-somebody" in link.facts.gpus[0]["lease"]
    with pytest.raises(RemoteError) as refused:
        link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False, lease=True)
    assert "is leased by" in refused.value.message
    assert "--wait MINUTES" in refused.value.hint
    assert not (host.workdir / "runs/run-1").exists()
    own.drop()


def test_a_run_that_may_wait_gets_the_gpu_when_the_other_ends(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.on_path("nvidia-smi", SMI)
    own, said = taken("run-of-somebody"), list[str]()

    def hear(text: str) -> None:
        said.append(text)
        own.drop()

    monkeypatch.setattr(host_link, "say", hear)
    link, until = host.link(), time.monotonic() + 30.0
    link.await_gpus("run-1", until)
    assert said[0].startswith(f"waiting: place 1 in the queue: {GPU} is leased by ")
    assert link.facts.gpus[0]["lease"] == ""  # probed anew
    jobs = [job("smoke", shell("a", ":"))]
    link.launch("run-1", jobs, {}, stop_at_first=False, lease=True, wait_until=until)
    link.bring_back("run-1", host.back, jobs, lambda _: None)
    assert (len(said), holder_of(GPU)) == (1, "")


def test_a_killed_agent_leaves_no_lease_that_counts(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    link, jobs = host.link(), [job("smoke", shell("kill", "kill -KILL $PPID; sleep 1000"))]
    link.launch("run-1", jobs, {}, stop_at_first=False, lease=True)
    link.bring_back("run-1", host.back, jobs, lambda _: None)
    assert holder_of(GPU) == ""
    after = taken("run-2")
    assert after.broken[0].endswith("is gone")
    after.drop()


@pytest.mark.parametrize(
    ("wanted", "env", "leased", "visible"),
    [
        ("", {}, (GPU,), GPU),
        ("", {"CUDA_VISIBLE_DEVICES": "1"}, (OTHER,), ""),
        ("", {"CUDA_VISIBLE_DEVICES": "1,0"}, (OTHER, GPU), ""),
        ("", {"CUDA_VISIBLE_DEVICES": "9"}, (), ""),
        (1, {}, (OTHER,), OTHER),
        ("GPU-111", {}, (OTHER,), OTHER),
        ("all", {}, (GPU, OTHER), f"{GPU},{OTHER}"),
        ("any", {}, (OTHER,), OTHER),
        (7, {}, (), ""),
    ],
)
def test_a_remote_says_which_gpus_a_run_leases_and_sees(
    wanted: int | str, env: dict[str, str], leased: tuple[str, ...], visible: str
) -> None:
    gpus = ({"uuid": GPU}, {"uuid": OTHER, "lease": ""})
    found = Host("h", "3.12", "2.39", 1, gpus=gpus, gpu_processes=(f"{GPU}, 17, train, 9",))
    host = with_gpus(found, Remote("r", "sm_90a", gpus=wanted, env=env))
    assert (host.leased, host.visible_devices) == (leased, visible)
    assert host.gpu.get("uuid", "") == (leased[0] if leased else "")


def test_a_host_with_one_gpu_keeps_the_environment_that_it_has() -> None:
    host = with_gpus(Host("h", "3.12", "2.39", 1, gpus=({"uuid": GPU},)), Remote("r", "sm_90a"))
    assert (host.leased, host.visible_devices) == ((GPU,), "")


@pytest.mark.parametrize("wanted", ["", 1, "any", "all", "GPU-111"])
def test_a_run_that_measures_times_leases_all_gpus_and_sees_its_own(wanted: int | str) -> None:
    gpus = ({"uuid": GPU}, {"uuid": OTHER})
    remote = Remote("r", "sm_90a", gpus=wanted)
    meant = with_gpus(Host("h", "3.12", "2.39", 1, gpus=gpus), remote)
    timed = alone(meant, remote)
    assert set(timed.leased) == {GPU, OTHER}
    assert timed.kept_idle == tuple(u for u in (GPU, OTHER) if u not in meant.leased)
    assert with_gpus(timed, remote).kept_idle == ()  # a host has no say in it
    assert (timed.gpu, timed.visible_devices) == (meant.gpu, meant.visible_devices)
    assert not timed.shared_power
    shares = replace(remote, shared_power=True)
    insisted = alone(with_gpus(meant, shares), shares)
    assert insisted.leased == meant.leased
    assert insisted.kept_idle == ()
    assert insisted.shared_power


@pytest.mark.parametrize("kind", ["ssh", "slurm"])
def test_who_insists_has_it_on_record_where_no_other_gpu_is_seen(
    kind: Literal["ssh", "slurm"],
) -> None:
    """A container, or a job of Slurm, shows one GPU of eight."""
    seen = Host("h", "3.12", "2.39", 1, gpus=({"uuid": GPU},))
    remote = Remote("r", "sm_90a", kind=kind, shared_power=True)
    assert alone(with_gpus(seen, remote), remote).shared_power
    assert not alone(with_gpus(seen, remote), replace(remote, shared_power=False)).shared_power
    without = replace(seen, gpus=(), gpu_index=None)
    assert not alone(with_gpus(without, remote), remote).shared_power


def test_times_are_not_measured_while_another_run_has_the_other_gpu(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    own = taken("run-of-somebody", OTHER)
    link = host.link()
    link.timed = True
    assert (link.facts.leased, link.facts.visible_devices) == ((GPU, OTHER), GPU)
    jobs = [job("smoke", shell("show", "echo $CUDA_VISIBLE_DEVICES"))]
    with pytest.raises(RemoteError, match=f"{OTHER} is leased by"):
        link.launch("run-1", jobs, {}, stop_at_first=False, lease=True)
    assert "run-1" not in holder_of(GPU)
    own.drop()
    link.launch("run-1", jobs, {}, stop_at_first=False, lease=True)
    assert link.bring_back("run-1", host.back, jobs, lambda _: None).names == ()
    assert (host.back / "stages/01-smoke/show.stdout.log").read_text() == f"{GPU}\n"
    assert (holder_of(GPU), holder_of(OTHER)) == ("", "")
