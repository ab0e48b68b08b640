"""The fingerprint of a function's SASS: a hash of the instructions alone.

Addresses, the numbers of labels and source lines are left out; registers are not, as another
allocation is other code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from kernelrig.model import AcceptedBuild, Check, Rule
from kernelrig.sass import Function
from kernelrig.static.rule_check import judged
from kernelrig.static.subject import Subject

RULE = Rule(
    "F001",
    "fingerprint",
    "the SASS of each function has a fingerprint, which every result is recorded with",
    "two builds of one fingerprint run the same instructions, whatever was edited",
    "`invoke sass-diff A B` shows what changed, by function",
)
_LABEL = re.compile(r"\.L_\w+")
_HASHED = re.compile(r"_[0-9a-f]{8}(?=_)|(?<=_cu_)[0-9a-f]{8}")
"""What nvcc puts into the names of an anonymous namespace: a hash of the path and the text."""


def normal_lines(function: Function, *, numbered: bool = True) -> Iterator[str]:
    """Yield the instructions, each label in its place, labels by their order or all alike."""
    places = sorted(set(function.labels.values()))
    order = {at: f"L{n}" if numbered else "L" for n, at in enumerate(places)}
    names = {name: order[at] for name, at in function.labels.items()}
    for i in function.instructions:
        if i.address in order:
            yield f"{order[i.address]}:"
        yield _LABEL.sub(lambda m: names.get(m[0], m[0]), f"{i.text} {i.note}".rstrip())


def fingerprint(function: Function) -> str:
    return hashlib.sha256("\n".join(normal_lines(function)).encode()).hexdigest()[:16]


def stable_name(mangled: str) -> str:
    """Return a function's name without the hash of its file that nvcc adds."""
    return _HASHED.sub("_", mangled)


def check_fingerprint(
    subject: Subject, now: Mapping[str, str], then: AcceptedBuild | None
) -> Check:
    """Report the fingerprints and whether they are the accepted ones; a change is no failure."""
    if then is None:
        summary = f"no accepted figures of {subject.name} to compare with"
    elif then.fingerprints == dict(now):
        summary = "as accepted"
    else:
        changed = sorted(
            n for n in {*now, *then.fingerprints} if now.get(n) != then.fingerprints.get(n)
        )
        summary = f"changed since it was accepted: {', '.join(changed)}"
    return judged(RULE, (), summary, dict(now))
