"""A host is reached over links that drop; nothing that came back is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kernelrig.errors import IncompleteError, ProtocolError, RemoteError
from kernelrig.model import EndedBy, Tool
from kernelrig.remote.host_link import connect_host
from kernelrig.remote.journal import read_journal
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import (
    PYTHON,
    Event,
    LocalChannel,
    LocalHost,
    LocalOpener,
    job,
    shell,
)

# starting the agent


def test_a_host_without_python_is_one_sentence(host: LocalHost) -> None:
    remote = type(host.remote)("host", "sm_90a", python="python-of-nobody")
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message == "host: there is no 'python-of-nobody' on the host"
    assert error.value.hint == (
        "install python 3.9 or newer there, or set 'python' of this remote to one"
    )


def test_an_old_python_is_named_with_its_version(host: LocalHost) -> None:
    script = "import sys; sys.version_info = (3, 6, 8); exec(sys.argv.pop(1))"
    old = host.file(
        "old/python", f"#!/bin/sh\nshift 2\nexec {PYTHON} -c '{script}' \"$@\"\n", 0o755
    )
    remote = type(host.remote)("host", "sm_90a", python=str(old))
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message == "host: kernelrig needs python 3.9 or newer, this is 3.6"


def test_a_python_that_fails_otherwise_is_quoted(host: LocalHost) -> None:
    broken = host.file("broken/python", "#!/bin/sh\necho 'libz.so: not found' >&2; exit 1\n", 0o755)
    remote = type(host.remote)("host", "sm_90a", python=str(broken))
    with pytest.raises(ProtocolError) as error:
        connect_host(host.opener, remote)
    said = f"host: '{broken}' did not start the agent (exit 1): libz.so: not found"
    assert error.value.message == said


def test_a_python_that_cannot_be_executed_is_named(host: LocalHost) -> None:
    text = host.file("text/python", "#!/bin/sh\n", 0o644)
    remote = type(host.remote)("host", "sm_90a", python=str(text))
    with pytest.raises(RemoteError) as error:
        connect_host(host.opener, remote)
    assert error.value.message.startswith(f"host: '{text}' cannot be executed on the host: ")
    assert error.value.message.endswith("Permission denied")


def test_what_a_login_shell_prints_first_is_passed_over(host: LocalHost) -> None:
    host.opener.before = "echo 'Welcome to the host'; printf 'no newline'; "
    assert host.link().facts.free_bytes


def test_a_login_shell_that_never_stops_printing_is_named(host: LocalHost) -> None:
    host.opener.before = "yes; "
    with pytest.raises(ProtocolError) as error:
        host.link()
    assert "and the agent did not start" in error.value.message


def test_a_workdir_that_cannot_be_is_one_sentence(host: LocalHost) -> None:
    host.workdir.write_text("a file\n")
    with pytest.raises(RemoteError) as error:
        host.link()
    hint = "name another `workdir` for this remote"
    said = f"host: the workdir is no folder: a file is in its place; {hint}"
    assert error.value.message == said


# facts

SANITIZER_HELP = """
  -h [ --help ]                         Produce this help message.
  --check-bulk-copy arg (=yes)          Enables checks related to the PTX cp.async.bulk
  --error-exitcode arg                  When this is set, it is returned
"""
SMI = """
case "$1" in
*,compute_cap,*) echo "NVIDIA H200, GPU-a5bd4633, 580.159.04, 9.0, 00000000:00:06.0, 345, 3201,\
 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0" ;;
--query-compute-apps=*) echo "4711, /usr/bin/other, 1024" ;;
--version) echo "NVIDIA-SMI version  : 580.159.04" ;;
esac
"""


def test_the_facts_of_a_gpu_host_are_gathered(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    version = "echo 'Version 2025.3.1.0 (build 36400806) (public-release)'"
    helping = f"cat <<'END'{SANITIZER_HELP}END"
    host.on_path("compute-sanitizer", f'if [ "$1" = --help ]; then\n{helping}\nelse {version}; fi')
    facts = host.link().facts
    assert facts.driver == "580.159.04"
    (gpu,) = facts.gpus
    assert gpu["name"] == "NVIDIA H200"
    assert gpu["compute_cap"] == "9.0"
    assert gpu["memory.total"] == "143771"
    assert facts.gpu_processes == ("4711, other, 1024",)
    assert facts.tools["compute-sanitizer"] == Tool(
        str(host.folder / "here/tools/compute-sanitizer"),
        "2025.3.1.0",
        ("--check-bulk-copy", "--error-exitcode", "--help"),
    )
    assert facts.free_bytes > 0


def test_a_probe_that_fails_is_a_problem_not_a_crash(host: LocalHost) -> None:
    host.on_path("nvidia-smi", "echo 'Failed to initialize NVML: Unknown Error'; exit 9")
    facts = host.link().facts
    assert facts.gpus == ()
    assert (
        "nvidia-smi does not list the GPUs (exit 9): Failed to initialize NVML: Unknown Error"
        in facts.problems
    )


# following


def test_a_follow_over_links_that_drop_tells_every_event_once(host: LocalHost) -> None:
    commands = [shell(f"c{i}", ":") for i in range(6)]
    link = host.link()
    link.launch("run-1", [job("smoke", *commands)], {}, stop_at_first=False)
    link.close()
    host.opener.reads = [700, 900, 1100]
    opened = host.opener.opened
    events: list[Event] = []
    link.follow("run-1", events.append, ())
    assert host.opener.opened == opened + 4
    ended = [e["command"] for e in events if e["event"] == "command_ended"]
    assert ended == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert [e["event"] for e in events].count("finished") == 1


class GoneOpener(LocalOpener):
    """A host that can no longer be reached once `gone` is set."""

    gone = False

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> LocalChannel:
        if self.gone:
            raise LinkLost("host: connection refused")
        return super().open(argv, first=first)


class ClosedOpener(LocalOpener):
    """A host that lets us in for one link, and shows another host key from then on."""

    asked = 0

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> LocalChannel:
        self.asked += 1
        if self.asked > 1:
            raise RemoteError(
                "the host key of host changed", "this may be a man-in-the-middle attack"
            )
        return super().open(argv, first=first)


def test_a_link_that_is_refused_is_not_asked_for_again(host: LocalHost) -> None:
    host.opener = opener = ClosedOpener()
    link = host.link(give_up_s=1000.0)
    opener.channels[-1].process.kill()
    with pytest.raises(RemoteError) as error:
        link.ship({})
    assert error.value.message == "the host key of host changed"
    assert error.value.hint == "this may be a man-in-the-middle attack"
    assert opener.asked == 2


def test_a_python_that_is_gone_when_the_link_comes_back_is_told_at_once(host: LocalHost) -> None:
    link = host.link(give_up_s=1000.0)
    host.opener.before = "exit 127; "
    host.opener.channels[-1].process.kill()
    with pytest.raises(RemoteError) as error:
        link.ship({})
    assert error.value.message == f"host: there is no '{PYTHON}' on the host"
    assert host.opener.opened == 2


def test_a_link_that_stays_away_ends_in_the_command_that_goes_on(host: LocalHost) -> None:
    host.opener = opener = GoneOpener()
    link = host.link(give_up_s=0.05)
    link.launch("run-1", [job("smoke", shell("a", "sleep 1000"))], {}, stop_at_first=False)

    def leave(event: Event) -> None:
        if event["event"] == "command_started":
            opener.gone = True
            opener.channels[-1].process.kill()

    with pytest.raises(IncompleteError) as error:
        link.follow("run-1", leave, ())
    assert error.value.exit_code == 6
    opener.gone = False
    assert host.link().cancel("run-1") is True


def test_a_client_that_vanishes_loses_nothing(host: LocalHost) -> None:
    """The command ends only after the first link is gone; a second link brings everything."""
    wait = shell("a", "while [ ! -e ../../go ]; do sleep 0.01; done; echo done")
    jobs = [job("one", wait), job("two", shell("b", "exit 3"))]
    first = host.link()
    first.launch("run-1", jobs, {}, stop_at_first=False)
    first.close()
    (host.workdir / "runs/run-1/go").touch()
    second = host.link()
    second.follow("run-1", lambda _: None, ())
    assert second.collect("run-1", host.back, jobs) == Missing()
    one, _ = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    assert one.commands[0].ended_by is EndedBy.EXIT
    assert (host.back / "stages/01-one/a.stdout.log").read_text() == "done\n"


def test_an_unknown_run_is_named(host: LocalHost) -> None:
    with pytest.raises(RemoteError) as error:
        host.link().collect("run-9", host.back, [])
    assert error.value.message == "host: run run-9 is not under the workdir"
