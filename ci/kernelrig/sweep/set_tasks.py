"""What needs no GPU of a set: its static limits, emulation of a small case, the program itself.

Each is work of an engine, and may be repeated: what is compiled is stored by content. A set ends at
the first of them that it does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig import build, config
from kernelrig.engines import Engine, Json, WorkItem, WorkResult, register
from kernelrig.errors import BuildError
from kernelrig.model import (
    Build,
    Kernel,
    Outcome,
    StageKind,
    SweepPhase,
    Toolchain,
    TriedSet,
    TunableSet,
)
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import EmulateRequest
from kernelrig.run.spec import find_tools
from kernelrig.static import Subject, check_sets
from kernelrig.sweep.set_choice import BASE
from kernelrig.sweep.set_variants import with_sets
from kernelrig.terminal.log import say

if TYPE_CHECKING:
    from kernelrig.run.tunable_emulation import EmulatedSet

TASK = "sweep-set"
SCHEDULES = 2
Row = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Workshop:
    """What sets are made with: the tools, and the build of BASE, whose inputs are theirs.

    Programs are `for_a_host`, or else built only where nothing can be emulated.
    """

    root: Path
    kernel: Kernel
    arch: str
    system_cuda: bool
    for_a_host: bool = True

    @property
    def request(self) -> build.Request:
        return build.Request(self.kernel, self.arch, BASE)

    def tools(self) -> Toolchain:
        tools = find_tools(self.root, [self.request], system_cuda=self.system_cuda)
        assert tools is not None, "a request of this tree needs tools"
        return tools

    def own_build(self, tools: Toolchain) -> Build:
        (own,) = build.build_all(self.root, [self.request], tools)
        return own


def static_rows(
    shop: Workshop, sets: Sequence[TunableSet], on: Engine
) -> tuple[dict[str, Row], dict[str, dict[str, str]]]:
    """Return the rows of the sets that are out by their static limits, and the others' figures.

    CiError for a set about which nothing could be established.
    """
    if not shop.kernel.cuda:
        return {}, {s.id: {} for s in sets}
    tools = shop.tools()
    own = shop.own_build(tools)
    tried = build.try_sets(shop.root, own, shop.request, [s.values for s in sets], tools, on)
    checks = check_sets(Subject(shop.kernel, shop.arch, BASE), tried)
    out: dict[str, Row] = {}
    facts = {}
    for one, seen, check in zip(sets, tried, checks, strict=True):
        facts[one.id], said = dict(check.facts), check.verdict
        if seen.refused and not seen.complaint:
            out[one.id] = _refused(seen, facts[one.id])
        elif said.outcome is not Outcome.PASS:
            out[one.id] = _row(
                SweepPhase.STATIC, said.outcome, said.summary, facts[one.id], said.evidence
            )
    return out, facts


def set_items(
    shop: Workshop, sweep: str, sets: Sequence[TunableSet], facts: Mapping[str, dict[str, str]]
) -> dict[str, tuple[WorkItem, TunableSet]]:
    """Return by its key the work of each set; `sweep` is a hash of the files that it reads."""
    payloads: dict[str, Json] = {s.id: None for s in sets}
    if shop.kernel.cuda and shop.kernel.level:
        payloads = _emulations(shop, sets)
    inputs = shop.own_build(shop.tools()).inputs if sets else {}
    made = {}
    for one in sets:
        payload: dict[str, Json] = {
            "root": str(shop.root),
            "kernel": shop.kernel.name,
            "arch": shop.arch,
            "id": one.id,
            "name": one.name,
            "values": dict(one.values),
            "system_cuda": shop.system_cuda,
            "facts": dict(facts[one.id]),
            "emulation": payloads[one.id],
            "inputs": dict(inputs),
            "builds": shop.for_a_host or payloads[one.id] is None,
        }
        item = WorkItem.of(TASK, payload, sweep)
        made[item.key] = (item, one)
    return made


def _emulations(shop: Workshop, sets: Sequence[TunableSet]) -> dict[str, Json]:
    """Return what each set's emulation is called with: a small case, as of `emulate --tunables`."""
    # Imported where they are used: the emulator takes longer to import than the rest.
    from kernelrig.emu.launch.engines import choose_engine
    from kernelrig.run.tunable_emulation import emulated_set

    request = EmulateRequest(
        shop.kernel.name,
        shop.arch,
        BASE,
        schedules=SCHEDULES,
        tunables=True,
        system_cuda=shop.system_cuda,
    )
    p = prepare(shop.root, request)
    (stage,) = [s for s in p.plan.stages if s.kind is StageKind.TUNABLES]
    engine = choose_engine(p.emulation.engine.value, say)
    tools = shop.tools()
    own = shop.own_build(tools)
    return {
        one.id: dict(
            emulated_set(
                shop.root, p.kernel, stage, shop.arch, one.values, tools, p.emulation,
                engine.name, own.inputs,
            ).payload
        )
        for one in sets
    }  # fmt: skip


@register(TASK)
def try_set(payload: Mapping[str, Json]) -> Json:
    """Build a set and emulate it; return how far it got, its outcome, and why."""
    root, said, inputs = Path(str(payload["root"])), payload["facts"], payload["inputs"]
    assert isinstance(said, dict), "set_items wrote it"
    assert isinstance(inputs, dict), "set_items wrote it"
    build.require_inputs(root, {name: str(digest) for name, digest in inputs.items()})
    facts = {name: str(text) for name, text in said.items()}
    emulation = payload["emulation"]
    if isinstance(emulation, dict) and not payload["builds"]:
        return _emulate_alone(emulation, facts)
    values = payload["values"]
    assert isinstance(values, dict), "set_items wrote it"
    whole = {name: int(str(value)) for name, value in values.items()}
    one = TunableSet(str(payload["id"]), str(payload["name"]), whole)
    kernel = config.load_kernels(root)[str(payload["kernel"])]
    request = build.Request(with_sets(kernel, [one]), str(payload["arch"]), one.id)
    tools = find_tools(root, [request], system_cuda=bool(payload["system_cuda"]))
    assert tools is not None, "a request of this tree needs tools"
    try:
        (built,) = build.build_all(root, [request], tools)
    except BuildError as e:
        lines = e.details.splitlines()
        first = next((line for line in lines if "error" in line), e.message)
        return _row(SweepPhase.STATIC, Outcome.FAIL, first, facts, lines)
    if isinstance(emulation, dict) and (out := _emulate(emulation, built, facts)):
        return out
    facts["build"] = built.folder.name
    return _row(SweepPhase.BUILT, Outcome.PASS, "built", facts)


def _emulate(payload: Mapping[str, Json], built: Build, facts: dict[str, str]) -> Json:
    """Return why a set is out, None if every element of it is right."""
    from kernelrig.run.tunable_emulation import emulate_build

    return _judged(emulate_build(payload, built), facts)


def _emulate_alone(payload: Mapping[str, Json], facts: dict[str, str]) -> Json:
    """Emulate a set that no host will run: only what that needs of it is compiled."""
    from kernelrig.run.tunable_emulation import emulate_set, read_emulated

    ran = read_emulated(WorkResult("", emulate_set(payload)))
    if isinstance(ran, TriedSet):
        if ran.refused:
            return _refused(ran, facts)
        return _row(SweepPhase.STATIC, Outcome.FAIL, ran.complaint, facts)
    out = _judged(ran, facts)
    return out or _row(SweepPhase.EMULATED, Outcome.PASS, ran.verdict.summary, facts)


def _judged(ran: EmulatedSet, facts: dict[str, str]) -> Json:
    """Return why an emulated set is out, None if it is not."""
    facts["emulated"] = ran.verdict.summary
    if ran.verdict.outcome is Outcome.PASS:
        return None
    said = ran.verdict
    summary = f"emulated: {said.summary}"
    return _row(SweepPhase.EMULATED, said.outcome, summary, facts, said.evidence)


def _refused(tried: TriedSet, facts: Mapping[str, str]) -> Row:
    summary = f"refused: {'; '.join(tried.refused)}"
    return _row(SweepPhase.STATIC, Outcome.SKIP, summary, facts)


def _row(
    phase: SweepPhase,
    outcome: Outcome,
    summary: str,
    facts: Mapping[str, str],
    evidence: Sequence[str] = (),
) -> Row:
    return {
        "phase": phase.value,
        "outcome": outcome.value,
        "summary": summary,
        "evidence": list(evidence[:20]),
        "facts": dict(facts),
    }
