"""Connect to a remote: from its record to a link with the agent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.model import Remote
from kernelrig.terminal.log import say

if TYPE_CHECKING:
    from kernelrig.remote.host_link import HostLink


@contextlib.contextmanager
def connect(
    remote: Remote, *, root: Path, host_key: str = "", to_ship: Mapping[str, Path] | None = None
) -> Iterator[HostLink]:
    """Yield the link to `remote`; an embedded host is served as long as the link is open.

    `root` is the repository, against which a relative identity_file is read. `host_key` is the
    fingerprint of the only key that the host may show, empty where any that is known will do. With
    `to_ship` the host is asked for its facts, and which of these files it lacks, as it is reached.
    """
    # Fabric takes 0.2 s to import, asyncssh 0.3 s: each only where it is used.
    from kernelrig.remote.host_link import connect_host
    from kernelrig.remote.ssh.route import SshHome, expanded
    from kernelrig.remote.ssh.session import Session

    with contextlib.ExitStack() as stack:
        home = SshHome.of_user()
        embedded = remote.kind == "embedded"
        if embedded:
            from kernelrig.remote.embedded import embedded_host

            host = stack.enter_context(embedded_host())
            home, remote = host.home, host.reach(remote)
            say(f"embedded SSH host on {host.host}:{host.port}")
        elif remote.identity_file:
            identity = root / expanded(remote.identity_file)
            remote = replace(remote, identity_file=str(identity))
        session = stack.enter_context(
            Session(remote, home=home, host_key=host_key, silence_s=remote.silence_s)
        )
        link = connect_host(
            session,
            remote,
            boot_s=remote.boot_s,
            give_up_s=remote.give_up_s,
            answer_s=remote.answer_s,
            to_ship=to_ship,
        )
        stack.callback(link.close)
        link.host_key = "" if embedded else session.host_key
        yield link
