"""What a remote's entry holds besides its name is in nothing that a run writes or prints."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.files import serialization
from kernelrig.model import RecordedRemote, Remote, Run
from kernelrig.remote.ssh.known_hosts import parse_host_key

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project, run_words
from tests.remote.sshd_fixture import Sshd, free_port, make_key

HOST, JUMP, KEY = "planted-host.example", "planted-jump.example", "planted-identity"
LONG = pytest.mark.long
WORKDIR, VALUE, OWN = "planted-workdir", "planted-value-of-env", "planted-in-the-client"


@dataclass(frozen=True)
class Planted:
    """A project whose remote has something to be kept secret in each field."""

    project: Project
    host: LoopbackHost
    env: dict[str, str]

    @property
    def secrets(self) -> tuple[str, ...]:
        server = self.host.sshd
        address = f"{server.host}:{server.port}"
        return (HOST, JUMP, KEY, WORKDIR, VALUE, OWN, address, str(server.port), "127.0.0.1")

    def invoke(self, *words: str) -> Answer:
        answer = self.project.invoke(*words, env=self.env)
        self.check(answer)
        return answer

    def check(self, answer: Answer) -> None:
        """Look through all that was written, and what was printed for other programs."""
        for secret in self.secrets:
            assert not holds(answer.stdout, secret)
        for secret in (KEY, WORKDIR, VALUE, OWN):
            assert secret not in "".join(answer.sentences)
        runs = self.project.root / "artifacts/runs"
        files = [p for p in runs.rglob("*") if p.is_file() and p.parent.name != "build"]
        assert files
        found = [
            (secret, str(path.relative_to(runs)))
            for path in files
            for secret in self.secrets
            if holds(path.read_bytes().decode("latin-1"), secret) or secret in path.name
        ]
        assert found == []


def holds(text: str, secret: str) -> bool:
    """Say whether a text has a secret; a port by itself, as five digits of a hash are none."""
    if not secret.isdigit():
        return secret in text
    port = rf"(?<![0-9a-fA-F])(?<!\d\.){secret}(?!\.?[0-9a-fA-F])"
    return re.search(port, text) is not None


def test_a_port_is_told_from_digits_of_other_numbers() -> None:
    for text in ("port 56999.", "host:56999/", '"port": 56999}', "56999"):
        assert holds(text, "56999")
    for text in ("0.56999", "156999", "a56999", "56999.25", "56999b"):
        assert not holds(text, "56999")


@pytest.fixture
def planted(make: MakeProject, start_sshd: Callable[..., Sshd], tmp_path: Path) -> Planted:
    server = start_sshd()
    host = LoopbackHost(server, tmp_path / WORKDIR)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    key = home / KEY
    shutil.copy(server.identity, key)
    key.chmod(0o600)
    (home / ".ssh/config").write_text(
        f"Host {HOST} {JUMP}\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"  User {server.user}\n  IdentityFile {key}\n"
    )
    (home / ".ssh/known_hosts").write_text(server.known_hosts_line())
    remote = host.remote(
        host=HOST,
        user="",
        port=0,
        identity_file=str(key),
        jump=JUMP,
        env={"TOKEN": VALUE, "PATH_OF_IT": f"{VALUE}:more"},
        boot_s=0.5,
        give_up_s=5.0,
    )
    environment = {"HOME": str(home), "OWN_TOKEN": OWN}
    return Planted(make(remote), host, environment)


def change(planted: Planted, **changes: object) -> None:
    """Write the remote's entry anew, with other fields."""
    known = config.load_remotes(planted.project.root)["host"]
    config.add_remote(planted.project.root, replace(known, **changes), replace=True)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_run_that_passes_keeps_every_secret(planted: Planted) -> None:
    answer = planted.invoke(*run_words("passes", "quick"))
    assert (answer.exit_code, answer.sentences) == (0, [])
    remote = answer.run.remote
    assert remote is not None
    shown = parse_host_key(planted.host.sshd.host_key).fingerprint
    assert (remote.env, remote.host_key) == (("PATH_OF_IT", "TOKEN"), shown)
    assert planted.invoke("collect", answer.folder.name).exit_code == 0


@LONG
def test_the_variables_reach_the_programs_and_no_file_of_the_host(
    planted: Planted, tmp_path: Path
) -> None:
    (planted.project.root / "kernel/kernels.yaml").write_text(
        (planted.project.root / "kernel/kernels.yaml").read_text().replace(
            '"--say", "before", "--wait-for", "../../../../go", "--say", "after"',
            '"--env", "TOKEN"',
        )
    )  # fmt: skip
    answer = planted.project.invoke(*run_words("waits", "patient"), env=planted.env)
    assert answer.exit_code == 0
    said = answer.folder / "stages/01-program/program.stdout.log"
    assert said.read_text() == f"TOKEN={VALUE}\n"  # what a program prints is its own affair
    there = planted.host.workdir / "runs" / answer.folder.name
    holding = [p.name for p in there.rglob("*") if p.is_file() and VALUE.encode() in p.read_bytes()]
    assert holding == [said.name]


@pytest.mark.parametrize(
    "wrong",
    [
        "another key",
        *(pytest.param(w, marks=LONG) for w in ("no server", "no key file", "no jump host")),
    ],
)
def test_a_run_that_does_not_get_there_keeps_every_secret(
    wrong: str, planted: Planted, tmp_path: Path
) -> None:
    if wrong == "no server":
        planted.host.sshd.stop()
    elif wrong == "another key":
        (tmp_path / "others").mkdir()
        make_key(tmp_path / "others" / KEY)
        change(planted, identity_file=str(tmp_path / "others" / KEY))
    elif wrong == "no key file":
        change(planted, identity_file=str(tmp_path / "nowhere" / KEY))
    else:
        ssh_config = Path(planted.env["HOME"]) / ".ssh/config"
        text = ssh_config.read_text().replace(f" {JUMP}", "")
        ssh_config.write_text(f"{text}Host {JUMP}\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    answer = planted.invoke(*run_words("passes", "quick"))
    assert answer.exit_code == (2 if wrong == "no key file" else 4)
    assert len(answer.sentences) == 1
    assert "remote 'host'" in answer.sentences[0]


def test_a_run_that_is_cut_and_collected_keeps_every_secret(planted: Planted) -> None:
    with planted.project.start(*run_words("waits", "patient"), env=planted.env) as client:
        folder = client.hear("program: started").folder
        assert command_lines_with(VALUE) == []  # as `ps` of any user shows them
        client.process.kill()
    planted.host.go()
    answer = planted.invoke("collect", folder.name)
    assert (answer.exit_code, answer.sentences) == (0, [])


def command_lines_with(text: str) -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in (line := path.read_bytes()):
                found.append(line)
    return found


def launched(planted: Planted) -> Path:
    """Leave a run whose client was killed, and whose program has ended."""
    with planted.project.start(*run_words("waits", "patient"), env=planted.env) as client:
        folder = client.hear("program: started").folder
        client.process.kill()
    planted.host.go()
    planted.host.await_event(folder.name, "finished")
    return folder


def test_collect_reaches_the_host_that_the_run_was_launched_on_and_no_other(
    planted: Planted, start_sshd: Callable[..., Sshd]
) -> None:
    folder = launched(planted)
    other = start_sshd()
    change(
        planted, host="127.0.0.1", port=other.port, host_key=other.host_key,
        user=other.user, identity_file=str(other.identity), jump="",
    )  # fmt: skip
    refused = planted.project.invoke("collect", folder.name, env=planted.env)
    old, new = (parse_host_key(s.host_key) for s in (planted.host.sshd, other))
    assert refused.sentences == []
    assert any(
        f"remote 'host' is another host than the one the run was launched on: it shows {new},"
        f" that one showed {old.fingerprint}" in line
        for line in refused.progress
    )
    assert serialization.from_json(Run, folder / "run.json").state != "finished"
    server = planted.host.sshd
    change(
        planted, host="127.0.0.1", port=server.port, host_key=server.host_key,
        user=server.user, identity_file=str(server.identity), jump="",
    )  # fmt: skip
    assert planted.project.invoke("collect", folder.name, env=planted.env).exit_code == 0


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", "was launched on remote 'host', which is in neither remotes.yaml nor"),
        pytest.param(
            "  host: {kind: embedded, arch: sm_90a}\n",
            "'host' has kind embedded, and had ssh when",
            marks=LONG,
        ),
        pytest.param(
            "  host: {host: h, arch: sm_100a}\n",
            "'host' has arch sm_100a, and had sm_90a when",
            marks=LONG,
        ),
    ],
)
def test_a_remote_that_is_gone_or_another_sort_of_machine_is_a_sentence(
    entry: str, said: str, planted: Planted
) -> None:
    folder = launched(planted)
    path = planted.project.root / "remotes.local.yaml"
    path.write_text(f"schema: 2\nremotes:\n{entry}" if entry else "schema: 2\n")
    answer = planted.project.invoke("collect", folder.name, env=planted.env)
    assert answer.exit_code == 2
    assert len(answer.sentences) == 1
    assert said in answer.sentences[0]


def test_a_run_json_that_names_a_command_runs_nothing(planted: Planted) -> None:
    """As it could before: an embedded remote whose variable was a word of env(1)."""
    folder = launched(planted)
    path = folder / "run.json"
    value = json.loads(path.read_text())
    ran = planted.project.root / "ran"
    value["schema"] = 2
    value["remote"] = {
        "name": "host", "arch": "sm_90a", "kind": "embedded",
        "env": {f'-S sh -c "touch {ran}"': "x"},
    }  # fmt: skip
    path.write_text(json.dumps(value))
    answer = planted.project.invoke("collect", folder.name, env=planted.env)
    assert (answer.exit_code, len(answer.sentences)) == (5, 1)
    assert not ran.exists()


def test_what_is_recorded_of_a_remote_has_nothing_to_connect_with() -> None:
    kept = {f.name for f in fields(RecordedRemote)}
    secret = {"host", "user", "port", "identity_file", "jump", "workdir", "python"}
    assert not kept & secret
    assert secret < {f.name for f in fields(Remote)}
