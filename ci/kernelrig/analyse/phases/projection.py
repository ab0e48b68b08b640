"""What a row would take if phases took more or less: estimated, with the least and the most."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from kernelrig.analyse.phases.equilibrium import Structure, critical_share
from kernelrig.analyse.phases.phase_names import ALIASES, plain, waits
from kernelrig.errors import ConfigError
from kernelrig.model import Projection

_CHANGE = re.compile(r"(?P<by>[+-]?\d{1,9}(?:\.\d{1,3})?)(?P<percent>%?)")
Change = tuple[str, float, bool]
"""A phase as the user names it, by how much, and whether that is a percentage of the phase."""


def parse_changes(text: str) -> tuple[Change, ...]:
    """Return the changes of `phase1=-200,kloop=-10%`: cycles of a row, or per cent of the phase."""
    found: list[Change] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, by = part.partition("=")
        value = _CHANGE.fullmatch(by.strip())
        if not equals or not name.strip() or not value:
            raise ConfigError(
                f"--what-if: '{part}' is not a change of a phase",
                "write it as phase1=-200 (cycles) or kloop=-10%, separated by commas",
            )
        if any(plain(name) == plain(n) for n, _, _ in found):
            raise ConfigError(f"--what-if: '{name.strip()}' is changed twice")
        found.append((name.strip(), float(value["by"]), bool(value["percent"])))
    if text and not found:
        raise ConfigError(f"--what-if must be changes of phases, not '{text}'")
    return tuple(found)


def project(structure: Structure, changes: Sequence[Change], row: str) -> Projection:
    """Return the row after `changes`.

    At the most the change counts only as far as it moves the floor, at the least in full; the
    estimate is by the share of the work that lies on the critical path.
    """
    work, after = structure.work, dict(structure.work)
    named: list[tuple[str, float]] = []
    for name, by, percent in changes:
        phase = _phase(name, work)
        change = work[phase] * by / 100 if percent else by
        after[phase] += change
        if after[phase] < 0:
            raise ConfigError(
                f"--what-if: {phase} takes {work[phase]:,.0f} cycles, {-change:,.0f} cannot go"
            )
        named.append((phase, change))
    before = structure.cycle
    in_full = sum(change * structure.times.get(phase, 1) for phase, change in named)
    floor = structure.floor(after)
    ends = sorted((before + in_full, before + floor - structure.floor(work)))
    least, most = (max(end, floor) for end in ends)
    middle = before + critical_share(structure) * in_full
    estimated = min(max(middle, least), most)
    said = ", ".join(f"{phase} {change:+,.0f}" for phase, change in named)
    text = (
        f"{said}: {estimated:,.0f} cycles a {row} in place of {before:,.0f},"
        f" {before / estimated:.2f}x ({before / most:.2f}x to {before / least:.2f}x), estimated"
    )
    return Projection(tuple(named), before, estimated, least, most, text)


def _phase(name: str, work: Mapping[str, float]) -> str:
    wanted = plain(name)
    wanted = plain(ALIASES.get(wanted, wanted))
    known = {plain(phase): phase for phase in work}
    if wanted in known:
        return known[wanted]
    if waits(name.lower()) or waits(ALIASES.get(plain(name), "")):
        raise ConfigError(
            f"--what-if: '{name}' is a wait for another role and follows from its work",
            f"change the work: {', '.join(work)}",
        )
    near = difflib.get_close_matches(wanted, (*known, *ALIASES), 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ConfigError(
        f"--what-if: no phase '{name}' in this capture", f"{hint}phases: {', '.join(work)}"
    )
