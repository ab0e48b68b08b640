"""What a sweep leaves to be read: the ranked table, CSV files, the page, the winner as a patch."""

from __future__ import annotations

import csv
import difflib
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelrig.config.load import KERNELS
from kernelrig.config.tuned_defaults import with_defaults
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import to_json
from kernelrig.model import Kernel, Outcome, SweepPhase, SweepResult, SweepRow
from kernelrig.sweep.effects import main_effects
from kernelrig.sweep.page import spent, write_page
from kernelrig.sweep.racing import Standing
from kernelrig.sweep.set_choice import BASE
from kernelrig.sweep.sweep_state import Progress
from kernelrig.terminal.text import one_line, render_rows

RESULT, RESULTS, SAMPLES, PATCH = "sweep.json", "results.csv", "samples.csv", "sweep.patch"
SHOWN = 20


def write_outputs(
    root: Path, kernel: Kernel, folder: Path, result: SweepResult, known: Progress
) -> None:
    """Write all of them anew; they are made of the journal and the heats alone."""
    write_atomic(folder / RESULT, to_json(result))
    write_atomic(folder / RESULTS, _results(result))
    write_atomic(folder / SAMPLES, _samples(known))
    patch = winner_patch(root, kernel, result)
    if patch:
        write_atomic(folder / PATCH, patch)
    else:
        (folder / PATCH).unlink(missing_ok=True)
    write_page(root, folder, result)


def winner_patch(root: Path, kernel: Kernel, result: SweepResult) -> str:
    """Return the best set as a patch to kernels.yaml; empty unless it beats the defaults for sure.

    It is never applied here.
    """
    rows = {r.set.name: r for r in result.rows}
    default = next((r for r in result.rows if r.set.name == "defaults"), None)
    best = next((r for r in rows.values() if r.rank == 1), None)
    if result.why or best is None or default is None or default.standing != Standing.LOST.value:
        return ""
    known = kernel.tunables[result.arch]
    changed = {n: v for n, v in best.set.values.items() if v != known[n].default}
    if not changed or set(changed) & set(kernel.variants[BASE].defines):
        return ""
    if any(v not in known[n].values for n, v in changed.items()):
        return ""  # a value that --set gave, and kernels.yaml does not list
    try:
        old, new = with_defaults(root, kernel.name, result.arch, changed)
    except ConfigError:
        return ""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{KERNELS}",
        f"b/{KERNELS}",
    )
    return "".join(lines)


def render_sweep(result: SweepResult) -> str:
    """Return what a terminal shows: the verdict, the ranking, what matters, the files."""
    word = "fail" if result.default_failed else "incomplete" if result.why else "complete"
    lines = [f"{word}: sweep {result.id}, {_counts(result)}"]
    if result.why:
        lines.append(result.why)
    timed = [r for r in result.rows if r.rank]
    if timed:
        lines += ["", render_rows([_HEAD, *map(_shown, timed[:SHOWN])])]
        if len(timed) > SHOWN:
            lines.append(f"... and {len(timed) - SHOWN} more in {RESULTS}")
        lines += ["", spent(result)]
    lines += _effects(result)
    wrong = [r for r in result.rows if r.outcome in (Outcome.FAIL, Outcome.ERROR)]
    if wrong:
        lines += ["", "did not pass:"]
        lines += [
            f"  {r.set.name}: {r.phase.value}, {r.outcome}: {one_line(r.summary)}"
            for r in wrong[:SHOWN]
        ]
        if len(wrong) > SHOWN:
            lines.append(f"  ... and {len(wrong) - SHOWN} more in {RESULTS}")
    lines += ["", f"sweep: {result.folder} ({RESULTS}, {SAMPLES}, report.html)"]
    lines.append(f"next: {_next(result)}")
    return "\n".join(lines)


_HEAD = ("rank", "over the best", "99% interval", "median ms", "rounds", "standing", "set")


def _shown(row: SweepRow) -> tuple[str, ...]:
    return (
        str(row.rank),
        f"{row.percent or 0:+.2f}%",
        interval_text(row),
        f"{row.median_ms or 0:.5g}",
        str(row.rounds),
        row.standing,
        row.set.name,
    )


def interval_text(row: SweepRow) -> str:
    if row.low_percent is None or row.high_percent is None or row.rank == 1:
        return "-"
    return f"{row.low_percent:+.2f} to {row.high_percent:+.2f}"


def _counts(result: SweepResult) -> str:
    phases = Counter(r.phase for r in result.rows if r.outcome is Outcome.PASS)
    refused = sum(r.outcome is Outcome.SKIP for r in result.rows)
    wrong = sum(r.outcome in (Outcome.FAIL, Outcome.ERROR) for r in result.rows)
    pending = sum(r.phase is SweepPhase.PENDING for r in result.rows)
    unseen = sum(_only_built(r) for r in result.rows)
    early = sum(phases[p] for p in (SweepPhase.EMULATED, SweepPhase.BUILT, SweepPhase.VERIFIED))
    early -= unseen
    said = [
        f"{len(result.rows)} sets",
        f"{phases[SweepPhase.TIMED]} timed" if result.remote else "",
        f"{early} right so far, not timed" if early else "",
        f"{unseen} built, not run yet" if unseen else "",
        f"{refused} refused by a static assert" if refused else "",
        f"{wrong} did not pass" if wrong else "",
        f"{pending} not tried yet" if pending else "",
    ]
    return ", ".join(filter(None, said))


def _only_built(row: SweepRow) -> bool:
    """Return whether nothing of a set was run or emulated: it is not known to be right."""
    built = row.phase is SweepPhase.BUILT and row.outcome is Outcome.PASS
    return built and "emulated" not in row.facts


def _effects(result: SweepResult) -> list[str]:
    found = [e for e in main_effects(result.rows) if e.share >= 0.01][:5]
    if not found:
        return []
    rows = [("tunable", "from best to worst value", "of the variance", "best value")]
    for effect in found:
        best = min(effect.percent, key=lambda v, e=effect: e.percent[v])  # type: ignore[misc]
        rows.append(
            (
                effect.tunable,
                f"{effect.range_percent:.2f}%",
                f"{100 * effect.share:.0f}%",
                str(best),
            )
        )
    return ["", render_rows(rows)]


def _next(result: SweepResult) -> str:
    if result.default_failed:
        return f"repair the set of the defaults: `invoke check --kernel {result.kernel}`"
    if result.why:
        return "call the same `invoke sweep` again: it goes on where it ended"
    if not result.remote:
        return "pass --remote NAME of a host with a GPU: the sets are timed there"
    best = next((r for r in result.rows if r.rank == 1), None)
    if best is None or best.set.name == "defaults":
        return "nothing: no set beats the defaults"
    default = next((r for r in result.rows if r.set.name == "defaults"), None)
    if default is not None and default.standing == Standing.LOST.value:
        then = f"`invoke bench @HEAD {result.kernel} --remote {result.remote}`"
        return f"`git apply {result.folder}/{PATCH}`, then {then}"
    return "nothing: the defaults are level with the best set"


def _results(result: SweepResult) -> str:
    names = list(result.rows[0].set.values) if result.rows else []
    head = [
        "rank", "set", "name", "phase", "outcome", "standing", "rounds", "median_ms", "percent",
        "low_percent", "high_percent", *names, "summary",
    ]  # fmt: skip
    return _csv(
        [
            head,
            *(
                [
                    r.rank, r.set.id, r.set.name, r.phase.value, r.outcome and r.outcome.value,
                    r.standing, r.rounds, r.median_ms, r.percent, r.low_percent, r.high_percent,
                    *(r.set.values[n] for n in names), one_line(r.summary),
                ]
                for r in result.rows
            ),
        ]
    )  # fmt: skip


def _samples(known: Progress) -> str:
    rows: list[list[object]] = [["heat", "set", "round", "process", "sample", "ms"]]
    for heat in known.heats:
        for slot in heat.slots:
            name = heat.sets[slot.candidate]
            rows += (
                [heat.number, name, slot.round, slot.process, i, ms]
                for i, ms in enumerate(slot.samples_ms)
            )
    return _csv(rows)


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; an unknown one is empty."""
    if value is None:
        return ""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in ("=", "+", "-", "@") else value
