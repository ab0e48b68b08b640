"""A host is rented, used and given back by what a user types, whatever is killed on the way."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import RemoteError
from kernelrig.rental import rental_file
from kernelrig.rental.billed import still_billed

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project
from tests.rental.stand_in import StandIn


@pytest.mark.parametrize("used", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_host_is_rented_used_and_given_back(
    make: MakeProject, host: LoopbackHost, tmp_path: Path, used: bool
) -> None:
    project, provider = make(), StandIn.make(tmp_path / "state", host.remote())
    at = {"identity_file": str(host.sshd.identity), "workdir": str(host.workdir)}
    provider.write(project.root, **at, boot_s=5.0, on_idle=("true",))
    answer = project.invoke("up", "rented", "--down-after", "60")
    watch = host.workdir / "idle.json"
    assert json.loads(watch.read_text()) == {"argv": ["true"], "idle_s": 3600.0}
    watch.unlink()  # and so the watch ends
    assert (answer.exit_code, len(answer.sentences)) == (0, 1)
    assert answer.sentences[0].startswith("still billed: remote 'rented' since 20")
    assert config.load_remotes(project.root)["rented"].host_key == host.sshd.host_key

    if used:
        ran = project.test("passes", "quick", remote="rented")
        assert (ran.exit_code, len(ran.sentences)) == (0, 1)
        assert ran.sentences[0].startswith("still billed: remote 'rented' since 20")

        cost = r"held for 0\.[0-9] min, cost 0\.[0-9]{2} at 5\.00 an hour"
        assert re.search(cost, (ran.folder / "summary.md").read_text())

    answer = project.invoke("down", "rented")
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.stdout == "'rented' is down: its provider lists no host of it\n"
    assert (provider.hosts, config.load_remotes(project.root)["rented"].host) == ([], "")


@pytest.mark.long
def test_up_says_at_once_that_no_run_could_log_in(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    project = make()
    provider = StandIn.make(tmp_path / "state", host.remote())
    provider.write(project.root)
    answer = project.invoke("up", "rented")
    assert answer.exit_code == 0
    assert (
        "'rented' is there, and no run can be on it yet: remote 'rented' accepted none of our"
        in (answer.stderr)
    )
    assert len(provider.hosts) == 1


@pytest.mark.long
def test_a_host_with_another_key_is_not_pinned_and_stays_named(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    project = make()
    provider = StandIn.make(tmp_path / "state", host.remote(), fingerprint="SHA256:" + 43 * "A")
    provider.write(project.root, identity_file=str(host.sshd.identity))
    answer = project.invoke("up", "rented")
    assert answer.exit_code == 4
    assert "does not have the key SHA256:AAAA" in answer.sentences[0]
    assert answer.sentences[1].startswith("still billed: remote 'rented' since 20")
    assert config.load_remotes(project.root)["rented"].host == ""
    assert project.invoke("down", "rented").exit_code == 0
    assert provider.hosts == []


# A client that is killed before or after the COUNT-th call of a function of ours.
_KILLED = """\
import os, signal, sys
from kernelrig import config
from kernelrig.rental import rental_file
place, count, after, number = {place!r}, {count}, {after}, signal.{signal}
module, name = (config, "add_remote") if place == "entry" else (rental_file, place)
real, calls = getattr(module, name), []
def killed(*words, **more):
    calls.append(name)
    if not after and len(calls) == count:
        os.kill(os.getpid(), number)
    value = real(*words, **more)
    if after and len(calls) == count:
        os.kill(os.getpid(), number)
    return value
setattr(module, name, killed)
from kernelrig.__main__ import main
main()
"""


@dataclass(frozen=True)
class Point:
    """Where a crash comes: in our client (`ours`: function, count, after), or at the provider."""

    task: str
    ours: tuple[str, int, bool] | None = None
    theirs: tuple[str, str, str] | None = None


POINTS = {
    "client before the request is on file": Point("up", ours=("save", 1, False)),
    "client once the request is on file": Point("up", ours=("save", 1, True)),
    "client before the host is on file": Point("up", ours=("save", 2, False)),
    "client once the host is on file": Point("up", ours=("save", 2, True)),
    "client before the key is pinned": Point("up", ours=("entry", 1, False)),
    "client once the key is pinned": Point("up", ours=("entry", 1, True)),
    "client as up begins": Point("up", theirs=("up", "begin", "client")),
    "client as the host is made": Point("up", theirs=("up", "done", "client")),
    "client as up has said": Point("up", theirs=("up", "said", "client")),
    "client as status begins": Point("up", theirs=("status", "begin", "client")),
    "provider as up begins": Point("up", theirs=("up", "begin", "provider")),
    "provider as the host is made": Point("up", theirs=("up", "done", "provider")),
    "provider as up begins, the host comes later": Point(
        "up", theirs=("up", "begin", "provider later")
    ),
    "both as up begins, the host comes later": Point(
        "up", theirs=("up", "begin", "client provider later")
    ),
    "provider as status begins": Point("up", theirs=("status", "begin", "provider")),
    "client as down begins": Point("down", theirs=("down", "begin", "client")),
    "client as the host is gone": Point("down", theirs=("down", "done", "client")),
    "client before the end is on file": Point("down", ours=("close", 1, False)),
    "provider as down begins": Point("down", theirs=("down", "begin", "provider")),
    "provider as the host is gone": Point("down", theirs=("down", "done", "provider")),
}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("point", POINTS)
def test_never_two_hosts_and_none_that_is_forgotten(
    make: MakeProject, host: LoopbackHost, tmp_path: Path, point: str, seed: int
) -> None:
    rng, at = random.Random(f"{point} {seed}"), POINTS[point]
    project = make()
    provider = StandIn.make(tmp_path / "state", host.remote(), form=rng.choice(["list", "lines"]))
    provider.write(
        project.root, identity_file=str(host.sshd.identity), workdir=str(host.workdir), boot_s=2.0
    )
    said = []
    if at.task == "down":
        assert project.invoke("up", "rented").exit_code == 0
    crashed = crash(project, provider, at, rng)
    said.append(crashed.exit_code)
    require_named(project, provider, at)
    for word in rng.choice([("down",), ("up", "down"), ("up", "up", "down")]):
        answer = settled(lambda word=word: project.invoke(word, "rented"))  # type: ignore[misc]
        said.append(answer.exit_code)
        assert provider.most_hosts <= 1, answer.stderr
        if provider.hosts:
            assert any(line.startswith("still billed") for line in answer.sentences), answer.stderr
    never = crashed.exit_code != 0 and not provider.most_hosts and "is on file" in answer.stderr
    assert (answer.exit_code == 0) or never, answer.stderr
    assert (provider.hosts, still_billed(project.root)) == ([], ())
    assert config.load_remotes(project.root)["rented"].host == ""
    if table := os.environ.get("KERNELRIG_RENTALS_TABLE"):
        row = {"point": point, "seed": seed, "exit codes": said, "most": provider.most_hosts}
        with Path(table).open("a") as file:
            file.write(json.dumps(row) + "\n")


def crash(project: Project, provider: StandIn, at: Point, rng: random.Random) -> Answer:
    """Type the task and let the crash come; a client is killed by one of three signals."""
    signal = rng.choice(["SIGKILL", "SIGKILL", "SIGTERM", "SIGINT"])
    if at.ours is not None:
        place, count, after = at.ours
        script = _KILLED.format(place=place, count=count, after=after, signal=signal)
        with project.start_python("-c", script, at.task, "rented") as client:
            return client.end()
    assert at.theirs is not None
    verb, when, victims = at.theirs
    words = victims.replace("client", f"client {signal}")
    provider.fault(verb, when, words.replace("later", f"later {rng.uniform(0.1, 0.6):.2f}"))
    return project.invoke(at.task, "rented")


def settled(type_it: Callable[[], Answer]) -> Answer:
    """Type a task, again as long as a provider's command of a killed client is at work."""
    for _ in itertools.repeat(None, 50):
        answer = type_it()
        if "is at work, or a command" not in answer.stderr:
            return answer
    raise AssertionError(answer.stderr)


def require_named(project: Project, provider: StandIn, at: Point) -> None:
    """A host that is there, or may come, is named; the record of one that is gone may stay."""
    named = still_billed(project.root)
    if provider.hosts:
        assert len(named) == 1
    if at.theirs is not None and at.task == "up":
        assert len(named) == 1
    try:
        found = rental_file.open_of(project.root, "rented")
    except RemoteError:
        return
    assert len(found) == len(named)
