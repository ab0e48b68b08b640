"""The faults of a run, grouped: one fault is one entry, and causes come before effects.

One fault shows in many places: in every case and schedule, in the sanitizer's stage and in the
outputs. Findings of one fingerprint are one entry, and an entry that another one explains is listed
under that. Every report (terminal, summary.md, GitHub) shows these entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelrig.model import STOPPED_SCHEDULES, DeviceKind, Finding, Outcome, Run
from kernelrig.model.frame import Frame
from kernelrig.report.outcome import Fault, faults

_RANKS: tuple[tuple[str, ...], ...] = (
    # A misuse that is wrong by itself, whatever else happens:
    ("barrier", "descriptor", "tmem", "out-of-bounds", "misaligned", "proxy-fence", "invalid"),
    ("race",),
    ("uninitiali",),
    # Mostly the consequence of one of the above:
    ("deadlock",),
    ("leak",),
    ("mismatch",),
    # What the CUDA runtime returns once a kernel has failed:
    ("cuda", "host api"),
)
"""What kinds of findings begin with, as the emulator and the sanitizers name them.

Causes come before effects: the index of a row is its rank.
"""

STATIC_TOOL = "check"
_UNKNOWN_RANK = 1
_DEADLOCK = 3
_RUNTIME = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """One fault, with the names of the stages that saw it and the entries that it explains.

    The finding of `fault` is that of the first stage, with the counts of all of them. `apart` tells
    it from other entries of its kind at its line, empty where there are none.
    """

    fault: Fault
    stages: tuple[str, ...]
    explains: tuple[Entry, ...] = ()
    apart: str = ""

    @property
    def finding(self) -> Finding | None:
        return self.fault.finding


def is_symptom(finding: Finding) -> bool:
    """Return whether a kind is usually an effect, as a deadlock is: its line is not the cause's."""
    return _rank_of(finding) >= _DEADLOCK


def entries(run: Run) -> tuple[Entry, ...]:
    """Return the faults of a run: the kernel's before errors of ours, causes before the rest."""
    found = _merged(faults(run) or _found_on_purpose(run))
    order = {id(e): number for number, e in enumerate(found)}
    ranked = sorted(found, key=lambda e: (_is_error(e), _rank(e), order[id(e)]))
    causes: dict[int, Entry] = {}
    for e in ranked:
        cause = next((other for other in ranked if other is not e and _explains(other, e)), None)
        if cause is not None and _root(cause, causes) is not e:
            causes[id(e)] = cause
    explained: dict[int, list[Entry]] = {}
    for e in ranked:
        explained.setdefault(id(_root(e, causes)), []).append(e)
    roots = [e for e in ranked if id(e) not in causes]
    apart = _told_apart(roots)
    return tuple(
        replace(
            e,
            explains=tuple(o for o in explained[id(e)] if o is not e),
            apart=apart.get(id(e), ""),
        )
        for e in roots
    )


def place_of(finding: Finding) -> tuple[str, str, str]:
    """Return the kind, the line and the function, by which a heading names a finding."""
    located = next((f for f in finding.frames if f.line == finding.line), None)
    return finding.kind, finding.at, (located.function if located else "") or finding.kernel


def lines_of(finding: Finding) -> str:
    """Name the other lines: a race's other access, or where else a static rule does not hold."""
    others = dict.fromkeys(f"{f.file}:{f.line}" for f in finding.related if f.line)
    word = "also at" if finding.tool == STATIC_TOOL else "with"
    return f"{word} {', '.join(others)}" if others else ""


def _told_apart(found: Sequence[Entry]) -> dict[int, str]:
    """Return what tells entries of one place apart: by the first of these in which all differ."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for e in found:
        if e.finding is not None:
            groups.setdefault(place_of(e.finding), []).append(e)
    told: dict[int, str] = {}
    for group in groups.values():
        if len(group) < 2:
            continue
        seen = [e.finding for e in group if e.finding is not None]
        ways = (
            [f"of {', '.join(f.objects)}" if f.objects else "" for f in seen],
            [lines_of(f) for f in seen],
            [f"in {', '.join(e.stages)}" for e in group],
            [f"({number} of {len(group)} there)" for number in range(1, len(group) + 1)],
        )
        words = next(w for w in ways if len(set(w)) == len(w))
        told |= {id(e): word for e, word in zip(group, words, strict=True)}
    return told


def _found_on_purpose(run: Run) -> tuple[Fault, ...]:
    """Return the findings of a fault that was made on purpose: its stage passes with them."""
    if run.fault is None:
        return ()
    checks = [(stage, check) for stage in run.stages for check in stage.checks]
    return tuple(Fault(s, c.verdict, c, f) for s, c in checks for f in c.findings)


def _merged(found: Iterable[Fault]) -> list[Entry]:
    """Join faults of one fingerprint, in the order in which the first of each was seen."""
    groups: dict[object, list[Fault]] = {}
    for fault in found:
        groups.setdefault(_key(fault), []).append(fault)
    return [_entry(group) for group in groups.values()]


def _key(fault: Fault) -> object:
    """Return what faults of one entry have in common: for a static rule, its code and kernel."""
    f = fault.finding
    if f is None or not f.fingerprint:
        return id(fault)
    if f.tool == STATIC_TOOL:
        return fault.verdict.outcome, fault.stage.name, f.rule or f.kind, f.kernel
    return fault.verdict.outcome, f.fingerprint


def _entry(group: Sequence[Fault]) -> Entry:
    first, stages = group[0], tuple(dict.fromkeys(fault.stage.name for fault in group))
    seen = [fault.finding for fault in group if fault.finding is not None]
    if not seen:
        return Entry(first, stages)
    whole = replace(
        seen[0],
        count=sum(f.count for f in seen),
        schedules=sum(f.schedules for f in seen),
        warps=max(f.warps for f in seen),
        ctas=max(f.ctas for f in seen),
        related=seen[0].related or _other_lines(seen),
        # A stage of fewer observers may not have seen the cause that another one names.
        explained_by=next(filter(None, (f.explained_by for f in seen)), ""),
    )
    return Entry(replace(first, finding=whole), stages)


def _other_lines(seen: Sequence[Finding]) -> tuple[Frame, ...]:
    """Return the other lines at which a static rule does not hold."""
    lines = dict.fromkeys(Frame(f.file, f.line) for f in seen if f.at != seen[0].at and f.line)
    return tuple(lines)


def _is_error(entry: Entry) -> bool:
    return entry.fault.verdict.outcome is Outcome.ERROR


def _rank(entry: Entry) -> int:
    """Return how far a kind is from the cause, 0 = the cause; without a finding, the farthest."""
    return len(_RANKS) if entry.finding is None else _rank_of(entry.finding)


def _rank_of(finding: Finding) -> int:
    if finding.tool == STATIC_TOOL:  # a rule of PTX names instructions as the source does
        return 0 if finding.rule.startswith("P") else 1
    kind = finding.kind.lower()
    words = ((rank, word) for rank, row in enumerate(_RANKS) for word in row)
    return next((rank for rank, word in words if kind.startswith(word)), _UNKNOWN_RANK)


def _explains(cause: Entry, effect: Entry) -> bool:
    a, b = cause.finding, effect.finding
    if a is None:
        return False
    if b is None:
        return _stopped_it(cause, effect)
    if b.explained_by:
        return b.explained_by == a.fingerprint
    if _rank(cause) > _rank(effect) or a.explained_by == b.fingerprint:
        return False
    if _rank(effect) == _RUNTIME:
        return bool(set(cause.stages) & set(effect.stages)) and _rank(cause) < _RUNTIME
    if a.tool == b.tool == STATIC_TOOL:  # one fault at one line, which two rules see
        return bool(a.line) and a.at == b.at and _rank(cause) < _rank(effect)
    if _rank(effect) < _DEADLOCK:
        return False
    if _rank(cause) == _rank(effect) == _DEADLOCK:  # a launch that hangs waits at many lines
        return _is_before(cause, effect)
    tied = bool(set(a.objects) & set(b.objects)) or (bool(a.line) and a.at == b.at)
    return tied and _rank(cause) < _rank(effect)


def _is_before(cause: Entry, effect: Entry) -> bool:
    """Order deadlocks: the one that more schedules saw, else the one found first, is the cause."""
    a, b = cause.finding, effect.finding
    return a is not None and b is not None and (-a.schedules, a.at) < (-b.schedules, b.at)


def _stopped_it(cause: Entry, effect: Entry) -> bool:
    """Return whether a check was not completed because the cause's launch did not end."""
    check = effect.fault.check
    emulated = cause.fault.stage.device is DeviceKind.EMULATOR
    return emulated and check is not None and STOPPED_SCHEDULES in check.facts


def _root(entry: Entry, causes: dict[int, Entry]) -> Entry:
    """Follow causes to the entry that has none; `causes` never lead in a circle."""
    while id(entry) in causes:
        entry = causes[id(entry)]
    return entry
