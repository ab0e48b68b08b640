"""What a run found: one record a fault, however many threads, times and schedules saw it.

Three steps lead from an event to the file. `Findings.add` counts equal events of one schedule:
those of one kind and PTX line that share `same`. `merge` joins the schedules. `grouping.grouped`
then puts findings of one rule, source line and object together, orders them and links effects to
causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kernelrig.emu.machine.program import SourcePlace
from kernelrig.model.frame import Frame
from kernelrig.ptx.rules import ISA_RULES

OBSERVER_OF = {
    "out-of-bounds": "memory",
    "misaligned": "memory",
    "descriptor": "memory",
    "race": "races",
    "proxy-fence": "races",
    "uninitialised": "init",
    "deadlock": "sync",
    "barrier-misuse": "sync",
    "tmem": "sync",
    "leak": "sync",
    "mismatch": "results",
    "step-limit": "run",
    "stream-race": "races",
}
"""Kind of a finding -> the observer that makes it, named as the GPU stage it stands for."""


PARITY = "on a fresh mbarrier parity 1 passes and parity 0 waits"


@dataclass(frozen=True, slots=True)
class Wait:
    """The mbarrier wait that a thread passed last before it was found at fault.

    `early`: the thread's wait number n + 1 passed when only n phases (`phase`) of the mbarrier had
    completed, as one for parity 1 does on a fresh one. That is how a ring's producer runs, and what
    a consumer with the wrong parity does. `misused`: in the same schedules that mbarrier was used
    against its rules, as a consumer with the wrong parity makes it be. `frames` is the whole chain
    of `frame`.
    """

    barrier: str
    frame: Frame
    early: bool
    phase: int = 0
    frames: tuple[Frame, ...] = ()
    ptx_line: int = 0
    misused: bool = False

    @property
    def fix(self) -> str:
        return (
            f"; if the wait for {self.barrier} should not have passed, its parity is wrong:"
            f" {PARITY}"
        )

    @property
    def passed(self) -> str:
        """How an early wait passed."""
        if self.phase:
            return f"passed a phase early: number {self.phase + 1}, with {self.phase} complete"
        return "passed before any phase of it had completed"

    @property
    def text(self) -> str:
        where = f" at {self.frame.text}" if self.frame.line else ""
        how = f", {self.passed}" if self.early else ""
        return f"the thread's last wait was for {self.barrier}{where}{how}"


@dataclass(frozen=True, slots=True)
class Context:
    """What the place that reports a finding knows in addition to the message.

    `rule` names a row of kernelrig.ptx.rules, `objects` the barriers and buffers concerned,
    `related` other lines that take part, as the other access of a race. `fix` is for what has no
    row, `wait` what the thread at fault had waited for; `reads`: the access
    at fault is a read.
    """

    rule: str = ""
    objects: tuple[str, ...] = ()
    related: tuple[Frame, ...] = ()
    fix: str = ""
    wait: Wait | None = None
    reads: bool = False  # what the wait should have waited for

    @property
    def early_wait_fix(self) -> str:
        """What to look at where a read came behind an early wait, "" elsewhere."""
        return self.wait.fix if self.reads and self.wait and self.wait.early else ""


NO_CONTEXT = Context()
NO_THREAD = (-1, -1)
"""CTA and warp where no thread is at fault."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What grouping needs and the file does not have: threads, schedules, time, last wait."""

    same: object = None
    time: int = 0  # of the machine, at the first sight
    threads: frozenset[tuple[int, int]] = frozenset()  # CTA, warp
    schedules: frozenset[int] = frozenset()
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """`message` is what happened and what was expected, `fix` the suggested correction.

    `cta`, `warp` and `lanes` are of the first thread seen: linear index in the grid, warp of its
    CTA, bits of the lanes; -1 and 0 where no thread is at fault. `source` is `file:line function`
    of the innermost frame in the kernel's own sources, `calls` the whole chain in words, `frames`
    the same as records. `cause` is the index of the finding that explains this one, in the same
    file. `examples` are messages of findings that were merged into this one.
    """

    kind: str
    severity: str
    message: str
    cta: int = -1
    warp: int = -1
    lanes: int = 0
    ptx_line: int = 0
    source: str = ""
    calls: str = ""
    count: int = 1
    schedule: int = 0
    frames: tuple[Frame, ...] = ()
    related: tuple[Frame, ...] = ()
    rule: str = ""
    section: str = ""
    fix: str = ""
    objects: tuple[str, ...] = ()
    schedules: int = 1
    warps: int = 0
    ctas: int = 0
    cause: int | None = None
    examples: tuple[str, ...] = ()
    sighting: Sighting = field(default_factory=Sighting, repr=False, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What findings of one fault have in common, whichever schedule saw them."""
        return key_of(self.kind, self.ptx_line, self.message, self.sighting.same)

    @property
    def advice(self) -> str:
        """The suggested fix with its section: `bar.warp.sync between them (PTX ISA 8.9)`."""
        section = f"(PTX ISA {self.section})" if self.section else ""
        return " ".join(filter(None, (self.fix, section)))

    def as_record(self) -> dict[str, Any]:
        """Return what findings.json has of it."""
        record = asdict(replace(self, sighting=Sighting()))
        del record["sighting"]
        return record


def key_of(kind: str, ptx_line: int, message: str, same: object) -> tuple[object, ...]:
    return (kind, ptx_line, message if same is None else same)


def joined(first: Finding, others: Iterable[Finding]) -> Finding:
    """Return `first` with the counts of all: the threads and schedules that saw any of them."""
    every = (first, *others)
    threads = frozenset[tuple[int, int]]().union(*(f.sighting.threads for f in every))
    schedules = frozenset[int]().union(*(f.sighting.schedules for f in every))
    objects = tuple(dict.fromkeys(name for f in every for name in f.objects))
    return replace(
        first,
        count=sum(f.count for f in every),
        objects=objects,
        schedules=len(schedules),
        warps=len(threads),
        ctas=len({cta for cta, _ in threads}),
        sighting=replace(first.sighting, threads=threads, schedules=schedules),
    )


@dataclass(slots=True)
class _Tally:
    """A finding of one schedule, with the counts and threads of its events so far."""

    first: Finding
    count: int = 0
    threads: set[tuple[int, int]] = field(default_factory=set)
    objects: dict[str, None] = field(default_factory=dict)

    def add(self, count: int, objects: tuple[str, ...], threads: Iterable[tuple[int, int]]) -> None:
        self.count += count
        if objects and not self.objects.keys() >= set(objects):
            self.objects |= dict.fromkeys(objects)
        self.threads.update(threads)

    def finding(self, schedule: int) -> Finding:
        sighting = replace(
            self.first.sighting,
            threads=frozenset(self.threads),
            schedules=frozenset((schedule,)),
        )
        return replace(
            self.first,
            count=self.count,
            schedule=schedule,
            objects=tuple(self.objects),
            warps=len(self.threads),
            ctas=len({cta for cta, _ in self.threads}),
            sighting=sighting,
        )


@dataclass
class Findings:
    """The findings of one schedule, each once."""

    schedule: int = 0
    _seen: dict[tuple[object, ...], _Tally] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Count `finding`; of equal ones the first is kept."""
        tally = self._seen.setdefault(finding.key, _Tally(finding))
        tally.add(finding.count, finding.objects, finding.sighting.threads)

    def add_again(
        self,
        key: tuple[object, ...],
        count: int,
        objects: tuple[str, ...],
        threads: Iterable[tuple[int, int]],
    ) -> bool:
        """Count a finding whose `Finding.key` is known; False, and nothing is done, if it is not.

        A fault in a loop is seen a million times, and a record of each would be made for nothing.
        """
        tally = self._seen.get(key)
        if tally is None:
            return False
        tally.add(count, objects, threads)
        return True

    def report(
        self,
        kind: str,
        message: str,
        where: SourcePlace,
        *,
        threads: Sequence[tuple[int, int]],
        thread: tuple[int, int],
        lanes: int,
        severity: str,
        count: int,
        same: object,
        context: Context,
        time: int,
    ) -> None:
        """Count a fault `where` it was seen: by the first `thread`, of all `threads` at fault."""
        assert kind in OBSERVER_OF, kind
        key = key_of(kind, where.ptx_line, message, same)
        if self.add_again(key, count, context.objects, threads):
            return
        rule = ISA_RULES.get(context.rule)
        self.add(
            Finding(
                kind,
                rule.severity if rule else severity,
                message,
                *thread,
                lanes,
                where.ptx_line,
                where.source,
                where.calls,
                count,
                frames=where.frames,
                related=context.related,
                rule=context.rule or kind,
                section=rule.section if rule else "",
                fix=(context.fix or (rule.fix if rule else "")) + context.early_wait_fix,
                objects=context.objects,
                sighting=Sighting(same, time, frozenset(threads), wait=context.wait),
            )
        )

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(t.finding(self.schedule) for t in self._seen.values())

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.all if f.severity == "error")


def merge(schedules: Iterable[Iterable[Finding]]) -> tuple[Finding, ...]:
    """Join what schedules found; the first one to see a fault keeps its number."""
    seen: dict[tuple[object, ...], list[Finding]] = {}
    for findings in schedules:
        for finding in findings:
            seen.setdefault(finding.key, []).append(finding)
    return tuple(joined(same[0], same[1:]) for same in seen.values())
