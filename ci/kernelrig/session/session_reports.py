"""What a session leaves to be read: one summary for the terminal, as Markdown, JUnit and JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import to_json
from kernelrig.model import Outcome, SessionCase, SessionResult, SessionRow, Verdict
from kernelrig.report.junit import CaseOf, SuiteOf, render_suites
from kernelrig.session.local_phase import Local
from kernelrig.session.session_choice import SESSIONS, Planned, Session
from kernelrig.session.session_state import SessionState, cases_of
from kernelrig.terminal.text import markdown, one_line, render_rows

RESULT, SUMMARY, JUNIT = "session.json", "summary.md", "junit.xml"
_HEAD = ("entry", "task", "verdict", "on", "minutes", "summary")


def session_result(
    session: Session, state: SessionState, local: dict[str, Local], stopped: dict[str, str]
) -> SessionResult:
    """Return what is known of each entry; `stopped` says why entries were left in this call."""
    rows: list[SessionRow] = []
    for planned in session.planned:
        rows.append(_row(planned, state, local, stopped, rows))
    why = [f"{r.name}: {r.summary}" for r in rows if r.outcome is None]
    why += [f"remote '{name}' is rented, and not given back" for name in sorted(state.rented)]
    billed = state.billed_minutes(datetime.now(UTC))
    prices = {r.name: r.price_per_hour for r in session.remotes}
    costs = [m / 60 * p for name, m in billed.items() if (p := prices.get(name)) is not None]
    return SessionResult(
        session.name,
        str(SESSIONS / session.name),
        tuple(rows),
        tuple(why),
        round(sum(billed.values()), 3),
        round(sum(costs), 4) if costs else None,
    )


def _row(
    planned: Planned,
    state: SessionState,
    local: dict[str, Local],
    stopped: dict[str, str],
    before: list[SessionRow],
) -> SessionRow:
    name = planned.name
    known, here = state.entries[name], local[name]
    row = SessionRow(
        name,
        planned.entry.task,
        None,
        None,
        "",
        known.remote,
        (*here.runs, *(str(begun["run"]) for begun in known.runs.values())),
        tuple(here.cases),
        round(known.minutes, 3),
        known.cost,
    )
    needed = [r for r in before if r.name in planned.entry.needs]
    if lacking := next((r for r in needed if r.outcome not in (None, Outcome.PASS)), None):
        text = f"needs '{lacking.name}', which did not pass"
        return replace(row, outcome=Outcome.SKIP, exit_code=0, summary=text, cases=())
    if here.ended is not None:
        outcome = {0: Outcome.PASS, 1: Outcome.FAIL, 3: Outcome.FAIL}.get(here.ended, Outcome.ERROR)
        return replace(row, outcome=outcome, exit_code=here.ended, summary=here.summary)
    if (event := known.ended) is None:
        pending = next((r.name for r in needed if r.outcome is None), "")
        why = f"needs '{pending}', which is not complete" if pending else ""
        open_on = ", ".join(f"run {e['run']} is open on {r}" for r, e in known.runs.items())
        if open_on:
            open_on += f": name that remote, or give it up with --again {name}"
        why = why or stopped.get(name) or open_on or known.why or "not carried out yet"
        return replace(row, summary=why)
    row = replace(
        row,
        cases=(*row.cases, *cases_of(event)),
        runs=(*row.runs, *map(str, event["runs"])),
        remote=str(event["remote"]),
    )
    if wrong := next((c for c in here.cases if c.outcome is Outcome.ERROR), None):
        # Nothing is called a pass that was not established here.
        code = int(event["exit_code"]) or 4
        if code == 4:
            text = f"{wrong.name}: {wrong.summary}"
            return replace(row, outcome=Outcome.ERROR, exit_code=code, summary=text)
    return replace(
        row,
        outcome=Outcome(event["outcome"]),
        exit_code=int(event["exit_code"]),
        summary=str(event["summary"]),
    )


def write_session(session: Session, folder: Path, result: SessionResult) -> None:
    write_atomic(folder / RESULT, to_json(result))
    write_atomic(folder / SUMMARY, _markdown(result))
    write_atomic(folder / JUNIT, _junit(result))


def render_session(result: SessionResult) -> str:
    """Return what a terminal shows: the verdict, a row for each entry, what is left to do."""
    rows = [_HEAD, *(_cells(row) for row in result.rows)]
    lines = [f"{_word(result)}: session {result.id}, {_counts(result)}", "", render_rows(rows), ""]
    lines.append(_spent(result))
    lines += [f"not complete: {one_line(why)}" for why in result.why]
    lines.append(f"session: {result.folder} ({SUMMARY}, {JUNIT}, {RESULT})")
    if result.exit_code == 6:
        lines.append("next: the same command goes on")
    return "\n".join(lines)


def _word(result: SessionResult) -> str:
    known = {0: "pass", 1: "fail", 3: "fail", 6: "incomplete"}
    return known.get(result.exit_code, "error")


def _counts(result: SessionResult) -> str:
    words = [_verdict(row) for row in result.rows]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _verdict(row: SessionRow) -> str:
    return "not complete" if row.outcome is None else str(row.outcome)


def _spent(result: SessionResult) -> str:
    """Say for how long runs held hosts, and what was billed of those that the session rented."""
    cost = "" if result.cost is None else f", cost {result.cost:.2f}"
    said = f"held hosts for {result.minutes:.1f} min{cost}"
    if not result.billed_minutes:
        return said
    price = "" if result.billed_cost is None else f", up to {result.billed_cost:.2f}"
    return f"{said}; those it rented were billed for {result.billed_minutes:.1f} min{price}"


def _cells(row: SessionRow) -> tuple[str, ...]:
    cells = (
        row.name,
        row.task,
        _verdict(row),
        row.remote or "here",
        f"{row.minutes:.1f}",
        row.summary,
    )
    return tuple(map(one_line, cells))


def _markdown(result: SessionResult) -> str:
    lines = [
        f"# {_word(result)}: session {markdown(result.id)}",
        "",
        f"{_counts(result)}; {_spent(result)}",
        "",
        f"| {' | '.join(_HEAD)} | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result.rows:
        cells = [markdown(cell).replace("|", "\\|") for cell in _cells(row)]
        lines.append(f"| {' | '.join(cells)} | {', '.join(map(markdown, row.runs)) or '-'} |")
    lines += ["", *(f"- not complete: {markdown(why)}" for why in result.why)]
    return "\n".join(lines).rstrip() + "\n"


def _junit(result: SessionResult) -> bytes:
    """Return a suite for each entry; one that has not ended is an error, as nothing is known."""
    suites = []
    for row in result.rows:
        cases = list(row.cases)
        joined = {c.outcome for c in cases}
        if row.outcome is None:
            cases.insert(0, SessionCase("entry", Outcome.ERROR, f"not complete: {row.summary}"))
        elif row.outcome not in joined or not cases:
            cases.insert(0, SessionCase("entry", row.outcome, row.summary))
        suites.append(
            SuiteOf(
                row.name,
                f"session.{result.id}.{row.name}",
                tuple(CaseOf(c.name, Verdict(c.outcome, c.summary), c.seconds) for c in cases),
                60 * row.minutes,
                {
                    "task": row.task,
                    **({"remote": row.remote} if row.remote else {}),
                    **({"runs": ", ".join(row.runs)} if row.runs else {}),
                },
            )
        )
    return render_suites(f"session {result.id}", suites)
