"""One fault, one finding: equal findings are merged, effects linked to their cause, all ordered.

A fault shows many times: in every schedule, on every stage of a ring, in each unrolled copy of an
instruction, and again in what follows from it. A reader wants the first line to be the cause.

Merging: findings of one kind, rule and source line about one array of barriers or one buffer are
one. They are counted, and a few of their messages stay as examples. Misuse of mbarriers in dynamic
shared memory, which have no names, is one by the whole chain of calls.

What one missing fence breaks is one finding too, at however many lines: proxy fences by the lines
of either side that they share, the fence behind mbarrier inits for the whole kernel.

Linking: `cause` is set only where one of these holds, so that an independent fault keeps its place:

- two findings whose threads passed the same mbarrier wait early: the first explains the others, and
  misuse or deadlock of that mbarrier in the same schedules. If there is such misuse, it also
  explains races on the same buffers, and wrong elements if it is in every schedule that has some;
- an mbarrier of which the bytes do not add up explains what is wrong behind waits on it;
- a race or an uninitialised read behind a wait on an mbarrier that was misused in all schedules
  that saw it: the misuse explains it, but an overwritten mbarrier nothing that was seen before;
- a deadlock that involves an mbarrier which was misused, or that shows in another schedule too;
- a race seen from its other side: the same two source lines, the same buffer;
- an uninitialised read on a line of a race about the same buffer, where some schedule that saw the
  race did not see it: there the write came first;
- a wrong element whose writer's line, or whose buffer, has a race or an uninitialised read;
- tensor memory that is not freed where freeing it was wrong.

A cause behind an early wait for an mbarrier that was misused is located at the wait: that is the
line to correct. Its message and `related` have the line of the read. Without the misuse the wait
may be right, as a producer's first one is, and the finding stays at the read.

Nothing is dropped: what is linked stays in the file, behind what explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kernelrig.emu.machine.findings import PARITY, Finding, joined
from kernelrig.model.frame import Frame

EXAMPLES = 3
RANK = {
    "descriptor": 0,
    "out-of-bounds": 0,
    "misaligned": 0,
    "tmem": 1,
    "barrier-misuse": 2,
    "proxy-fence": 3,
    "race": 3,
    "uninitialised": 3,
    "deadlock": 4,
    "leak": 5,
    "mismatch": 6,
    "step-limit": 7,
}
"""Kinds in the order in which one explains the other, where nothing else is known."""
WRONG_BYTES = "mbarrier-bytes"
"""The rule of a deadlock that is a cause: no other fault makes an mbarrier's bytes wrong."""
LANES = "lanes-not-synchronised"
"""The rule of a race within a warp. The same lines race across warps too where a barrier of the CTA
is missing: that is the one to name, as a barrier of the warp would not be enough."""
_ONE_FENCE = frozenset({"init-not-in-async-proxy"})
"""Rules of which all findings of a kernel have one cause."""
_PLAIN_ACCESS = "mbarrier-plain-access"
"""The rule of an mbarrier that was overwritten: waits on it before that were right."""
_PLACE = " + 0x"
"""What stands before the offset in a name that is a place of a region."""
ORDER_FAULTS = frozenset({"race", "uninitialised", "proxy-fence"})

Explains = Callable[[Finding, Finding], bool]


def grouped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge, order and link findings; each `cause` is an index into what is returned."""
    merged: dict[tuple[object, ...], list[Finding]] = {}
    found = tuple(findings)
    names = (name.partition(_PLACE) for f in found for name in f.objects)
    places = frozenset(region for region, by_place, _ in names if by_place)
    for finding in found:
        merged.setdefault(_merge_key(finding, places), []).append(finding)
    each = _of_one_fence([_merged(same) for same in merged.values()])
    misuses = [f for f in each if f.kind == "barrier-misuse"]
    ordered = sorted((_with_misuse(f, misuses) for f in each), key=_rank)
    roots = [_root(ordered, index) for index in range(len(ordered))]
    order = sorted(range(len(ordered)), key=lambda i: (roots[i] if roots[i] >= 0 else i, i))
    place = {index: position for position, index in enumerate(order)}
    return tuple(
        replace(ordered[i], cause=place[roots[i]]) if roots[i] >= 0 else _at_its_wait(ordered[i])
        for i in order
    )


def base(name: str) -> str:
    """Return the array that an element is of: `inputs_arrived[2]` is of `inputs_arrived`."""
    return name.partition("[")[0]


def _bases(finding: Finding) -> frozenset[str]:
    return frozenset(base(name) for name in finding.objects)


def _line(finding: Finding) -> object:
    return finding.source or finding.ptx_line


def _merge_key(finding: Finding, places: frozenset[str]) -> tuple[object, ...]:
    """`places` are regions in which mbarriers are named by their place, as `smem + 0x8`."""
    # Of a deadlock the first object is the barrier that it is about, the others all that wait too.
    objects = finding.objects[:1] if finding.kind == "deadlock" else finding.objects
    if finding.rule or finding.objects:
        about: object = (finding.rule, frozenset(base(name) for name in objects))
        regions = frozenset(name.partition(_PLACE)[0] for name in objects)
        if finding.kind == "barrier-misuse" and regions <= places:
            # They have no names of their own; in one loop they have the same chain of calls.
            about = (finding.rule, regions, finding.frames)
    else:
        about = finding.sighting.same or finding.message
    return (finding.kind, finding.severity, _line(finding), about, finding.related)


def _merged(same: Sequence[Finding]) -> Finding:
    first = min(same, key=lambda f: (f.schedule, f.sighting.time))
    others = [f for f in same if f is not first]
    examples = tuple(dict.fromkeys(f.message for f in others if f.message != first.message))
    return replace(joined(first, others), examples=examples[:EXAMPLES])


def _of_one_fence(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings that the same missing fence explains: those that share a line, in turn."""
    groups: list[tuple[set[object], list[Finding]]] = []
    for finding in findings:
        lines = _fence_lines(finding)
        sharing = [g for g in groups if lines & g[0]]
        groups = [g for g in groups if g not in sharing]
        found = [f for _, members in sharing for f in members]
        groups.append((lines.union(*(known for known, _ in sharing)), [*found, finding]))
    return [members[0] if len(members) == 1 else _joined_lines(members) for _, members in groups]


def _fence_lines(finding: Finding) -> set[object]:
    """Return what findings of the same missing fence have in common; nothing for other rules."""
    about = (finding.kind, finding.rule, finding.severity)
    if finding.rule in _ONE_FENCE:
        return {about}
    if finding.kind != "proxy-fence":
        return set()
    return {(about, line) for line in (_line(finding), *finding.related[:1])}


def _joined_lines(same: Sequence[Finding]) -> Finding:
    made = _merged(same)
    sides = (frame for f in (made, *same) for frame in (*f.related, _own_frame(f)) if frame)
    lines = dict.fromkeys(sides)
    return replace(made, related=tuple(f for f in lines if f != _own_frame(made)))


def _own_frame(finding: Finding) -> Frame | None:
    """Return the frame that the finding is located at."""
    at = (f for f in finding.frames if finding.source.startswith(f"{f.file}:{f.line}"))
    return next(at, None)


def _with_misuse(finding: Finding, misuses: Sequence[Finding]) -> Finding:
    """Note at an early wait that its mbarrier was misused in the same schedules."""
    wait = finding.sighting.wait
    if wait is None or not wait.early or finding.kind not in ORDER_FAULTS:
        return finding
    for misuse in misuses:
        if base(wait.barrier) in _bases(misuse) and (
            finding.sighting.schedules & misuse.sighting.schedules
        ):
            sighting = replace(finding.sighting, wait=replace(wait, misused=True))
            return replace(finding, sighting=sighting)
    return finding


def _rank(finding: Finding) -> tuple[object, ...]:
    early = finding.sighting.wait is not None and finding.sighting.wait.early
    return (
        finding.severity == "warning",  # what is off may explain an error
        not (early and finding.kind in ORDER_FAULTS),
        1 if finding.rule == WRONG_BYTES else RANK.get(finding.kind, 0),
        finding.rule == LANES,
        finding.schedule,
        finding.sighting.time,
    )


def _at_its_wait(finding: Finding) -> Finding:
    """Return a cause behind an early wait as one at the wait; every other cause unchanged."""
    wait = finding.sighting.wait
    if wait is None or not (wait.misused and wait.frame.line):
        return finding
    read = _own_frame(finding)
    what = finding.message.removesuffix(f"; {wait.text}")
    otherwise = finding.fix.removesuffix(wait.fix)
    others = (*((read,) if read else ()), *(f for f in finding.related if f != wait.frame))
    return replace(
        finding,
        message=f"the wait for {wait.barrier} {wait.passed}; behind it{_at(finding)}: {what}",
        fix=f"correct the parity of this wait: {PARITY}"
        + (f"; if the wait is right, {otherwise}" if otherwise else ""),
        source=_text(wait.frame),
        ptx_line=wait.ptx_line,
        calls=", in ".join(f.text for f in wait.frames),
        frames=wait.frames,
        related=tuple(dict.fromkeys(others)),
    )


def _at(finding: Finding) -> str:
    return f" at {finding.source}" if finding.source else ""


def _root(ordered: Sequence[Finding], index: int) -> int:
    """Return the finding that explains the one at `index`, -1 for none; only earlier ones can."""
    for explains in _LINKS:
        for other in range(index):
            if explains(ordered[other], ordered[index]):
                # A chain is followed to its start: a reader looks at one cause.
                return other if (root := _root(ordered, other)) < 0 else root
    return -1


def _same_early_wait(cause: Finding, effect: Finding) -> bool:
    first, second = cause.sighting.wait, effect.sighting.wait
    if first is None or not first.early or cause.kind not in ORDER_FAULTS:
        return False
    together = bool(cause.sighting.schedules & effect.sighting.schedules)
    if effect.kind in ("barrier-misuse", "deadlock") and base(first.barrier) in _bases(effect):
        return together
    if first.misused and effect.kind in ORDER_FAULTS and _bases(cause) & _bases(effect):
        return together
    if first.misused and effect.kind == "mismatch":
        return _in_its_schedules(cause, effect)
    if second is None or not second.early:
        return False
    return (base(first.barrier), first.frame) == (base(second.barrier), second.frame)


def _behind_wrong_bytes(cause: Finding, effect: Finding) -> bool:
    """The bytes of an mbarrier do not add up: its phases complete too early, or never."""
    if cause.rule != WRONG_BYTES or not cause.sighting.schedules & effect.sighting.schedules:
        return False
    barrier = base(cause.objects[0])
    wait = effect.sighting.wait
    if effect.kind in ORDER_FAULTS:
        return wait is not None and base(wait.barrier) == barrier
    return effect.kind == "barrier-misuse" and barrier in _bases(effect)


def _behind_a_misused_barrier(cause: Finding, effect: Finding) -> bool:
    wait = effect.sighting.wait
    return (
        cause.kind == "barrier-misuse"
        and effect.kind in ORDER_FAULTS
        and wait is not None
        and base(wait.barrier) in _bases(cause)
        and _in_its_schedules(cause, effect)
        and not (cause.rule == _PLAIN_ACCESS and _is_behind(cause, effect))
    )


def _deadlock(cause: Finding, effect: Finding) -> bool:
    if effect.kind != "deadlock" or not _bases(cause) & _bases(effect):
        return False
    if cause.kind == "barrier-misuse":
        return _in_its_schedules(cause, effect)
    return cause.kind == "deadlock"


def _other_side(cause: Finding, effect: Finding) -> bool:
    """A race of a write with a read, and of the next read with that write.

    A warning of one rule is no cause of another's: where code has few lines, as behind one macro,
    all that it does to one buffer has the same two.
    """
    if not (cause.kind == effect.kind == "race" and cause.related and effect.related):
        return False
    if cause.severity == "warning" and cause.rule != effect.rule:
        return False
    return _bases(cause) == _bases(effect) and (
        {cause.source, _text(cause.related[0])} == {effect.source, _text(effect.related[0])}
    )


def _read_before_its_write(cause: Finding, effect: Finding) -> bool:
    """In some schedules the unordered write came after the read, which found nothing written."""
    if not (cause.kind == "race" and cause.severity == "error" and effect.kind == "uninitialised"):
        return False
    return (
        effect.source in {cause.source, *map(_text, cause.related[:1])}
        and bool(_bases(cause) & _bases(effect))
        and effect.sighting.schedules < cause.sighting.schedules
    )


def _text(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} {frame.function}".rstrip()


def _wrong_element(cause: Finding, effect: Finding) -> bool:
    if effect.kind != "mismatch" or cause.kind not in ORDER_FAULTS or cause.severity != "error":
        return False
    lines = {cause.source, *map(_text, cause.related[:1])} - {""}
    return bool(_bases(cause) & _bases(effect)) or effect.source in lines


def _not_freed(cause: Finding, effect: Finding) -> bool:
    return cause.kind == "tmem" and effect.kind == "leak" and "tensor memory" in effect.objects


def _is_behind(cause: Finding, effect: Finding) -> bool:
    """Whether `cause` was first seen later than `effect`, in the first schedule that saw it."""
    return (effect.schedule, effect.sighting.time) < (cause.schedule, cause.sighting.time)


def _in_its_schedules(cause: Finding, effect: Finding) -> bool:
    return effect.sighting.schedules <= cause.sighting.schedules


_LINKS: tuple[Explains, ...] = (
    _same_early_wait,
    _behind_wrong_bytes,
    _behind_a_misused_barrier,
    _deadlock,
    _other_side,
    _read_before_its_write,
    _wrong_element,
    _not_freed,
)
