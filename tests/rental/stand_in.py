"""A project whose remote `rented` is rented from the provider of `provider.py`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelrig import config
from kernelrig.model import Remote
from kernelrig.remote.ssh.known_hosts import parse_host_key

PROGRAM = Path(__file__).with_name("provider.py")


@dataclass(frozen=True)
class StandIn:
    """The provider's state, as a test makes and sees it."""

    state: Path

    @classmethod
    def make(cls, state: Path, at: Remote, **more: object) -> StandIn:
        """Make a provider whose every host is listed with the address and key of `at`."""
        (state / "hosts").mkdir(parents=True)
        own = cls(state)
        key = parse_host_key(at.host_key).fingerprint if at.host_key else ""
        where = {"address": at.host, "port": at.port, "user": at.user, "fingerprint": key}
        own.lists(**{**where, **more})
        return own

    def lists(self, **listing: object) -> None:
        (self.state / "listing.json").write_text(json.dumps(listing))

    def remote(self, **changes: object) -> Remote:
        words = (sys.executable, "-S", str(PROGRAM), str(self.state))
        asked = "{request}" if changes.get("tags", True) else "{id}"
        settings = {
            "boot_s": 1.0, "answer_s": 5.0, "price_per_hour": 5.0, "connect_timeout_s": 10.0,
            "up": (*words, "up", "{request}"), "status": (*words, "status", asked),
            "down": (*words, "down", "{id}"), **changes,
        }  # fmt: skip
        return Remote("rented", "sm_90a", **settings)  # type: ignore[arg-type]

    def write(self, root: Path, **changes: object) -> None:
        config.add_remote(root, self.remote(**changes))

    def fault(self, verb: str, when: str, victims: str) -> None:
        (self.state / f"fault-{verb}-{when}").write_text(victims)

    @property
    def hosts(self) -> list[str]:
        return sorted(p.name for p in (self.state / "hosts").iterdir() if p.name[0] != ".")

    @property
    def most_hosts(self) -> int:
        """Return the most hosts that there were at once."""
        log = self.state / "log"
        return max(map(int, log.read_text().split() if log.exists() else ()), default=0)
