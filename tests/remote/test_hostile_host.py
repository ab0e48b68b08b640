"""Whatever a host says: what it may not write is not written, what it sends has an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernelrig.remote import connect
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.transfer import Missing

from tests.remote.hostile_agent import hostile_python, listing, script_of, sending
from tests.remote.local_host import job, shell
from tests.remote.sshd_fixture import Sshd, start_server

JOBS = (job("smoke", shell("a", ":"), output_bytes=1000, disk_bytes=3000),)
STAGE = "stages/01-smoke"
Linked = Callable[[str], HostLink]


@pytest.fixture(scope="module")
def server(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = start_server(tmp_path_factory.mktemp("hostile") / "sshd")
    yield server
    server.stop()


def collect(server: Sshd, folder: Path, script: str) -> Missing:
    """Collect `run-1` into `folder`/back from a host that answers by the script."""
    remote = server.remote(python=hostile_python(folder / "hostile", script))
    with connect(remote, root=folder) as link:
        return link.collect("run-1", folder / "back", JOBS)


def written(folder: Path) -> dict[str, bytes]:
    back = folder / "back"
    return {str(p.relative_to(back)): p.read_bytes() for p in back.rglob("*") if p.is_file()}


OUTSIDE = "a host's results lie in the folders of the stages that it ran"
NO_NAME = "it is no name of a file inside the run"


REFUSED = {
    "run.json": OUTSIDE,
    "job.json": OUTSIDE,
    "manifest.json": OUTSIDE,
    "junit.xml": OUTSIDE,
    "build/cpu_program": OUTSIDE,
    "variants/debug/cpu_program": OUTSIDE,
    "sources/kernel/a.cu": OUTSIDE,
    "launches/0.json": OUTSIDE,
    ".git/hooks/post-checkout": OUTSIDE,
    "stages": OUTSIDE,
    "stages/run.json": OUTSIDE,
    "stages/00-check/verdict": OUTSIDE,
    "stages/02-timing/a.json": OUTSIDE,
    f"{STAGE}/.git/config": OUTSIDE,
    f"{STAGE}/.GIT/config": OUTSIDE,
    "/etc/passwd": NO_NAME,
    "": NO_NAME,
    ".": NO_NAME,
    "../run.json": NO_NAME,
    f"{STAGE}/../../run.json": NO_NAME,
    f"{STAGE}/./a": NO_NAME,
    f"{STAGE}//a": NO_NAME,
    f"{STAGE}/": NO_NAME,
    f"{STAGE}/a\0b": NO_NAME,
    f"{STAGE}/\ud800": NO_NAME,
    f"{STAGE}/{'d/' * 100}a": "it lies more than 100 folders deep",
    f"{STAGE}/{'n' * 256}": "its name has 256 bytes as it is written here, 255 are possible",
    f"{STAGE}/{'?' * 86}": "its name has 258 bytes as it is written here, 255 are possible",
    f"{STAGE}/{('d' * 200 + '/') * 21}a": "its path would have more than 4095 bytes here",
}


def test_only_results_of_stages_are_accepted(server: Sshd, tmp_path: Path) -> None:
    """What the host may send comes, whatever else it lists and sends."""
    names = [*REFUSED, f"{STAGE}/good"]
    script = script_of(manifest=listing(*((name, 5) for name in names)), fetch=sending(b"right"))
    missing = collect(server, tmp_path, script)
    said = dict(line.rsplit(": ", 1) for line in missing.names)
    assert sorted(said.values()) == sorted(REFUSED.values())
    assert said["run.json"] == OUTSIDE
    assert not missing.may_come
    assert written(tmp_path) == {f"{STAGE}/good": b"right"}
