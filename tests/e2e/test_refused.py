"""A host that cannot be worked with: one sentence, exit 4, and a report that blames no kernel."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from kernelrig.remote.ssh.known_hosts import parse_host_key

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, read_junit, recorded
from tests.remote.sshd_fixture import free_port, make_key


def check_refused(make: MakeProject, host: LoopbackHost, **changes: Any) -> Answer:  # noqa: ANN401 - fields of Remote
    """Run against a remote with these `changes` and return the refusal, after checking its form."""
    answer = make(host.remote(**changes)).test("passes", "brief")
    assert answer.exit_code == 4
    assert len(answer.sentences) == 1
    assert answer.run.state == "finished"
    assert read_junit(answer.folder) == {
        "build/passes-sm_90a-production": "pass",
        "preflight/stage": f"error: {recorded(answer.sentences[0])}",
        "program/stage": "skipped: not run: the run ended before this stage",
    }
    assert (answer.folder / "build/cpu_program").is_file()
    assert (answer.folder / "manifest.json").is_file()
    return answer


def test_an_unknown_host_key_is_shown_with_the_command_that_pins_it(
    make: MakeProject, host: LoopbackHost
) -> None:
    shown = parse_host_key(host.sshd.host_key)
    assert check_refused(make, host, host_key="").sentences == [
        f"the host key of remote 'host' is not known: it shows {shown}; compare the fingerprint"
        f" with what the host or its provider says, then `ci/invoke remote-add host"
        f" USER@HOST:PORT --fingerprint {shown.fingerprint}`"
    ]


def test_a_changed_host_key_is_never_passed_over(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    shown, pinned = parse_host_key(host.sshd.host_key), parse_host_key(make_key(tmp_path / "other"))
    assert check_refused(make, host, host_key=pinned.line).sentences == [
        f"the host key of remote 'host' changed: it shows {shown}, pinned is {pinned};"
        " this may be a man-in-the-middle attack; if the machine is a new one,"
        " `ci/invoke remote-add host USER@HOST:PORT --fingerprint SHA256:...`"
        " with what its provider says"
    ]


def test_a_port_without_a_listener_is_an_error(make: MakeProject, host: LoopbackHost) -> None:
    port = free_port()
    assert check_refused(make, host, port=port).sentences == [
        "remote 'host' refused the connection; is sshd running there, is the port right?"
    ]


def test_a_silent_server_is_given_up(make: MakeProject, host: LoopbackHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert check_refused(make, host, port=port, connect_timeout_s=0.5).sentences == [
            "remote 'host' accepted the connection and sent nothing for 0.5 s; is it an SSH server?"
        ]


def test_a_key_that_the_host_does_not_take(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    sentence = check_refused(make, host, identity_file=str(tmp_path / "other")).sentences[0]
    assert sentence.startswith(
        "remote 'host' accepted none of our keys: 1 was refused;"
        " name the right key as identity_file of the remote"
    )


def test_a_host_without_python(make: MakeProject, host: LoopbackHost) -> None:
    assert check_refused(make, host, python="python9").sentences == [
        "host: there is no 'python9' on the host;"
        " install python 3.9 or newer there, or set 'python' of this remote to one"
    ]
    assert not host.workdir.exists()
