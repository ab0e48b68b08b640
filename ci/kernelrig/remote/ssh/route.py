"""The route to a remote: its record and the user's ssh_config, resolved into hops.

paramiko reads ssh_config; only Include is expanded here. As in ssh, a `Match exec` in these files
runs its command; nothing that a host sends is executed. `ssh -G` answers the same questions, but
it needs an ssh client, takes ~ from the password database and not from $HOME, reads a single file
where -F names it, and prints defaults (identity files, known_hosts) in the form of settings.
"""

from __future__ import annotations

import getpass
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from kernelrig.errors import ConfigError
from kernelrig.model import Remote
from kernelrig.remote.ssh.known_hosts import HostKey, parse_host_key
from kernelrig.terminal.log import say

_TARGET = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^@:/\s\[\]-][^@:/\s\[\]]*))"
    r"(?::(?P<port>\d{1,5}))?"
)
_MAX_DEPTH = 8
_DEFAULT_TIMEOUT_S = Remote("", "").connect_timeout_s


@dataclass(frozen=True, slots=True)
class SshHome:
    """The user's own SSH configuration; empty for tests. `key` is a private key in no file."""

    folder: Path | None
    config_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    use_agent: bool
    key: str = field(default="", repr=False)

    @classmethod
    def of_user(cls) -> SshHome:
        folder, system = expanded("~/.ssh"), Path("/etc/ssh")
        return cls(
            folder,
            (folder / "config", system / "ssh_config"),
            (folder / "known_hosts", folder / "known_hosts2", system / "ssh_known_hosts"),
            use_agent=True,
        )

    @classmethod
    def empty(cls) -> SshHome:
        return cls(None, (), (), use_agent=False)

    @classmethod
    def with_key(cls, key: str) -> SshHome:
        """Return a configuration with one private key in OpenSSH's format: the embedded host's."""
        return cls(None, (), (), use_agent=False, key=key)


@dataclass(frozen=True, slots=True)
class Target:
    """`USER@HOST[:PORT]` as typed: an empty user and port 0 are taken from ssh_config."""

    host: str
    user: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH server on the route, with everything that a connection to it needs.

    `name` is what an error calls it: errors are recorded with the run, and hold no address.
    """

    name: str
    host: str
    port: int
    user: str
    known_as: str
    timeout_s: float
    known_hosts: tuple[Path, ...]
    identities: tuple[Path, ...]
    use_agent: bool
    only_identities: bool = False
    pinned: HostKey | None = None
    key: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(hops: Iterable[Hop]) -> Iterator[str]:
    """Yield what tells where hosts are and who logs in; not `root` and 22, which tell nothing."""
    for hop in hops:
        yield from (hop.address, hop.host)
        yield from (word for word in (hop.user, str(hop.port)) if word not in ("root", "22"))
        yield from map(str, hop.identities)


def parse_target(text: str) -> Target:
    """Parse `USER@HOST[:PORT]`; an IPv6 address is written in brackets."""
    match = _TARGET.fullmatch(text.strip())
    if match is None or not text.isprintable() or int(match["port"] or 22) not in range(1, 65536):
        raise ConfigError(
            f"'{text}' is not an address",
            "write USER@HOST or USER@HOST:PORT, IPv6 as USER@[::1]:PORT",
        )
    return Target(match["v6"] or match["host"], match["user"] or "", int(match["port"] or 0))


def route(remote: Remote, home: SshHome) -> tuple[Hop, ...]:
    """Return the hops to `remote`, itself last. A field of the record overrides ssh_config."""
    if not remote.host:
        raise ConfigError(f"remote '{remote.name}' has no host")
    target = Target(remote.host, remote.user, remote.port)
    return _route(target, home, _read_config(home), remote, remote.name, depth=0)


def _route(
    target: Target,
    home: SshHome,
    config: paramiko.SSHConfig,
    remote: Remote | None,
    name: str,
    depth: int,
) -> tuple[Hop, ...]:
    """Resolve one server and, before it, its jump hosts. `remote` is None for a jump host.

    `name` is that of the remote to which they lead.
    """
    called = f"remote '{name}'" if remote else f"a jump host of remote '{name}'"
    found: Mapping[str, Any] = config.lookup(target.host)
    if found.get("proxycommand"):
        raise ConfigError(
            f"ssh_config gives {called} a ProxyCommand, which kernelrig does not run",
            "name the hosts on the way with ProxyJump, or with `jump:` in the remote",
        )
    if depth > _MAX_DEPTH:
        raise ConfigError(f"the jump hosts of remote '{name}' form a cycle")
    jump = (remote.jump if remote else "") or found.get("proxyjump", "none")
    before: tuple[Hop, ...] = ()
    if jump.lower() != "none":
        for position, place in enumerate(jump.split(",")):
            # As in ssh: only the first jump host may have jump hosts of its own.
            hops = _route(_jump_target(place, name), home, config, None, name, depth + 1)
            before += hops if position == 0 else hops[-1:]
    return (*before, _hop(target, home, found, remote, called))


def _jump_target(text: str, name: str) -> Target:
    try:
        return parse_target(text)
    except ConfigError as e:  # its message has the address
        raise ConfigError(f"a jump host of remote '{name}' is not an address", e.hint) from e


def _hop(
    target: Target, home: SshHome, found: Mapping[str, Any], remote: Remote | None, called: str
) -> Hop:
    identities = tuple(map(expanded, found.get("identityfile", ())))
    if remote and remote.identity_file:
        identities = (expanded(remote.identity_file),)
        if not identities[0].is_file():
            say(f"identity_file: {remote.identity_file}")
            raise ConfigError(f"the identity_file of remote '{remote.name}' does not exist")
    elif not identities and home.folder:
        names = ("id_ed25519", "id_ecdsa", "id_rsa")
        identities = tuple(home.folder / name for name in names if (home.folder / name).is_file())
    known_hosts = home.known_hosts
    if "userknownhostsfile" in found:
        known_hosts = tuple(expanded(p) for p in found["userknownhostsfile"].split() if p != "none")
    timeout_s = remote.connect_timeout_s if remote else _DEFAULT_TIMEOUT_S
    if timeout_s == _DEFAULT_TIMEOUT_S:
        timeout_s = float(found.get("connecttimeout", timeout_s))
    return Hop(
        name=called,
        host=found["hostname"],
        port=target.port or int(found.get("port", 22)),
        user=target.user or found.get("user", "") or _login_name(),
        known_as=found.get("hostkeyalias", ""),
        timeout_s=timeout_s,
        known_hosts=known_hosts,
        identities=identities,
        use_agent=home.use_agent,
        only_identities=found.get("identitiesonly", "no").lower() == "yes",
        pinned=parse_host_key(remote.host_key) if remote and remote.host_key else None,
        key=home.key if remote else "",
    )


def expanded(path: str) -> Path:
    """Return the path with its `~` replaced; unchanged where that user has no home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as e:  # a container may run as a number that has no name
        raise ConfigError("the user of this process has no name", "name a user: USER@HOST") from e


def _read_config(home: SshHome) -> paramiko.SSHConfig:
    config = paramiko.SSHConfig()
    for file in home.config_files:
        if file.is_file():
            try:
                config.parse(io.StringIO("\n".join(_lines(file, home, depth=0))))
            except (paramiko.ConfigParseError, UnicodeDecodeError) as e:
                say(f"{file}: {e}")
                raise ConfigError(f"the ssh_config file {file.name} cannot be read") from e
    return config


def _lines(file: Path, home: SshHome, depth: int) -> list[str]:
    """Return a file's lines with every Include expanded: paramiko ignores that keyword."""
    lines: list[str] = []
    block = "Host *"
    for line in file.read_text().splitlines():
        if re.match(r"\s*(host|match)[\s=]", line, re.IGNORECASE):
            block = line
        include = re.match(r"\s*include[\s=]+(.+)", line, re.IGNORECASE)
        if include is None or depth > _MAX_DEPTH:
            lines.append(line)
            continue
        for pattern in include[1].replace('"', "").split():
            path = (home.folder or file.parent) / expanded(pattern)
            for part in sorted(Path("/").glob(str(path.absolute().relative_to("/")))):
                lines += _lines(part, home, depth + 1)
        lines.append(block)  # a Host block of the included file ends with that file
    return lines
