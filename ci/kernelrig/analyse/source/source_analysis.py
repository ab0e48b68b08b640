"""All that counters by instruction mean."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kernelrig.analyse.source.instruction_class import class_of, is_tensor
from kernelrig.analyse.source.listing_flow import ProfiledFlow, profiled_flow, unprofiled_flow
from kernelrig.analyse.source.role_counters import role_counters, roles_by_count
from kernelrig.analyse.source.role_parts import Parts, divide
from kernelrig.analyse.source.stall_causes import shares, wait_sites, waits_for
from kernelrig.config.expression import evaluate
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import (
    BarrierWait,
    CountedInstruction,
    LayoutBlock,
    MemoryExcess,
    MixShare,
    PredictedCount,
    SourceAnalysis,
    SourceCounters,
    StalledInstruction,
    TensorUse,
)
from kernelrig.sass import Flow, Instruction, profiled_instruction, require_whole

TOP = 15
_WARPGROUP = 4
"""Warps that execute a wgmma together."""
_NO_STALL = "selected"
_EXCESS = (
    ("L1 Wavefronts Shared", "wavefronts of shared memory"),
    ("L2 Theoretical Sectors Global", "sectors of global memory"),
)
_IDEAL = " Ideal"

_ABSOLUTE = re.compile(r"\b0x[0-9a-f]{9,16}\b")
"""Where code lies on a GPU: constants in instructions have 8 digits at most."""

_Code = Sequence[tuple[CountedInstruction, Instruction]]


def analyse_source(
    counters: SourceCounters,
    predictions: Mapping[str, str] | None = None,
    tiles: int = 0,
    top: int = TOP,
) -> SourceAnalysis:
    """Return what the counters of one launch mean.

    `predictions` are expressions over `tiles`, `warps` (of a CTA) and `ctas` by mnemonic; of 0
    tiles there are as many as the matrix instructions say. Where the control flow cannot be
    followed, roles follow from counts. ProtocolError if nothing was executed.
    """
    counted = counters.instructions
    if not any(c.executed for c in counted):
        raise ProtocolError(f"no instruction of {counters.kernel} was counted as executed")
    base = counted[0].address
    require_whole(counters.kernel, [(c.address, c.sass) for c in counted])
    code = [(c, profiled_instruction(c.address - base, _relative(c.sass, base))) for c in counted]
    samples = sum(c.samples for c in counted)
    tiles = tiles or _tiles(code)
    notes = list(_notes(counted))
    try:
        profiled = profiled_flow(counters)
    except ProtocolError as e:
        notes.append(f"roles are by execution counts, as the graph is not known: {e.message}")
        roles = tuple(roles_by_count(code, tiles, samples))
        found = _Found(base)
    else:
        parts = divide(profiled, counters.warps)
        roles = tuple(role_counters(profiled, parts, tiles, samples))
        found = _Found(base, profiled, parts, _role_names(profiled, parts))
    warps = found.parts.warps if found.parts else counters.warps
    ctas = counted[0].executed // warps if warps else 0
    values = {"tiles": tiles, "warps": warps, "ctas": ctas}
    return SourceAnalysis(
        kernel=counters.kernel,
        instructions=len(counted),
        executed=sum(c.executed for c in counted),
        samples=samples,
        samples_executed=sum(c.samples for c in counted if c.executed),
        not_issued=sum(c.not_issued for c in counted),
        warps=warps,
        tiles=tiles,
        stalls=shares(counted),
        roles=roles,
        tensor=tuple(_tensor(code)),
        waits=tuple(_waits(found, samples)),
        top=tuple(_top(code, found, samples, top)),
        mix=tuple(_mix(code)),
        excess=tuple(_excess(code, found)),
        predictions=tuple(_predicted(code, predictions or {}, values)),
        layout=tuple(_layout(found)),
        notes=tuple(notes),
    )


def static_layout(flow: Flow) -> SourceAnalysis:
    """Return the blocks and roles of a kernel of which nothing was measured."""
    profiled = unprofiled_flow(flow)
    parts = divide(profiled)
    found = _Found(0, profiled, parts, _role_names(profiled, parts))
    return SourceAnalysis(
        kernel=flow.function.name,
        instructions=len(list(flow.instructions)),
        executed=0,
        samples=0,
        samples_executed=0,
        not_issued=0,
        warps=0,
        tiles=0,
        stalls=(),
        roles=tuple(role_counters(profiled, parts, 0, 0)),
        tensor=(),
        waits=(),
        top=(),
        mix=(),
        excess=(),
        predictions=(),
        layout=tuple(_layout(found)),
        notes=("nothing was measured: this is the code alone",),
    )


class _Found:
    """The graph and the roles, where they are known. `names` are the roles' by block."""

    def __init__(
        self,
        base: int,
        profiled: ProfiledFlow | None = None,
        parts: Parts | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        self.profiled = profiled
        self.parts = parts
        self.names = names or {}
        self.base = base
        blocks = profiled.flow.blocks if profiled else {}
        self.block_of = {i.address: b for b in blocks for i in blocks[b].instructions}

    def role_at(self, address: int) -> str:
        return self.names.get(self.block_of.get(address, -1), "")


def _relative(text: str, base: int) -> str:
    """Return an instruction with addresses from the kernel's start in place of absolute ones."""
    return _ABSOLUTE.sub(lambda m: hex(max(0, int(m[0], 16) - base)), text)


def _role_names(profiled: ProfiledFlow, parts: Parts) -> dict[int, str]:
    found = {}
    for block in profiled.blocks:
        part = parts.role_of(block)
        if part is not None:
            found[block] = " ".join(filter(None, (part.name, parts.named(part.warps))))
    return found


def _notes(counted: Sequence[CountedInstruction]) -> Iterator[str]:
    if missed := sum(c.samples for c in counted if not c.executed):
        yield (
            f"{missed:,} of the samples lie on instructions that the counting pass did not execute:"
            " samples and counts are of two launches"
        )
    if not any(c.samples for c in counted):
        yield "no sample was taken: the launch is too short, or its sampling interval too long"


def _tiles(code: _Code) -> int:
    """Return the tiles, if all matrix instructions were executed as often; else 0."""
    of = {c.executed: i for c, i in code if is_tensor(i) and c.executed}
    if len(of) != 1:
        return 0
    ((times, i),) = of.items()
    if i.root.startswith("UTC"):
        return times
    return times // _WARPGROUP if i.root.endswith("GMMA") else 0


def _tensor(code: _Code) -> Iterator[TensorUse]:
    held: dict[str, list[CountedInstruction]] = defaultdict(list)
    for c, i in code:
        if is_tensor(i):
            held[i.opcode].append(c)
    for opcode, found in held.items():
        executed, samples = sum(c.executed for c in found), sum(c.samples for c in found)
        yield TensorUse(opcode, len(found), executed, samples, shares(found))


def _waits(found: _Found, samples: int) -> Iterator[BarrierWait]:
    if found.profiled is None:
        return
    sites = [
        BarrierWait(
            at=i.address,
            sass=_relative(i.text, found.base),
            role=found.names.get(block, ""),
            passes=passes,
            retries=retries,
            samples=own,
            share=own / samples if samples else 0.0,
            line=found.profiled.counted[i.address].line,
        )
        for block, i, passes, retries, own in wait_sites(found.profiled)
    ]
    yield from sorted((s for s in sites if s.passes or s.samples), key=lambda s: -s.samples)


def _top(code: _Code, found: _Found, samples: int, most: int) -> Iterator[StalledInstruction]:
    ranked = sorted(code, key=lambda pair: -pair[0].samples)[:most]
    for c, i in ranked:
        stalls = {r: n for r, n in c.stalls.items() if r != _NO_STALL} or c.stalls
        if not c.samples or not stalls:
            continue
        reason = max(stalls, key=lambda r: stalls[r])
        cause, block = "", found.block_of.get(i.address, -1)
        if found.profiled and block in found.profiled.flow.graph:
            at = [x.address for x in found.profiled.code(block)].index(i.address)
            cause = waits_for(found.profiled, block, at, reason)
        yield StalledInstruction(
            at=i.address,
            sass=i.text,
            role=found.role_at(i.address),
            samples=c.samples,
            share=c.samples / samples,
            reason=reason,
            waits_for=cause,
            line=c.line,
        )


def _mix(code: _Code) -> Iterator[MixShare]:
    executed, count = Counter[str](), Counter[str]()
    for c, i in code:
        executed[class_of(i)] += c.executed
        count[class_of(i)] += 1
    total = sum(executed.values())
    for what, times in executed.most_common():
        if times:
            yield MixShare(what, count[what], times, times / total)


def _excess(code: _Code, found: _Found) -> Iterator[MemoryExcess]:
    for column, unit in _EXCESS:
        held = [
            MemoryExcess(
                at=i.address,
                sass=i.text,
                role=found.role_at(i.address),
                unit=unit,
                needed=int(c.counters.get(column + _IDEAL, 0)),
                moved=int(c.counters.get(column, 0)),
                line=c.line,
            )
            for c, i in code
        ]
        over = [e for e in held if e.moved > e.needed]
        yield from sorted(over, key=lambda e: e.needed - e.moved)


def _predicted(
    code: _Code, predictions: Mapping[str, str], values: Mapping[str, int]
) -> Iterator[PredictedCount]:
    for opcode, expression in predictions.items():
        alike = [c for c, i in code if i.matches(opcode)]
        if not alike:
            roots = ", ".join(sorted({i.root for _, i in code if i.matches(opcode[:3])})[:8])
            raise ConfigError(
                f"--predict: the kernel has no instruction {opcode}",
                f"there are {roots}" if roots else "mnemonics are those of SASS",
            )
        unknown = [name for name in values if name in expression and not values[name]]
        if unknown:
            raise ConfigError(
                f"--predict: the number of {unknown[0]} is not known", f"pass --{unknown[0]} N"
            )
        measured = sum(c.executed for c in alike)
        yield PredictedCount(opcode, expression, evaluate(expression, values), measured)


def _layout(found: _Found) -> Iterator[LayoutBlock]:
    profiled = found.profiled
    if profiled is None:
        return
    for block in profiled.blocks:
        code = profiled.code(block)
        yield LayoutBlock(
            at=block,
            size=code[-1].address + 16 - block,
            role=found.names.get(block, ""),
            depth=profiled.depth(block),
            executed=profiled.times(block),
            samples=profiled.samples([block]),
            to=tuple(sorted(profiled.flow.graph.successors(block))),
            last=_relative(code[-1].text, found.base),
        )
