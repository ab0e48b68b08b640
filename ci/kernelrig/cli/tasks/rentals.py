"""Tasks that rent a host and give it back, by the commands of its remote."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import optional_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply
from kernelrig.cli.streams import write_error
from kernelrig.errors import ConfigError

_ID = "where the provider has no tags: id of the host that its page shows, or none"


@command(
    help={
        "remote": "a remote with 'up' in remotes.local.yaml",
        "down_after": "minutes unused after which the host runs 'on_idle' itself; default: never",
        "id": _ID,
    }
)
def up(remote: str, down_after: str = "", id: str = "") -> Reply:
    """Rent a host, or find the one that was rented; pin its key, write its address."""
    from kernelrig.rental import life_cycle

    minutes = optional_number("down-after", down_after)
    if minutes == 0:
        raise ConfigError("--down-after must be more than 0 minutes")
    return Reply(life_cycle.up(project_root(), remote, _asking(id), minutes, known_host=id))


@command(help={"remote": "a remote with 'down' in remotes.local.yaml", "id": _ID})
def down(remote: str, id: str = "") -> Reply:
    """Give a rented host back; exit 0 only when its provider confirms that it is gone."""
    from kernelrig.rental import life_cycle

    return Reply(life_cycle.down(project_root(), remote, _asking(id)))


def _asking(given: str) -> Callable[[str], str]:
    """Return what answers a question: the flag, or a person at the terminal."""

    def ask(question: str) -> str:
        if given or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return given
        write_error(f"{question}: ")
        with contextlib.suppress(EOFError):
            return input().strip()
        return ""

    return ask
