"""How far a sweep has got, from its journal alone: the same events give the same next step."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelrig.files.serialization import from_json
from kernelrig.model import BenchResult, Outcome, SweepPhase, SweepRow, Timed, TunableSet
from kernelrig.sweep.journal import Journal
from kernelrig.sweep.racing import MOST_SLOTS, Heat, Observation, Standing, Standings, observe

MOST_ERRORS = 2
"""As often a set is tried that ends in an error of the host's; then it is out, with that error."""
VERIFIED_TOGETHER = {False: 24, True: 96}
"""Sets that a run verifies; more if that is on all GPUs of a host, which end them sooner."""
POOL = 26
"""Sets in one heat, if the GPU's memory has room for the inputs of their processes."""
MOST_PROCESSES = 3
"""Of a set in a heat; a `bench` has as many."""


@functools.lru_cache(maxsize=256)
def _read_heat(path: Path, _digest: str) -> BenchResult:
    """Read the slots of a heat once: what a sweep knows is made of its journal after each run."""
    return from_json(BenchResult, path)


@dataclass(frozen=True, slots=True)
class MeasuredHeat:
    """A heat that was measured: its slots, whose candidates count in `sets`."""

    number: int
    sets: tuple[str, ...]
    rounds: int
    slots: tuple[Timed, ...]
    environment: tuple[str, ...]
    together: int = 0


@dataclass(slots=True)
class Progress:
    """What is known: `bad` are the sets that are out, with their rows' outcome and reason."""

    sets: tuple[TunableSet, ...]
    tried: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)
    bad: dict[str, tuple[SweepPhase, Outcome, str]] = field(default_factory=dict)
    heats: list[MeasuredHeat] = field(default_factory=list)
    suspects: set[str] = field(default_factory=set)
    void: int = 0
    runs: list[str] = field(default_factory=list)
    begun: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    room: int = MOST_PROCESSES * POOL
    """Processes whose inputs the GPU's memory holds at once, once the host was asked."""
    race_s: float = 0.0
    all_s: float = 0.0
    """Seconds that runs had the GPU for: until the race was over, and with the exhaustive heats."""
    race_best: str = ""
    """The winner of the race, where exhaustive heats followed."""
    _standings: Standings | None = None
    checked: bool = False
    """Whether a heat compares every element: then only what may win is verified besides."""

    @classmethod
    def of(cls, sets: Sequence[TunableSet], journal: Journal, *, checked: bool) -> Progress:
        """Read what the journal says; ProtocolError if a heat is not as it was filed."""
        known = cls(tuple(sets), checked=checked)
        errors: Counter[str] = Counter()
        for event in journal.events:
            kind = event["event"]
            known.room = int(event.get("room", known.room))
            if kind != "dropped":
                known.all_s += float(event.get("gpu_s", 0.0))
            if kind == "set":
                known._tried(event)
            elif kind == "run":
                known.begun[str(event["run"])] = event
                known.runs.append(str(event["run"]))
                if event.get("exhaustive") and not known.race_best:
                    known.race_best, known.race_s = str(event["exhaustive"]), known.all_s
            elif kind in ("verified", "heat", "void", "dropped"):
                known.begun.pop(str(event["run"]), None)
                known._judged(event, errors)
                if kind == "heat":
                    known._measured(event, journal)
                if kind in ("heat", "void"):
                    known.void = known.void + 1 if kind == "void" else 0
                if kind == "void" and event.get("suspected"):
                    known.suspects |= set(event["suspected"])
        return known

    @property
    def unfinished(self) -> Mapping[str, Any] | None:
        """Return the first run that was begun and is not filed yet."""
        return next(iter(self.begun.values()), None)

    @property
    def default(self) -> str:
        return self.sets[0].id

    def left_to_try(self) -> list[TunableSet]:
        return [s for s in self.sets if s.id not in self.tried]

    def left_to_verify(self) -> list[TunableSet]:
        """Return what is to be verified before the next heat: all sets; where heats compare every
        element the defaults first, and in the end what may win.
        """
        left = [s for s in self.in_the_running() if s.id not in self.verified]
        if not self.checked:
            return left
        if left and left[0].id == self.default:
            return left[:1]
        standings = self.standings()
        if standings.next_heat(POOL) is not None:
            return []
        may_win = (Standing.BEST, Standing.LEVEL)
        return [s for s in left if standings.placed[s.id].standing in may_win]

    @property
    def opens(self) -> bool:
        """Return whether the next heat is the first, which verifies the defaults too."""
        return self.checked and not self.verified and not self.heats and not self.void

    def in_the_running(self) -> list[TunableSet]:
        return [s for s in self.sets if s.id in self.tried and s.id not in self.bad]

    def racing(self) -> list[str]:
        running = [s.id for s in self.in_the_running()]
        return running if self.checked else [name for name in running if name in self.verified]

    def standings(self) -> Standings:
        """Return where each set stands that may be timed, by the heats in the last environment."""
        if self._standings is None:
            racing = self.racing()
            self._standings = Standings(racing, self._observations(set(racing)))
        return self._standings

    def next_heat(self, most_slots: int = MOST_SLOTS) -> Heat | None:
        """Return the heat to run next, of so many slots; None if the race is over."""
        standings = self.standings()
        heat = standings.next_heat(self.pool, self._sets_in(2), most_slots)
        if heat is None:
            return None
        # After a heat in which all ended with one, each is tried with the best alone.
        doubted = [name for name in heat.sets[1:] if name in self.suspects]
        return Heat((heat.sets[0], doubted[0]), heat.rounds) if doubted else heat

    def next_exhaustive(self, most_slots: int = MOST_SLOTS) -> Heat | None:
        """Return the heat to run when the race is over; None if every set has all its rounds."""
        return self.standings().next_exhaustive(self.pool, most_slots)

    def processes(self, heat: Heat) -> int:
        """Return the processes of each set: one for each round, if the memory has room."""
        count = min(heat.together or len(heat.sets), len(heat.sets))
        return max(1, min(MOST_PROCESSES, heat.rounds, self.room // count))

    @property
    def pool(self) -> int:
        return self._sets_in(1)

    def _sets_in(self, processes: int) -> int:
        return max(2, min(POOL, self.room // processes))

    def rows(self) -> tuple[SweepRow, ...]:
        """Return a row for each set: the timed ones by rank, then the others as they were given."""
        placed = self.standings().placed if self.heats else {}
        order = sorted(
            (p for p in placed.values() if p.rounds),
            key=lambda p: (p.log_ratio, p.set),
        )
        ranks = {p.set: i for i, p in enumerate(order, 1)}
        made = [self._row(s, placed.get(s.id), ranks.get(s.id)) for s in self.sets]
        return tuple(sorted(made, key=lambda r: r.rank or len(made) + 1))

    def _row(self, one: TunableSet, placed: Any, rank: int | None) -> SweepRow:  # noqa: ANN401
        from kernelrig.sweep.racing import percent

        event = self.tried.get(one.id)
        if event is None:
            return SweepRow(one)
        facts = {str(k): str(v) for k, v in event["facts"].items()}
        if one.id in self.bad:
            phase, outcome, summary = self.bad[one.id]
            evidence = tuple(map(str, event["evidence"]))
            return SweepRow(one, phase, outcome, summary, evidence, facts)
        summary = str(event["summary"])
        if one.id not in self.verified and rank is None:
            phase = SweepPhase(str(event["phase"]))
            return SweepRow(one, phase, Outcome.PASS, summary, (), facts)
        if rank is None:
            return SweepRow(
                one, SweepPhase.VERIFIED, Outcome.PASS, "every element right", (), facts
            )
        return SweepRow(
            one,
            SweepPhase.TIMED,
            Outcome.PASS,
            "every element right",
            facts=facts,
            rank=rank,
            standing=placed.standing.value,
            rounds=placed.rounds,
            median_ms=self._median(one.id),
            percent=percent(placed.log_ratio),
            low_percent=percent(placed.low),
            high_percent=percent(placed.high),
        )

    def _median(self, name: str) -> float:
        from statistics import median

        return median(
            sample
            for heat in self.heats
            for slot in heat.slots
            if heat.sets[slot.candidate] == name and slot.round
            for sample in slot.samples_ms
        )

    def _observations(self, racing: set[str]) -> list[Observation]:
        found: list[Observation] = []
        for heat in self.heats:
            if heat.environment == self.heats[-1].environment:
                seen = observe(heat.sets, heat.slots, 1000 * heat.number)
                found += (o for o in seen if o.set in racing)
        return found

    def _tried(self, event: Mapping[str, Any]) -> None:
        name, outcome = str(event["id"]), Outcome(event["outcome"])
        self.tried[name] = event
        if outcome is not Outcome.PASS:
            self.bad[name] = (SweepPhase(event["phase"]), outcome, str(event["summary"]))

    def _judged(self, event: Mapping[str, Any], errors: Counter[str]) -> None:
        found = event.get("results", {}).items()
        verifies = event["event"] == "verified"
        before = event.get("verified", {}).items()  # at the head of a heat
        for name, (word, summary), verified in (
            *((*each, True) for each in before),
            *((*each, verifies) for each in found),
        ):
            outcome = Outcome(word)
            phase = SweepPhase.VERIFIED if name in self.verified else SweepPhase.BUILT
            if outcome is Outcome.PASS and verified:
                self.verified.add(name)
            elif outcome in (Outcome.ERROR, Outcome.SKIP):
                errors[name] += 1
                if errors[name] >= MOST_ERRORS:
                    self.bad[name] = (phase, Outcome.ERROR, summary)
            elif outcome is Outcome.FAIL:
                self.bad[name] = (phase, outcome, summary)

    def _measured(self, event: Mapping[str, Any], journal: Journal) -> None:
        seen = _read_heat(journal.heat_file(event), str(event["sha256"]))
        good = {n for n, (word, _) in event["results"].items() if word == "pass"}
        slots = tuple(t for t in seen.slots if seen.names[t.candidate] in good)
        where = tuple(map(str, event["environment"]))
        number = len(self.heats) + 1
        together = int(event.get("together", 0))
        heat = MeasuredHeat(number, seen.names, int(event["rounds"]), slots, where, together)
        self.heats.append(heat)
        self.suspects -= set(seen.names)
