"""Programs of a run cannot read the memory of its agent, where they are not root's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.remote.local_host import LocalHost, job, shell

MODULE = Path(__file__).parents[2] / "ci/kernelrig/remote/agent/private_memory.py"
READERS = """\
import os, subprocess, sys
def readable():
    other = f"open('/proc/{os.getpid()}/mem', 'rb')"
    done = subprocess.run([sys.executable, "-c", other], stderr=subprocess.DEVNULL)
    return done.returncode == 0
before, module = readable(), {}
exec(sys.stdin.read(), module)
module["hide_memory"]()
print(before, readable(), len(os.listdir("/proc/self/fd")) > 0)
"""
NOBODY = 65534
OF_ALL = "/usr/bin/python3"
"""Ours may lie in a folder that is root's alone."""


def test_a_process_that_hides_its_memory_is_read_by_no_other_of_its_user() -> None:
    python = sys.executable if os.getuid() else OF_ALL
    user = {} if os.getuid() else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    done = subprocess.run(
        [python, "-c", READERS],
        input=MODULE.read_text(),
        text=True,
        capture_output=True,
        cwd="/",
        check=True,
        **user,  # type: ignore[call-overload]
    )
    before, after, own = done.stdout.split()
    if before == "False":
        pytest.skip("this kernel lets no process read another one's memory (Yama) anyway")
    assert (after, own) == ("False", "True")


IS_DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"


def test_the_process_that_becomes_an_agent_hides_its_memory() -> None:
    prepared = f"from kernelrig.remote.agent import serve; serve.prepare_to_run(); {IS_DUMPABLE}"
    done = subprocess.run(
        [sys.executable, "-c", prepared], text=True, capture_output=True, check=True
    )
    assert done.stdout == "0\n"


def test_programs_of_a_run_are_inspected_as_ever(host: LocalHost) -> None:
    (result,), _ = host.run([job("one", shell("a", f"{sys.executable} -c '{IS_DUMPABLE}'"))])
    assert result.commands[0].exit_code == 0
    assert (host.back / "stages/01-one/a.stdout.log").read_text() == "1\n"
