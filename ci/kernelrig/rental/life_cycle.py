"""Rent a host, find it again after a crash at any instant, give it back until that is confirmed.

The request is on file before `up` is started. A second `up` is started only when `status` has said
that there is nothing under that request, and with the same request.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import config
from kernelrig.config.selection import choose
from kernelrig.errors import CiError, ConfigError, ProtocolError, RemoteError
from kernelrig.model import Remote
from kernelrig.rental import rental_file
from kernelrig.rental.provider import Listed, Provider, State, billed
from kernelrig.rental.rental_file import Rental
from kernelrig.terminal.log import say

NONE = "none"
"""The answer where the user has looked, and there is no host."""

Ask = Callable[[str], str]
"""Asks the user for the id of a host, or `none`; empty where nobody can be asked."""

_UNREADABLE = (RemoteError, ProtocolError)


def up(
    root: Path, name: str, ask: Ask, down_after: float | None = None, *, known_host: str = ""
) -> str:
    """Rent the host of a remote, or go on with what an earlier `up` began; pin its key.

    With `down_after` the host runs `on_idle` itself once it was not used for so many minutes.
    `known_host` is the id that the user knows of a host: beside it none is rented.
    """
    remote = _rentable(root, name)
    if down_after is not None and not remote.on_idle:
        raise ConfigError(
            f"--down-after needs 'on_idle' of '{name}': what the host runs to end itself",
            "write it into remotes.local.yaml, as [shutdown, -h, now]",
        )
    with rental_file.held(root, name) as lock:
        cycle = LifeCycle(root, remote, Provider(remote, lock), ask)
        found = rental_file.open_of(root, name)
        if len(found) > 1:
            requests = ", ".join(rental.request for rental in found)
            raise RemoteError(f"'{name}' has {len(found)} requests: {requests}", _give_back(name))
        if not found and known_host not in ("", "none"):
            raise ConfigError(
                f"no request of '{name}' is open: --id {known_host} would be passed over, and a"
                " host rented beside it",
                "write the address of a host that you have into an entry of your own, or leave"
                " --id out",
            )
        host = cycle.rented(found[0] if found else None)
        reached = cycle.reach(host)
    if down_after is not None:
        from kernelrig.remote import connect

        with connect(reached, root=root) as link:
            link.watch_idle(remote.on_idle, 60 * down_after)
        say(f"'{name}' ends itself after {down_after:g} min without a run or a request")
    where = f"{host.address}:{host.port}" if host.port else host.address
    return f"'{name}' is up at {where}; try `invoke remote-test --remote {name}`"


def down(root: Path, name: str, ask: Ask) -> str:
    """Give back every host of a remote; return only when `status` has confirmed it."""
    remote = _rentable(root, name)
    with rental_file.held(root, name) as lock:
        cycle = LifeCycle(root, remote, Provider(remote, lock), ask)
        last = rental_file.last_ended(root, name)
        found = rental_file.open_of(root, name) or ([last] if last else [])
        if not found:
            raise ConfigError(f"'{name}' was never rented from here: no request is on file")
        for rental in found:
            cycle.give_back(rental)
    return f"'{name}' is down: its provider lists no host of it"


def _rentable(root: Path, name: str) -> Remote:
    remotes = config.load_remotes(root)
    remote = remotes[choose(remotes, name, "remote")]
    if not remote.up:
        hint = "write its 'up', 'status' and 'down' commands into remotes.local.yaml"
        raise ConfigError(f"remote '{name}' is not rented by commands", hint)
    return remote


def _give_back(name: str) -> str:
    return f"`invoke down {name}` gives back what is there"


def _pauses(seconds: float) -> Iterator[None]:
    """Yield at once, then after longer and longer pauses until `seconds` have passed."""
    until, pause = time.monotonic() + seconds, 0.1
    yield
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(2 * pause, 10.0)
        yield


@dataclass(slots=True)
class LifeCycle:
    """The rentals of one remote, under its lock."""

    root: Path
    remote: Remote
    provider: Provider
    ask: Ask

    def rented(self, rental: Rental | None) -> Listed:
        """Return the one host of the remote, running; rent one only if there is none."""
        if rental is not None:
            rental, hosts = self._look(rental)
            if hosts:
                say(f"'{self.remote.name}' has a host already: {', '.join(map(str, hosts))}")
                return self._running(rental)
        if rental is None or rental.state == "ended":
            rental = rental_file.new_rental(self.remote.name, self.remote.price_per_hour)
        return self._running(self._rent(replace(rental, asked_s=time.time())))

    def _rent(self, rental: Rental) -> Rental:
        """Put the request on file, then start `up`, whose outcome only `status` knows for sure."""
        rental = rental_file.save(self.root, rental)
        say(f"renting '{self.remote.name}': request {rental.request}")
        try:
            said = self.provider.up(rental)
        except _UNREADABLE as e:
            hosts: tuple[Listed, ...] = ()
            if self.remote.tags:
                with contextlib.suppress(*_UNREADABLE):
                    hosts = billed(self.provider.status(rental))
            if not hosts:
                raise RemoteError(
                    f"{e.message}: no host of it is known so far",
                    f"`invoke up {self.remote.name}` looks again before it asks again;"
                    f" {_give_back(self.remote.name)}",
                ) from e
            say(f"{e.message}: there is a host all the same")
            return self._seen(rental, hosts)
        return self._seen(rental, (said,)) if said and said.id else rental

    def _seen(self, rental: Rental, hosts: tuple[Listed, ...]) -> Rental:
        """File that there is a host, and its id if there is one of it."""
        own = hosts[0].id if len(hosts) == 1 and hosts[0].id else rental.id
        if (rental.state, rental.id) == ("up", own):
            return rental
        return rental_file.save(self.root, replace(rental, state="up", id=own))

    def _look(self, rental: Rental) -> tuple[Rental, tuple[Listed, ...]]:
        """Return the rental as it is now, and its hosts; `ended` if the provider knows it as gone.

        A request that was just made may not be listed yet: it is looked for until `boot_s` have
        passed since `up` was started, and errors of `status` are tried again as long.
        """
        if not self.remote.tags and not rental.id:
            rental = self._asked(rental)
            if rental.state == "ended":
                return rental, ()
        passed = max(0.0, time.time() - rental.asked_s)
        wait_s = self.remote.boot_s - passed if rental.state == "asked" else 0.0
        error: CiError | None = None
        for _ in _pauses(wait_s):
            try:
                found = self.provider.status(rental)
            except _UNREADABLE as e:
                error = e
                continue
            error = None
            if hosts := billed(found):
                return self._seen(rental, hosts), hosts
            if found or rental.state != "asked":
                self._close(rental)
                return replace(rental, state="ended"), ()
        if error is not None:
            raise error
        return rental, ()

    def _asked(self, rental: Rental) -> Rental:
        """Ask the user what became of a request that the provider cannot be asked for."""
        what = f"request {rental.request} of {rental.asked_utc} for '{self.remote.name}'"
        said = self.ask(
            f"what became of {what}? Type the id of the host that the provider's page shows for"
            f" it, or {NONE}"
        )
        if not said:
            raise ConfigError(
                f"what became of {what} is not known, and its provider has no tags (tags: false)",
                f"look at the provider's page, then pass --id ID, or --id {NONE}",
            )
        if said == NONE:
            self._close(rental)
            return replace(rental, state="ended")
        return rental_file.save(self.root, replace(rental, state="up", id=said))

    def _running(self, rental: Rental) -> Listed:
        """Wait until the request has one host that runs and has an address."""
        name, said = self.remote.name, "it is not listed"
        for _ in _pauses(self.remote.answer_s):
            try:
                found = self.provider.status(rental)
            except _UNREADABLE as e:
                said = e.message
                continue
            hosts = billed(found)
            if len(hosts) > 1:
                shown = ", ".join(map(str, hosts))
                raise RemoteError(f"'{name}' has {len(hosts)} hosts: {shown}", _give_back(name))
            if hosts:
                rental, said = self._seen(rental, hosts), f"it is {hosts[0]}"
                if hosts[0].state is State.RUNNING and hosts[0].address:
                    return hosts[0]
            elif found:
                self._close(rental)
                raise RemoteError(f"the host of '{name}' is gone: {', '.join(map(str, found))}")
        raise RemoteError(
            f"'{name}' has no address after {self.remote.answer_s:g} s: {said}",
            f"`invoke up {name}` waits again; {_give_back(name)}",
        )

    def reach(self, host: Listed) -> Remote:
        """Pin the key of the host, and write its address into remotes.local.yaml."""
        from kernelrig.remote.ssh.channel import LinkLost
        from kernelrig.remote.ssh.host_key_pinning import resolve_remote
        from kernelrig.remote.ssh.known_hosts import parse_host_key

        known = self.remote
        user = host.user or known.user
        if (known.host, known.port, known.user) == (host.address, host.port, user):
            pinned = known.host_key and parse_host_key(known.host_key).fingerprint
            if pinned and host.fingerprint in ("", pinned):
                return known
        address = f"[{host.address}]" if ":" in host.address else host.address
        target = f"{user}@{address}" if user else address
        target = f"{target}:{host.port}" if host.port else target
        for _ in _pauses(known.boot_s):
            try:
                shown = resolve_remote(
                    known.name,
                    target,
                    host.fingerprint,
                    arch=known.arch,
                    jump=known.jump,
                    identity_file=known.identity_file,
                )
                break
            except LinkLost as e:  # it boots
                lost = e
        else:
            raise RemoteError(
                lost.message, f"`invoke up {known.name}` tries again; {_give_back(known.name)}"
            )
        reached = replace(
            known, host=shown.host, port=shown.port, user=shown.user, host_key=shown.host_key
        )
        config.add_remote(self.root, reached, replace=True)
        self._try_login(reached)
        return reached

    def _try_login(self, reached: Remote) -> None:
        """Say at once why no run could be on the host, which is billed by now, if that is so."""
        from kernelrig.remote import connect

        try:
            with connect(reached, root=self.root):
                pass
        except (RemoteError, ProtocolError, ConfigError) as e:
            hint = f"; {e.hint}" if e.hint else ""
            say(f"'{reached.name}' is there, and no run can be on it yet: {e.message}{hint}")

    def give_back(self, rental: Rental) -> None:
        """Run `down` for each host of the request until `status` says that none is left."""
        hosts: tuple[Listed, ...] = ()
        known, trouble = rental.state == "up" and bool(self.remote.tags or rental.id), ""
        try:
            if known:
                hosts = billed(self.provider.status(rental))
            else:
                rental, hosts = self._look(rental)
        except _UNREADABLE as e:  # what is known is given back all the same
            trouble = e.message
        if not (known or hosts or trouble):
            return self._confirm(rental)
        for own in [host.id for host in hosts] or [rental.id]:
            try:
                if own or not any("{id}" in word for word in self.remote.down):
                    self.provider.down(rental, own)
            except RemoteError as e:
                trouble = e.message
                say(trouble)
        for _ in _pauses(self.remote.answer_s):
            try:
                hosts = billed(self.provider.status(rental))
            except _UNREADABLE as e:
                trouble = e.message
                continue
            if not hosts:
                return self._close(rental)
            trouble = f"it is {', '.join(map(str, hosts))}"
        raise RemoteError(
            f"'{self.remote.name}' may still be billed (request {rental.request}): {trouble}",
            f"look at the provider's page; `invoke down {self.remote.name}` tries again",
        )

    def _confirm(self, rental: Rental) -> None:
        """End a request without a host; on the user's word alone that is no confirmation."""
        self._close(rental)
        if not self.remote.tags and not rental.id:
            raise RemoteError(
                f"request {rental.request} of '{self.remote.name}' is filed as gone on your word:"
                " its provider has not confirmed it"
            )

    def _close(self, rental: Rental) -> None:
        """File the request as gone, after its address was taken out of remotes.local.yaml."""
        if self.remote.host:
            cleared = replace(self.remote, host="", port=0, host_key="")
            config.add_remote(self.root, cleared, replace=True)
            self.remote = cleared
        rental_file.close(self.root, rental)
