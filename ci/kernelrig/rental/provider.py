"""The provider's commands: run here without a shell, limited in time and output, and read.

What they print is untrusted: an object, a list of objects, or lines of key=value. Only a state that
says so, or an empty list, means that nothing is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kernelrig.errors import CiError, ConfigError, ProtocolError, RemoteError
from kernelrig.files import strict_json
from kernelrig.model import Remote
from kernelrig.proc import run_bounded
from kernelrig.rental.rental_file import Rental
from kernelrig.terminal.text import one_line

COMMAND_S = 300.0
MOST_BYTES = 256 << 10
MOST_HOSTS = 100
REQUEST_VARIABLE = "KERNELRIG_REQUEST"

_FORMS = {
    "id": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}"),
    "address": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}"),
    "user": re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}"),
}
_PORT = re.compile(r"[0-9]{1,5}")


class State(StrEnum):
    """What a host's state means. Whatever is not gone may be billed."""

    GONE = "gone"
    PENDING = "pending"
    RUNNING = "running"
    OTHER = "other"


_WORDS = {
    State.GONE: ("gone", "none", "terminated", "deleted", "destroyed"),
    State.PENDING: ("pending", "starting", "loading", "booting", "provisioning", "staging"),
    State.RUNNING: ("running", "active", "ready"),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A host as the provider lists it; `word` is its own word for the state."""

    state: State = State.OTHER
    word: str = ""
    id: str = ""
    address: str = ""
    port: int = 0
    user: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.id or 'a host without an id'} ({self.word or 'no state'})"


def billed(hosts: tuple[Listed, ...]) -> tuple[Listed, ...]:
    return tuple(host for host in hosts if host.state is not State.GONE)


@dataclass(frozen=True, slots=True)
class Provider:
    """The commands of a remote. `lock` is the descriptor of the lock that they inherit."""

    remote: Remote
    lock: int

    def up(self, rental: Rental) -> Listed | None:
        """Rent the host of a request; what is printed may name it, and need not say its state."""
        text = self._run("up", rental, "")
        found = parse_hosts(text, "up") if text.strip() else ()
        return found[0] if len(found) == 1 else None

    def status(self, rental: Rental) -> tuple[Listed, ...]:
        """Return the hosts of a request, those that are gone too."""
        found = parse_hosts(self._run("status", rental, rental.id), "status")
        if any(not host.word for host in found):
            raise ProtocolError(f"'status' of '{self.remote.name}' says no state")
        return found

    def down(self, rental: Rental, name: str) -> None:
        self._run("down", rental, name)

    def _run(self, verb: str, rental: Rental, name: str) -> str:
        """Run a command and return what it printed. RemoteError if that may not be all."""
        argv: tuple[str, ...] = getattr(self.remote, verb)
        words = [w.replace("{request}", rental.request).replace("{id}", name) for w in argv]
        said = f"'{verb}' of '{self.remote.name}'"
        try:
            done = run_bounded(
                words,
                env={**os.environ, REQUEST_VARIABLE: rental.request},
                timeout_s=COMMAND_S,
                most_bytes=MOST_BYTES,
                pass_fds=(self.lock,),
            )
        except ConfigError as e:
            raise ConfigError(f"{said}: {e.message}", "see remotes.local.yaml") from e
        except CiError as e:
            raise RemoteError(f"{said}: {e.message}") from e
        if done.exit_code:
            lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
            raise RemoteError(f"{said} exited {done.exit_code}: {one_line(lines[-1][:300])}")
        return done.stdout


def parse_hosts(text: str, verb: str) -> tuple[Listed, ...]:
    """Read what a command printed. ProtocolError if that is neither hosts nor an empty list."""
    stripped = text.strip()
    if not stripped:
        raise ProtocolError(f"'{verb}' printed nothing", "an empty list means that there is none")
    if stripped[0] in "[{":
        try:
            value = strict_json.loads(stripped)
        except ValueError as e:
            raise ProtocolError(f"what '{verb}' printed is not JSON") from e
        hosts = value if isinstance(value, list) else [value]
    else:
        pairs = [line.partition("=") for line in stripped.splitlines() if line.strip()]
        names = [key.strip() for key, _, _ in pairs]
        if not all(equals for _, equals, _ in pairs) or len(set(names)) < len(names):
            raise ProtocolError(f"what '{verb}' printed is neither JSON nor lines of key=value")
        hosts = [{key.strip(): said.strip() for key, _, said in pairs}]
    if len(hosts) > MOST_HOSTS or not all(isinstance(host, dict) for host in hosts):
        raise ProtocolError(f"what '{verb}' printed is no list of up to {MOST_HOSTS} hosts")
    return tuple(_host(host, verb) for host in hosts)


def _host(value: Mapping[str, object], verb: str) -> Listed:
    texts = {key: "" if said is None else str(said) for key, said in value.items()}
    port = texts.get("port") or "0"
    odd = [key for key, form in _FORMS.items() if texts.get(key) and not form.fullmatch(texts[key])]
    if not _PORT.fullmatch(port) or int(port) > 65535:
        odd.append("port")
    if odd:
        shown = ascii(texts[odd[0]][:60])
        raise ProtocolError(f"'{verb}' printed {odd[0]} {shown}, which cannot be one")
    word = one_line(texts.get("state", "")[:60])
    states = (state for state, words in _WORDS.items() if word.casefold() in words)
    return Listed(
        next(states, State.OTHER),
        word,
        texts.get("id", ""),
        texts.get("address", ""),
        int(port),
        texts.get("user", ""),
        texts.get("fingerprint", "")[:100],
    )
