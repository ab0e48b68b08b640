"""The evidence: a row for each case, and the table of kinds and seeds made from the rows."""

from __future__ import annotations

import fcntl
import json
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelrig.files.rundir import write_atomic
from kernelrig.terminal.text import one_line

VARIABLE = "KERNELRIG_FAULTS_TABLE"
"""The environment variable that names the table's file; its rows are kept in FILE.jsonl."""


@dataclass(frozen=True)
class Row:
    kind: str
    seed: int
    survived: bool
    lost: int
    doubled: int
    leaked: int
    seconds_to_notice: float | None
    seconds: float
    findings: str


def add_row(row: Row) -> None:
    """Append the row where the variable names a table, and write the table anew."""
    if not (name := os.environ.get(VARIABLE)):
        return
    path = Path(name)
    with path.with_name(f"{path.name}.jsonl").open("a+") as rows:
        fcntl.flock(rows, fcntl.LOCK_EX)
        rows.write(json.dumps(asdict(row)) + "\n")
        rows.flush()
        rows.seek(0)
        kept = [Row(**json.loads(line)) for line in rows]
        write_atomic(path, render({(r.kind, r.seed): r for r in kept}.values()))


def render(rows: Iterable[Row]) -> str:
    """Return the table, a line for each kind, and after it what was found of those that failed."""
    rows = list(rows)
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row)
    lines = [
        "| fault | seeds | survived | lost | doubled | leaked"
        " | s to notice, median / max | s a case |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, of_kind in sorted(by_kind.items()):
        seen = [r.seconds_to_notice for r in of_kind if r.seconds_to_notice is not None]
        notice = f"{statistics.median(seen):.1f} / {max(seen):.1f}" if seen else "-"
        lines.append(
            f"| {kind} | {len(of_kind)} | {sum(r.survived for r in of_kind)}"
            f" | {sum(r.lost for r in of_kind)} | {sum(r.doubled for r in of_kind)}"
            f" | {sum(r.leaked for r in of_kind)} | {notice}"
            f" | {statistics.median(r.seconds for r in of_kind):.1f} |"
        )
    failed = [f"- {r.kind}-{r.seed}: {one_line(r.findings)[:400]}" for r in rows if not r.survived]
    return "\n".join([*lines, "", *failed]) + "\n"
