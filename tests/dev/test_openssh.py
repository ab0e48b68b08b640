"""What happens where no OpenSSH server is installed, with an apt-get of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelrig.dev.openssh import require_sshd
from kernelrig.errors import CiError

APT_GET = """#!/bin/sh
echo "$DEBIAN_FRONTEND: $*" >>{calls}
[ -x {policy} ] || echo "a server would be started" >>{calls}
case $1 in
update) touch {lists} ;;
install) [ -e {lists} ] || {{ echo "E: Unable to locate package" >&2; exit 100; }}
    {installs} ;;
esac
"""
INSTALL = "noninteractive: install -y -q --no-install-recommends openssh-server"


@dataclass(frozen=True)
class Machine:
    """A machine without sshd, whose apt-get writes its calls down."""

    folder: Path

    def require(self, *, is_root: bool = True) -> Path:
        return require_sshd(
            sbin=str(self.folder / "sbin"), policy=self.folder / "policy", is_root=is_root
        )

    def add_apt_get(self, installs: str) -> None:
        names = ("calls", "policy", "lists")
        text = APT_GET.format(installs=installs, **{n: self.folder / n for n in names})
        (self.folder / "bin/apt-get").write_text(text)
        (self.folder / "bin/apt-get").chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("bin", "sbin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Machine(tmp_path)


def add_sshd(machine: Machine) -> str:
    """Return the shell command that puts sshd in place."""
    sshd = machine.folder / "sbin/sshd"
    return f"touch {sshd}; chmod +x {sshd}"


def test_an_sshd_that_is_there_is_taken(machine: Machine) -> None:
    (machine.folder / "sbin/sshd").touch(mode=0o755)
    machine.add_apt_get(add_sshd(machine))
    assert machine.require() == machine.folder / "sbin/sshd"
    assert machine.calls == []


def test_root_installs_it_after_the_lists_of_packages_and_starts_no_server(
    machine: Machine,
) -> None:
    machine.add_apt_get(add_sshd(machine))
    assert machine.require() == machine.folder / "sbin/sshd"
    assert machine.calls == [INSTALL, "noninteractive: update -q", INSTALL]
    assert not (machine.folder / "policy").exists()


def test_a_policy_of_the_machine_is_left_alone(machine: Machine) -> None:
    (machine.folder / "lists").touch()
    (machine.folder / "policy").touch(mode=0o755)
    machine.add_apt_get(add_sshd(machine))
    machine.require()
    assert machine.calls == [INSTALL]
    assert (machine.folder / "policy").exists()


def test_who_is_not_root_gets_the_command_to_type(machine: Machine) -> None:
    machine.add_apt_get(add_sshd(machine))
    with pytest.raises(CiError) as error:
        machine.require(is_root=False)
    assert error.value.message == "no sshd in /usr/sbin, and the tests of SSH need it"
    assert error.value.hint == "install it with: sudo apt-get install openssh-server"
    assert machine.calls == []


def test_an_apt_get_that_fails_is_one_sentence(machine: Machine) -> None:
    machine.add_apt_get('echo "E: dpkg was interrupted" >&2; exit 100')
    with pytest.raises(CiError) as error:
        machine.require()
    assert error.value.message == (
        "apt-get could not install openssh-server: E: dpkg was interrupted"
    )
    assert not (machine.folder / "policy").exists()
