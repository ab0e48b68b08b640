"""Where samples lie: by reason, by instruction with what it waits for, at each barrier."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from kernelrig.analyse.source.instruction_class import MEANINGS, UNNAMED, is_wait
from kernelrig.analyse.source.listing_flow import ProfiledFlow
from kernelrig.model import CountedInstruction, StallShare
from kernelrig.sass import Instruction
from kernelrig.sass.writes import may_write

_REGISTER_NAME = re.compile(r"\bU?(?:R\d+|P[0-6])\b")
_SLOW = {
    "long_sb": (("LDG", "LDL", "LD", "LDTM", "ATOM", "ATOMG", "SYNCS"),),
    "short_sb": (("LDS", "LDSM", "ATOMS", "SHFL", "MUFU"), ("S2R", "S2UR", "R2UR", "LDC", "REDUX")),
}
"""What an instruction that is stalled for a reason may wait for, by mnemonic: slower ones first."""
_FURTHEST = 64
"""Blocks that are looked through for what wrote a register."""


def shares(counted: Iterable[CountedInstruction], most: int = 0) -> tuple[StallShare, ...]:
    """Return the samples by reason, most first; `most` = 0 returns all of them."""
    held: Counter[str] = Counter()
    total = 0
    for c in counted:
        held.update(c.stalls)
        total += c.samples
    if (unnamed := total - held.total()) > 0:
        held[UNNAMED] = unnamed
    ranked = [(reason, n) for reason, n in held.most_common() if n]
    return tuple(
        StallShare(reason, n, n / max(total, held.total()), MEANINGS.get(reason, ""))
        for reason, n in ranked[: most or None]
    )


def waits_for(profiled: ProfiledFlow, block: int, at: int, reason: str) -> str:
    """Return the slow instruction whose result the one at `at` in `block` reads, if it is known.

    Of each register it is the nearest that writes it, on the way that is found first.
    """
    code = profiled.code(block)
    read = set(_REGISTER_NAME.findall(" ".join((code[at].guard, *_sources(code[at])))))
    found = (_writer(profiled, block, at, read, slow) for slow in _SLOW.get(reason, ()))
    return next(filter(None, found), "")


def _writer(
    profiled: ProfiledFlow, block: int, at: int, read: set[str], slow: tuple[str, ...]
) -> str:
    waiting, seen = [(block, at, read)], set[int]()
    while waiting and len(seen) < _FURTHEST:
        inside, end, names = waiting.pop(0)
        for i in reversed(profiled.code(inside)[:end]):
            written = sorted(n for n in names if may_write(i, n))
            if written and i.root in slow:
                return f"{written[0]}, which {i.opcode} at {i.address:#x} writes"
            names = names.difference(written)
        before = [b for b in profiled.flow.graph.predecessors(inside) if b not in seen]
        seen.update(before)
        waiting += [(b, len(profiled.code(b)), names) for b in before if names]
    return ""


def _sources(i: Instruction) -> tuple[str, ...]:
    """Return the operands that an instruction reads; a store's first one is its address."""
    stores = i.root.startswith(("ST", "RED", "BRA", "SYNCS", "UTM", "R2UR"))
    return i.operands if stores else i.operands[1:]


def wait_sites(profiled: ProfiledFlow) -> Iterator[tuple[int, Instruction, int, int, int]]:
    """Yield the block, the wait, passes, retries and samples of each place that waits.

    To a wait belong what stands behind it in its block, and the loop that tries again.
    """
    for block in profiled.blocks:
        if block in profiled.detours:
            continue
        code = profiled.code(block)
        places = [n for n, i in enumerate(code) if is_wait(i)]
        for order, at in enumerate(places):
            end = places[order + 1] if order + 1 < len(places) else len(code)
            i = code[at]
            counted = [profiled.counted[x.address] for x in code[at:end]]
            samples = sum(c.samples for c in counted if c.stalls)
            passes, retries = profiled.counted[i.address].executed, 0
            if i.root != "SYNCS":
                yield block, i, passes, 0, profiled.counted[i.address].samples
                continue
            if own := profiled.retries.get(block):
                entered = min(passes, profiled.entries(own))
                passes, retries = entered, passes - entered
            if at == places[-1]:
                for header in profiled.flow.graph.successors(block):
                    if header in profiled.detours and header in profiled.retries:
                        loop = profiled.retries[header]
                        retries += profiled.times(header)
                        aside = {b for b in profiled.flow.graph.successors(header)}
                        samples += profiled.samples(loop.blocks | (aside & profiled.detours))
            yield block, i, passes, retries, samples
