"""kernel/accepted.json: the accepted figures of builds, and what changed since then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import AcceptedBuild, AcceptedBuilds, Check, Rule, Usage
from kernelrig.static.rule_check import broken_rule, judged, not_asked
from kernelrig.static.subject import Subject

ACCEPTED = Path("kernel/accepted.json")
HOW = "look at it, then `invoke check --accept`"

RULE = Rule(
    "R008",
    "accepted",
    "nothing got worse since the figures of this build were accepted",
    "below its budget a figure can grow one register at a time without being noticed",
    f"undo what made it worse, or accept it: {HOW}",
)
_MORE_IS_BETTER = ("ctas_per_sm",)


def load_accepted(root: Path) -> AcceptedBuilds:
    """Read what was accepted; a project that has accepted nothing yet has no such file."""
    path = root / ACCEPTED
    return from_json(AcceptedBuilds, path) if path.is_file() else AcceptedBuilds()


def accept_figures(root: Path, builds: Mapping[str, AcceptedBuild]) -> Path:
    """Write the figures of these builds in place of what was accepted of them."""
    merged = {**load_accepted(root).builds, **builds}
    write_atomic(root / ACCEPTED, to_json(AcceptedBuilds(dict(sorted(merged.items())))))
    return root / ACCEPTED


def check_accepted(subject: Subject, now: AcceptedBuild, then: AcceptedBuild | None) -> Check:
    """Compare a build with what was accepted of it; only what got worse is a failure."""
    if then is None:
        return not_asked(RULE, f"no accepted figures of {subject.name} yet: {HOW}")
    changes = list(_changes(then.usage, now.usage))
    facts = {name: text for name, text, _ in changes}
    if then.toolchain != now.toolchain:
        facts["toolchain"] = f"{then.toolchain} -> {now.toolchain}"
    worse = [f"{name} {text}" for name, text, is_worse in changes if is_worse]
    summary = "; ".join(f"{k} {v}" for k, v in facts.items()) or "as accepted"
    found = [broken_rule(RULE, text, kernel=subject.function) for text in worse]
    return judged(RULE, found, f"{summary}; {HOW}" if worse else summary, facts)


def _changes(then: Usage, now: Usage) -> Iterator[tuple[str, str, bool]]:
    """Return each figure that differs, in words, and whether it got worse."""
    for field in fields(Usage):
        before, after = getattr(then, field.name), getattr(now, field.name)
        if before == after:
            continue
        if before is None or after is None:  # a figure that is gone is not known to be as good
            worse = after is None
        else:
            worse = (after < before) == (field.name in _MORE_IS_BETTER)
        shown = ("unknown" if n is None else str(n) for n in (before, after))
        yield field.name.replace("_", " "), " -> ".join(shown), worse
