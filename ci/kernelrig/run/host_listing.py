"""`invoke runs --remote R`: the runs that lie on a host, and which of them are not here yet.

What a host tells of them decides nothing: it is shown, and `collect` judges files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig import config
from kernelrig.config.selection import choose_remote
from kernelrig.errors import ProtocolError
from kernelrig.files import serialization
from kernelrig.model import HostRun, Run
from kernelrig.remote import connect
from kernelrig.run.store import RUNS
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line, render_rows

_STOPPED_S = 30.0
"""Without a heartbeat for so long an agent is stopped, or waits for memory."""


def list_on_host(root: Path, name: str, last: int) -> tuple[tuple[HostRun, ...], str]:
    """Return the last runs of the remote's workdir, and a table of them."""
    remote = choose_remote(config.load_remotes(root), name)
    with connect(remote, root=root) as link:
        found, count = link.runs(last)
    held = tuple(replace(run, here=_state_here(root, run.id)) for run in found)
    if not held:
        return (), f"no runs on {name}"
    head = ("run", "on the host", "since", "until", "stages", "login", "here")
    table = render_rows([head, *map(_row, held)])
    more = f"\nand {count - len(held)} earlier: --last {count} shows all" * (count > len(held))
    open_still = [r.id for r in held if r.here in ("launched", "incomplete", "collected")]
    hint = f"\nnext: {COMMAND} collect {open_still[0]}" if open_still else ""
    return held, f"{table}{more}{hint}"


def _state_here(root: Path, run_id: str) -> str:
    """Return the state of the run's record here; empty where it has none."""
    path = root / RUNS / run_id / "run.json"
    if not path.is_file():
        return ""
    try:
        return serialization.from_json(Run, path).state
    except ProtocolError:
        return "damaged"


def _row(run: HostRun) -> tuple[str, ...]:
    state = "ended" if run.ended else "its agent is gone"
    if run.alive:
        state = f"no heartbeat for {run.quiet_s:.0f} s" if run.quiet_s > _STOPPED_S else "runs"
        state = run.waits or state
    done = f"{run.ended_stages} ended" + (f", {run.stage} runs" if run.alive and run.stage else "")
    here = {"": "no record", "finished": "collected"}.get(run.here, f"{run.here}, not collected")
    cells = (run.id, state, run.since_utc, run.until_utc or "now", done, run.owner, here)
    return tuple(one_line(cell)[:80] or "-" for cell in cells)
