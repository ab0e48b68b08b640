from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from kernelrig.model import Remote
from kernelrig.proc import run_process
from kernelrig.remote import connect

from tests.remote.sshd_fixture import Sshd


def ship_twice(remote: Remote, root: Path) -> tuple[int, int]:
    """Ship one file over two links of their own; return the bytes that each sent."""
    file = root / "file"
    file.write_bytes(b"some bytes\0" * 1000)
    files = {hashlib.sha256(file.read_bytes()).hexdigest(): file}
    sent = []
    for _ in range(2):
        with connect(remote, root=root) as link:
            sent.append(link.ship(files).bytes_sent)
    return sent[0], sent[1]


def test_an_embedded_remote_is_this_machine_through_our_own_ssh_host(tmp_path: Path) -> None:
    remote = Remote("self", "sm_90a", kind="embedded", workdir=str(tmp_path / "host"))
    assert ship_twice(remote, tmp_path) == (11_000, 0)
    with connect(remote, root=tmp_path) as link:
        assert link.facts.hostname == run_process(["uname", "-n"]).stdout.strip()


def test_a_real_sshd_gets_the_same(sshd: Sshd, tmp_path: Path) -> None:
    remote = sshd.remote(workdir=str(tmp_path / "host"))
    assert ship_twice(remote, tmp_path) == (11_000, 0)


def test_a_relative_identity_file_is_read_from_the_repository(sshd: Sshd, tmp_path: Path) -> None:
    shutil.copy(sshd.identity, tmp_path / "key")
    remote = replace(sshd.remote(workdir=str(tmp_path / "host")), identity_file="key")
    with connect(remote, root=tmp_path) as link:
        assert link.facts.free_bytes
    assert (tmp_path / "host/runs").is_dir()
