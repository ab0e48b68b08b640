"""A link to the agent of a host over connections that may drop: what was asked is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from kernelrig.errors import IncompleteError, RemoteError
from kernelrig.model import Remote
from kernelrig.remote.archive import agent_archive
from kernelrig.remote.host_reply import checked_value
from kernelrig.remote.protocol import AgentSession, Frame, HostRefused
from kernelrig.remote.ssh.channel import LinkLost, Opener
from kernelrig.terminal.log import say

LONGEST_PAUSE_S = 10.0

T = TypeVar("T")


class PersistentLink:
    """The connections to one host, one after the other.

    `give_up_s` limits how long we reconnect without any progress; `boot_s` is that limit for the
    first connection, which was tried at `began`. `ahead` are requests that go with it. `host_key`
    is the fingerprint of the key that the host showed, empty for an embedded host.
    """

    host_key = ""

    def __init__(
        self,
        opener: Opener,
        remote: Remote,
        boot_s: float,
        give_up_s: float,
        retry_s: float,
        answer_s: float,
        idle_s: float,
        ahead: Sequence[Frame] = (),
    ) -> None:
        self.remote = remote
        self._is_cluster = remote.kind == "slurm"
        self._opener = opener
        self._boot_s = boot_s
        self._give_up_s = give_up_s
        self._greeted = False
        self._retry_s = retry_s
        self._answer_s = answer_s
        self._idle_s = idle_s
        self._ahead = ahead
        self._clock_ahead_s: float | None = None
        self.began = self._last_progress = time.monotonic()
        self._session: AgentSession | None = None
        try:
            self._persist(lambda _: None)
        except BaseException:
            self.close()
            raise

    @property
    def held_s(self) -> float:
        """For how long the host is held: from the first byte sent to the last one that came."""
        heard = self._session.heard if self._session is not None else self._last_progress
        return max(0.0, heard - self.began)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _value(self, request: dict[str, Any], key: str, kinds: tuple[type, ...]) -> Any:  # noqa: ANN401 - of one of `kinds`
        return checked_value(self.ask(request), key, kinds)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._persist(lambda session: session.ask(request))

    def _progressed(self) -> None:
        self._last_progress = time.monotonic()

    def _connected(self) -> AgentSession:
        # Only LinkLost is retried. Another host key, a refused login or a missing python does not
        # go away, and logging in again for five minutes would look like an attack.
        if self._session is None:
            agent_archive()  # packed before the host is held
            if not self._greeted:  # a host that still boots is not held
                self.began = time.monotonic()
            told = {"workdir": self.remote.workdir, "env": self.remote.env, "idle_s": self._idle_s}
            if self._is_cluster:
                told["slurm"] = asdict(self.remote.slurm)
            self._session = AgentSession(
                self._opener,
                self.remote,
                first=({"op": "hello", **told}, *self._ahead),
                answer_s=self._answer_s,
            )
            self._ahead = ()  # a later connection continues with what was under way
            there = self._session.frame().get("utc_s")
            if isinstance(there, float):  # it was read as the reply was made
                self._clock_ahead_s = round(there - time.time(), 1)
            self._greeted = True
        return self._session

    def _persist(self, step: Callable[[AgentSession], T], run_id: str = "") -> T:
        """Return the result of `step`; after a lost connection, connect and repeat it.

        Gives up `give_up_s` after the last progress: with IncompleteError if `run_id` was launched.
        The first connection, before which nothing runs there, is given up after `boot_s`.
        """
        self._progressed()
        pause = self._retry_s
        while True:
            began = self._last_progress
            try:
                return step(self._connected())
            except LinkLost as e:
                self.close()
                if self._last_progress > began:
                    pause = self._retry_s
                limit_s = self._give_up_s if self._greeted else self._boot_s
                left_s = self._last_progress + limit_s - time.monotonic()
                if left_s < pause or (e.lasting and not self._greeted):
                    raise self._gave_up(e, run_id) from e
                say(f"{e.message}; connecting again, for up to {left_s:.0f} s")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            except HostRefused:
                raise
            except BaseException:
                self.close()  # the stream may have stopped in mid-frame
                raise

    def _gave_up(self, cause: LinkLost, run_id: str) -> RemoteError | IncompleteError:
        if not self._greeted:
            again = self._boot_s and not cause.lasting
            tried = f", tried again for {self._boot_s:g} s" if again else ""
            return RemoteError(f"{cause.message}{tried}", cause.hint)
        text = f"no connection to {self.remote.name} for {self._give_up_s:.0f} s: {cause.message}"
        if run_id:  # whether it runs there, and what to do about it, is known to the executor
            return IncompleteError(text)
        return RemoteError(text, cause.hint)
