"""One link to a host for several runs, one after the other.

To connect and to start an agent takes half a second, in which a GPU waits. The facts of the host
are asked for as soon as a run is over: they are gathered while it is judged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kernelrig.errors import CiError
from kernelrig.model import Remote
from kernelrig.remote.connection import connect
from kernelrig.remote.host_link import HostLink


class KeptLink:
    """Connects as `connect` does, and keeps the link open behind a run that went well.

    Used as a context, it closes it at the end.
    """

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._link: HostLink | None = None
        self._remote: Remote | None = None

    def __enter__(self) -> KeptLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._link = self._remote = None
        self._open.close()

    @contextlib.contextmanager
    def __call__(
        self,
        remote: Remote,
        *,
        root: Path,
        host_key: str = "",
        to_ship: Mapping[str, Path] | None = None,
    ) -> Iterator[HostLink]:
        """Yield the link to `remote`, made anew unless the last run left one to the same, which
        showed that key."""
        reached = replace(remote, max_minutes=None, max_cost=None)  # those of each run alone
        known = self._link is not None and host_key in ("", self._link.host_key)
        if self._link is None or self._remote != reached or not known:
            self.close()
            made = connect(remote, root=root, host_key=host_key, to_ship=to_ship)
            self._link, self._remote = self._open.enter_context(made), reached
        else:
            self._link.begin_run()
        link = self._link
        try:
            yield link
        except BaseException:
            self.close()
            raise
        try:
            link.ask_facts_ahead()
        except CiError:  # the run went well: the next one connects anew
            self.close()
