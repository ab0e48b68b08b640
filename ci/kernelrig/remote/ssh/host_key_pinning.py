"""Pin a host: fetch its host key without logging in, compare the fingerprint, write a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernelrig.errors import RemoteError
from kernelrig.model import Remote
from kernelrig.remote.ssh.known_hosts import HostKey, parse_fingerprint
from kernelrig.terminal.log import mask, say

if TYPE_CHECKING:
    from kernelrig.remote.ssh.route import Hop, SshHome

# One handshake per family: a server may have a key of each, and a provider may list any of them.
_FAMILIES = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)


def resolve_remote(
    name: str,
    target: str,
    fingerprint: str = "",
    *,
    arch: str,
    jump: str = "",
    identity_file: str = "",
    home: SshHome | None = None,
) -> Remote:
    """Return the record for `USER@HOST[:PORT]` with the host's key pinned, and show that key.

    With a fingerprint only the key of that fingerprint is pinned, whatever its type. Without one
    the key shown is trusted on first use, and the user is told to compare it.
    """
    from kernelrig.remote.ssh.route import (  # 0.4 s that other tasks are spared
        SshHome,
        addresses,
        parse_target,
        route,
    )

    wanted = parse_fingerprint(fingerprint) if fingerprint else ""
    where = parse_target(target)
    remote = Remote(
        name=name,
        arch=arch,
        host=where.host,
        user=where.user,
        port=where.port,
        jump=jump,
        identity_file=identity_file,
    )
    hops = route(remote, home or SshHome.of_user())
    mask(addresses(hops))
    keys = fetch_host_keys(hops, wanted)
    address = hops[-1].address
    matching = [key for key in keys if not wanted or key.fingerprint == wanted]
    if not matching:
        raise RemoteError(
            f"{address} does not have the key {wanted}: it shows {', '.join(map(str, keys))}",
            "nothing was written; is the address right, is the fingerprint that of this host?",
        )
    say(f"host key of {address}: {matching[0]}")
    if not wanted:
        say("pinned on first use; compare it with what the host or its provider says")
    return replace(remote, host_key=matching[0].line)


def fetch_host_keys(
    hops: Sequence[Hop], wanted: str = "", *, link_timeout_s: float = 20.0
) -> tuple[HostKey, ...]:
    """Return the keys the last hop shows, best type first; only `wanted` ends the search early.

    Jump hosts on the way are checked and logged in to; the last hop is not logged in to.
    """
    from kernelrig.remote.ssh import handshake

    chain: list[Any] = []
    found: list[HostKey] = []
    last = hops[-1]
    try:
        for hop in hops[:-1]:
            before = chain[-1] if chain else None
            chain.append(
                handshake.connect_hop(hop, before, handshake.HostKeyCheck(hop, ""), link_timeout_s)
            )
        for family in _FAMILIES:
            key = handshake.show_host_key(
                last, chain[-1] if chain else None, family, link_timeout_s
            )
            if key is not None:
                found.append(key)
                if not wanted or key.fingerprint == wanted:
                    break
    finally:
        for connection in reversed(chain):
            handshake.close(connection)
    if not found:
        raise RemoteError(f"{last.address} shows no host key of a supported type")
    return tuple(found)
