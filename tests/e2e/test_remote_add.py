"""A rented host made known, used and tidied up by the commands a user types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from kernelrig import config
from kernelrig.remote.ssh.known_hosts import parse_host_key

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject
from tests.remote.sshd_fixture import Sshd
from tests.workflows.joblog import JobLog


def test_a_host_is_pinned_by_its_fingerprint_used_and_pruned(
    make: MakeProject, host: LoopbackHost
) -> None:
    project, key = make(), parse_host_key(host.sshd.host_key)
    added = project.invoke(
        "remote-add", "rented", f"{host.sshd.user}@{host.address}",
        "--fingerprint", key.fingerprint, "--arch", "sm_90a",
        "--identity-file", str(host.sshd.identity),
    )  # fmt: skip
    assert (added.exit_code, added.sentences) == (0, [])
    assert added.progress == [f"host key of {host.address}: {key}"]
    assert added.stdout == (
        "remotes.local.yaml: remote 'rented' written;"
        " is it worth its price? `ci/invoke doctor --remote rented`\n"
    )
    assert config.load_remotes(project.root)["rented"].host_key == host.sshd.host_key

    ran = project.test("passes", "brief", remote="rented")
    assert (ran.exit_code, ran.sentences) == (0, [])
    runs = host.sshd.home / ".kernelrig/runs"
    assert [p.name for p in runs.iterdir()] == [ran.folder.name]

    for path in (runs / ran.folder.name, runs / ran.folder.name / "journal.jsonl"):
        os.utime(path, (0, 0))  # one that has just ended is kept: its client may come back
    pruned = project.invoke("clean", "--remote", "rented", "--days", "0")
    assert (pruned.exit_code, pruned.sentences) == (0, [])
    assert re.fullmatch(r"freed 0\.[1-9] MB on rented\n", pruned.stdout)
    assert list(runs.iterdir()) == []
    assert (ran.folder / "manifest.json").is_file()


def test_in_actions_the_log_shows_no_part_of_the_address(
    make: MakeProject, start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    """GitHub masks the secret USER@HOST:PORT as a whole; its parts are for us to name."""
    host = LoopbackHost(start_sshd(), tmp_path / "host")
    project, key = make(), parse_host_key(host.sshd.host_key)
    target = f"{host.sshd.user}@{host.address}"
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project.root)}
    log = JobLog(project.root, secrets=(target, key.fingerprint))

    def show(answer: Answer) -> None:
        for line in (answer.stderr + answer.stdout).splitlines():
            log.write(line)

    show(
        project.invoke(
            "remote-add", "rented", target, "--fingerprint", key.fingerprint,
            "--arch", "sm_90a", "--identity-file", str(host.sshd.identity), env=actions,
        )
    )  # fmt: skip
    assert f"host key of {host.address}".replace(host.address, "***") in log.text
    with (project.root / "remotes.local.yaml").open("a") as f:
        f.write("    boot_s: 0.5\n")
    # Each process has to say it
    log = JobLog(project.root, secrets=(target,))
    show(project.test("passes", "brief", remote="rented", env=actions))
    host.sshd.stop()
    show(project.test("passes", "brief", remote="rented", env=actions))
    assert "remote 'rented' refused the connection" in log.text
    assert "remote 'rented': ***" in log.text
    for secret in (host.sshd.host, str(host.sshd.port), str(host.sshd.identity)):
        assert secret not in log.text
        assert all(secret not in a.title + a.message for a in log.annotations)


def test_a_fingerprint_of_another_host_is_refused_and_nothing_written(
    make: MakeProject, host: LoopbackHost
) -> None:
    project, shown = make(), parse_host_key(host.sshd.host_key)
    wanted = "SHA256:" + 43 * "A"
    answer = project.invoke("remote-add", "rented", host.address, "--fingerprint", wanted)
    assert (answer.exit_code, answer.stdout) == (4, "")
    assert answer.sentences == [
        f"{host.address} does not have the key {wanted}: it shows {shown};"
        " nothing was written; is the address right, is the fingerprint that of this host?"
    ]
    assert not (project.root / "remotes.local.yaml").exists()


def test_what_is_no_fingerprint_is_refused_before_the_host_is_asked(
    make: MakeProject, host: LoopbackHost
) -> None:
    answer = make().invoke("remote-add", "rented", host.address, "--fingerprint", "MD5:16:27:ac")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences == [
        "'MD5:16:27:ac' is not a SHA256 fingerprint;"
        " give it as `ssh-keygen -lf FILE` prints it: SHA256: and 43 characters"
    ]
