"""What a session would do, how long that took before and what it costs; nothing is started."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from kernelrig.errors import ConfigError
from kernelrig.files.event_log import read_log
from kernelrig.model import Remote
from kernelrig.run.budget import Expected, minutes_text
from kernelrig.run.forecast import expected_minutes
from kernelrig.run.spec import RunSpec
from kernelrig.session.local_phase import known_inputs
from kernelrig.session.session_choice import (
    SESSIONS,
    Planned,
    Session,
    SessionRequest,
    prepare_session,
)
from kernelrig.session.session_state import read_state
from kernelrig.terminal.text import one_line, render_rows

_HEAD = ("entry", "task", "needs", "on", "minutes", "price")


def describe_session(root: Path, request: SessionRequest) -> str:
    """Say what a session would do; nothing is compiled, fetched, rented or connected to."""
    session = prepare_session(root, request)
    require_within_limits(session)
    ended = _ended(session)
    rows = [_HEAD, *(_row(session, planned, ended) for planned in session.planned)]
    first = "first, here: builds, checks and emulations of all entries; then on hosts:"
    lines = [f"session {session.name}: {len(session.planned)} entries", first, render_rows(rows)]
    lines += forecast_lines(session, ended)
    if session.file.rent and any(r.up for r in session.remotes):
        lines.append("hosts are rented when an entry comes to them, and given back after the last")
    return "\n".join(lines)


def _ended(session: Session) -> dict[str, str]:
    """Return the verdict of each entry that an earlier call reached, as far as it still counts."""
    events = read_log(session.root / SESSIONS / session.name, "session")
    inputs = {planned.name: known_inputs(session, planned) for planned in session.planned}
    known = read_state(events, inputs).entries if events else {}
    return {
        name: "pass" if one.ended["exit_code"] == 0 else "did not pass"
        for name, one in known.items()
        if one.ended is not None and inputs[name] and name not in session.request.again
    }


def forecast_lines(session: Session, judged: Container[str] = ()) -> Iterator[str]:
    """Yield minutes and price of the entries that are not judged yet together, and the limits."""
    on_hosts = [p for p in session.planned if p.needs_host]
    if on_hosts and all(planned.name in judged for planned in on_hosts):
        yield "every entry has its verdict: nothing is left to do; --again NAME does one once more"
        return
    least = median = most = low = high = cost = 0.0
    unknown, priced = [], False
    for planned in on_hosts:
        if planned.name in judged:
            continue
        found, remote = _expected(session, planned)
        if found is None or not found.runs:
            unknown.append(planned.name)
            continue
        least, median, most = least + found.least, median + found.median, most + found.most
        if found.unknown:
            unknown.append(f"{planned.name} ({', '.join(found.unknown)})")
        price = remote.price_per_hour if remote else None
        if price is not None:
            priced = True
            low += price * found.least / 60
            cost += price * found.median / 60
            high += price * found.most / 60
    more = f"; unknown: {', '.join(unknown)}" if unknown else ""
    if most:
        shown = tuple(map(minutes_text, (median, least, most)))
        yield "minutes on hosts: {} ({} to {} in earlier runs){}".format(*shown, more)
    else:
        yield f"minutes on hosts: unknown{': ' + ', '.join(unknown) if unknown else ''}"
    if priced:
        yield f"price: {cost:.2f} ({low:.2f} to {high:.2f}){more}"
    file = session.file
    limits = [
        f"{file.max_minutes:g} min" if file.max_minutes is not None else "",
        f"a cost of {file.max_cost:g}" if file.max_cost is not None else "",
    ]
    if any(limits):
        yield f"limit of the session: {' and '.join(filter(None, limits))}"


def require_within_limits(session: Session) -> None:
    """Raise ConfigError for entries that never took as little as the session may."""
    file, least, cost = session.file, 0.0, 0.0
    for planned in session.planned:
        found, _ = _expected(session, planned)
        if found is not None:
            least += found.least
            prices = [w.remote.price_per_hour or 0.0 for w in planned.ways if w.remote]
            cost += min(prices, default=0.0) * found.least / 60
    if file.max_cost is not None and all(r.price_per_hour is None for r in session.remotes):
        raise ConfigError(
            "'max_cost' needs 'price_per_hour' of the remotes", "write it into remotes.local.yaml"
        )
    for what, limit, took in (
        ("max_minutes", file.max_minutes, least),
        ("max_cost", file.max_cost, cost),
    ):
        if limit is not None and took > limit:
            raise ConfigError(
                f"the entries took {took:.1f} at the least, and '{what}' is {limit:g}",
                f"raise {what}, or leave entries out",
            )


def _expected(session: Session, planned: Planned) -> tuple[Expected | None, Remote | None]:
    """Return the minutes on the first remote that fits and of which any are known, and that remote.

    None for what no history tells.
    """
    known = [
        (expected_minutes(session.root, way.spec), way.remote)
        for way in planned.ways
        if way.remote is not None and isinstance(way.spec, RunSpec)
    ]
    if not known:
        return None, None
    return next((each for each in known if each[0].runs), known[0])


def _row(session: Session, planned: Planned, ended: Mapping[str, str]) -> tuple[str, ...]:
    entry, (found, held) = planned.entry, _expected(session, planned)
    names = [w.remote.name for w in planned.ways if w.remote]
    minutes, price = ("here", "-") if not planned.needs_host else ("unknown", "unknown")
    if found is not None and found.runs:
        minutes = str(found)
        price = "-"
        if held is not None and held.price_per_hour is not None:
            price = found.cost(held.price_per_hour)
    if verdict := ended.get(entry.name):
        minutes, price = f"0 (reused: {verdict})", "-"
    needs = ", ".join(entry.needs) or "-"
    on = " or ".join(names) or "here"
    return tuple(map(one_line, (entry.name, entry.task, needs, on, minutes, price)))
