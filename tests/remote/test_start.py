"""An agent that does not start says why, in one sentence."""

from __future__ import annotations

import subprocess

import pytest
from kernelrig.remote.protocol import HostRefused

from tests.remote.local_host import PYTHON, LocalHost, job, shell


def starts_with(host: LocalHost, script: str) -> str:
    """Start a run whose daemon is `script` in place of python, and return the refusal.

    The agent starts itself anew by the path of its interpreter: a link to this one, replaced once
    the client's session runs.
    """
    python = host.folder / "bin/python"
    python.parent.mkdir()
    python.symlink_to(PYTHON)
    host.python = str(python)
    link = host.link()
    python.unlink()
    if script:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    with pytest.raises(HostRefused) as error:
        link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
    assert not (host.workdir / "runs/run-1").exists()
    return error.value.message


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -SEGV $$", "python was ended by SIGSEGV: it printed nothing"),
        (
            "echo trouble >&2; kill -KILL $$",
            "python was ended by SIGKILL (the kernel does that when memory is short): trouble",
        ),
        ("echo 'no module named os' >&2; exit 3", "python exited with 3: no module named os"),
        ("", "{python} cannot be started: No such file or directory: it printed nothing"),
    ],
)
def test_a_python_that_does_not_detach_is_named_with_its_last_words(
    host: LocalHost, script: str, said: str
) -> None:
    told = said.format(python=host.folder / "bin/python")
    assert starts_with(host, script) == f"host: the agent did not start: {told}"


def test_an_agent_that_detached_and_died_is_named_at_once(host: LocalHost) -> None:
    """As one that the kernel kills for its memory: nothing of it is left to wait for."""
    said = starts_with(host, "(sleep 0.1; echo 'MemoryError' >&2) &")
    told = "it ended before its first line: MemoryError"
    assert said == f"host: the agent did not start: {told}"


def test_a_full_disk_is_the_reason_given(small_host: LocalHost) -> None:
    link = small_host.link()
    full = subprocess.run(["dd", "if=/dev/zero", "of=filler"], cwd=small_host.workdir, check=False)
    assert full.returncode
    with pytest.raises(HostRefused) as error:
        link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
    assert error.value.kind == "full"
    assert "the disk is full" in error.value.message
    (small_host.workdir / "filler").unlink()
    link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
