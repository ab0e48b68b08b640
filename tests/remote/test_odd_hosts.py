"""Hosts that are set up in an odd way: one sentence each, and nothing is shipped to them."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from kernelrig.model import DeviceKind, Host, Outcome, Plan
from kernelrig.remote.host_link import connect_host
from kernelrig.remote.protocol import HostRefused
from kernelrig.stages import judge_preflight

from tests.remote.local_host import PYTHON, LocalHost, job, shell
from tests.stages import bench

SYSTEM_PYTHON = "/usr/bin/python3"


def refusal(host: LocalHost, workdir: str | None = None, python: str = PYTHON) -> str:
    remote = replace(host.remote, workdir=workdir or str(host.workdir), python=python)
    with pytest.raises(HostRefused) as error:
        connect_host(host.opener, remote).close()
    return error.value.message


def test_a_workdir_that_is_a_file(host: LocalHost) -> None:
    host.workdir.write_text("")
    hint = "name another `workdir` for this remote"
    assert refusal(host) == f"host: the workdir is no folder: a file is in its place; {hint}"


def test_a_home_that_is_no_folder(host: LocalHost) -> None:
    host.opener.before = "export HOME=/dev/null; "
    assert refusal(host, "~/.kernelrig") == (
        "host: the workdir is no folder: a file is in its place;"
        " name another `workdir` for this remote"
    )


def test_a_login_without_a_home(host: LocalHost) -> None:
    """Of a user that no database knows, as in containers that are started with a number."""
    if os.geteuid():
        pytest.skip("becoming another user needs root")
    if not Path(SYSTEM_PYTHON).is_file():
        pytest.skip("another user may not read the tests' own python")
    host.opener.before = "unset HOME; exec setpriv --reuid=54321 --clear-groups sh -c '\"$@\"' "
    assert refusal(host, "~/.kernelrig", SYSTEM_PYTHON) == (
        "host: the login has no home for the workdir:"
        " set HOME there, or an absolute `workdir` for this remote"
    )


def test_an_absolute_workdir_needs_no_home(host: LocalHost) -> None:
    host.opener.before = "unset HOME; "
    (result,), _ = host.run([job("smoke", shell("a", ":"))])
    assert result.commands[0].exit_code == 0


def test_a_host_without_proc(host: LocalHost) -> None:
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("hiding /proc needs root")
    hide = 'mount -t tmpfs none /proc && shift && exec "$@"'
    host.opener.before = f"exec unshare -m sh -c '{hide}' sh "
    assert refusal(host) == (
        "host: there is no /proc on this host: no process of a run could be ended"
    )


def test_folders_of_the_path_that_cannot_be_read_are_passed_over(host: LocalHost) -> None:
    host.on_path("cuda-gdb", 'echo "NVIDIA (R) cuda-gdb 13.0"')
    host.opener.path = f"/{'x' * 300}:/dev/null:{host.opener.path}"
    assert host.link().facts.tools["cuda-gdb"].version == "13.0"


Device = Literal[DeviceKind.GPU, DeviceKind.EMULATOR]


def preflight(host: Host, device: Device) -> dict[str, tuple[Outcome, str]]:
    remote = replace(bench.H200, device=device)
    record = judge_preflight(bench.KERNEL, tuple(bench.BUILDS), host, remote, Plan("p", ()))
    return {c.name: (c.verdict.outcome, c.verdict.summary) for c in record.checks}


@pytest.mark.parametrize(
    ("machine", "device", "outcome"),
    [
        ("x86_64", DeviceKind.GPU, Outcome.PASS),
        ("aarch64", DeviceKind.GPU, Outcome.ERROR),
        ("aarch64", DeviceKind.EMULATOR, None),
        ("", DeviceKind.GPU, None),
    ],
)
def test_a_host_of_another_instruction_set_is_refused(
    machine: str, device: Device, outcome: Outcome | None
) -> None:
    checks = preflight(replace(bench.HOST, machine=machine), device)
    found, said = checks.get("instruction set", (None, ""))
    assert found is outcome
    assert outcome is not Outcome.ERROR or said == (
        "host-17 is aarch64, and the programs are built for x86_64; choose another remote"
    )


def test_the_probe_names_the_instruction_set(host: LocalHost) -> None:
    assert host.link().facts.machine == os.uname().machine


AHEAD = """
import time

real = time.time
time.time = lambda: real() + 400 * 86400.0
"""


def test_a_clock_that_is_ahead_does_not_prune_what_is_new(host: LocalHost) -> None:
    host.run([job("smoke", shell("a", ":"))])
    run, days = host.workdir / "runs/run-1", 86400.0
    ahead = host.file("ahead/sitecustomize.py", AHEAD).parent
    host.opener.before = f"export PYTHONPATH={ahead}; "
    assert host.link().clean(14) == 0
    assert run.is_dir()
    for path in (run, run / "journal.jsonl"):
        os.utime(path, (time.time() - 15 * days,) * 2)
    assert host.link().clean(14) > 0
    assert not run.exists()
