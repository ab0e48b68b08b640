"""R001 to R007: the resources of a kernel against its budget and the limits of the arch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kernelrig.model import Build, Check, Finding, FunctionResources, Outcome, Rule, Usage, Verdict
from kernelrig.model.symbol import is_called
from kernelrig.sass import Function
from kernelrig.static.described_launch import Launch
from kernelrig.static.occupancy import Limits, ctas_per_sm, limits_of
from kernelrig.static.rule_check import broken_rule, broken_rule_at, judged, not_asked, not_judged
from kernelrig.static.subject import Subject

_BUDGET = "or raise the budget in kernel/kernels.yaml, if the figure is meant to be so"

RULES: dict[str, Rule] = {
    "registers": Rule(
        "R001",
        "registers",
        "a thread takes at most this many registers",
        "each one more may cost a CTA on the SM, and past 255 values go to local memory",
        f"shorten live ranges (the live registers by line are in the stage's folder), {_BUDGET}",
    ),
    "spill_bytes": Rule(
        "R002",
        "spills",
        "ptxas spills no register to local memory",
        "each spill is a store and a load through L1",
        "unroll less, load fewer columns at a time, or take fewer threads a CTA",
    ),
    "stack_bytes": Rule(
        "R003",
        "stack",
        "a thread has no stack frame",
        "a frame is local memory: an array indexed at run time, or a call that was not inlined",
        "unroll the loop that indexes the array, or force the callee inline",
    ),
    "local_instructions": Rule(
        "R004",
        "local-memory",
        "no instruction reads or writes local memory (LDL, STL)",
        "ptxas -v counts bytes; the SASS shows the instructions that access them",
        "as for spills and stack; the findings name the lines",
    ),
    "shared_bytes": Rule(
        "R005",
        "shared-memory",
        "static and dynamic shared memory together fit the budget, and what a CTA may have",
        "a launch that asks for more is refused on the device",
        f"take a stage less or a smaller tile, {_BUDGET}",
    ),
    "barriers": Rule(
        "R006",
        "barriers",
        "a CTA takes at most this many named barriers (of 16)",
        "an unintended barrier may be a __syncthreads, which warp roles must not contain",
        "look for BAR in the SASS, and for calls of cooperative groups",
    ),
    "ctas_per_sm": Rule(
        "R007",
        "occupancy",
        "at least this many CTAs fit on an SM",
        "the design depends on that many resident CTAs",
        "the facts name the limiting resource: registers, threads or shared memory",
    ),
}
"""A rule for each field of Usage and Budget."""


def measure(
    subject: Subject, build: Build, local_instructions: int, launch: Launch | Verdict
) -> Usage | None:
    """Return the worst of the kernel's functions, None if ptxas reported none of them."""
    functions = kernel_functions(subject, build.resources)
    if not functions:
        return None
    called = [f for f in build.resources if not f.registers]  # they have frames, no registers
    usage = Usage(
        registers=max(f.registers for f in functions),
        spill_bytes=max(f.spill_store_bytes + f.spill_load_bytes for f in (*functions, *called)),
        stack_bytes=max(f.stack_bytes for f in (*functions, *called)),
        local_instructions=local_instructions,
        barriers=max(f.barriers for f in functions),
    )
    limits = limits_of(subject.arch)
    if isinstance(launch, Verdict):
        return usage
    shared = max(f.shared_bytes for f in functions) + launch.dynamic_shared_bytes
    fitting = _occupancy(limits, launch, usage.registers, shared)
    ctas = min(fitting.values()) if fitting else None
    return replace(usage, shared_bytes=shared, ctas_per_sm=ctas)


def kernel_functions(
    subject: Subject, functions: Sequence[FunctionResources]
) -> tuple[FunctionResources, ...]:
    """Return the kernels that kernels.yaml means, without the harness's own."""
    regex = subject.kernel.kernel_regex
    return tuple(f for f in functions if f.registers and is_called(regex, f.name))


def local_accesses(subject: Subject, functions: Sequence[Function]) -> tuple[Finding, ...]:
    """Return every instruction that reads or writes local memory, on its line."""
    rule = RULES["local_instructions"]
    return tuple(
        broken_rule_at(rule, f"{i.opcode} at {i.address:#x}", f.name, i, subject.source)
        for f in functions
        for i in f.instructions
        if i.matches("LDL") or i.matches("STL")
    )


def check_resources(
    subject: Subject,
    usage: Usage | None,
    launch: Launch | Verdict,
    local: Sequence[Finding],
) -> Iterator[Check]:
    """Judge every figure against its budget and the limits of the arch."""
    if usage is None:
        reason = f"ptxas reported no kernel called '{subject.kernel.kernel_regex}'"
        yield from (not_judged(rule, reason) for rule in RULES.values())
        return
    limits = limits_of(subject.arch)
    for name, rule in RULES.items():
        used = getattr(usage, name)
        if used is None:
            yield _unknown(rule, subject.arch, launch)
            continue
        facts = {name: str(used)}
        if name == "ctas_per_sm" and isinstance(launch, Launch):
            facts |= _occupancy_facts(limits, launch, usage)
        places = local if name == "local_instructions" else ()
        yield _judge(subject, rule, name, used, facts, limits, places)


def _judge(
    subject: Subject,
    rule: Rule,
    name: str,
    used: int,
    facts: Mapping[str, str],
    limits: Limits | None,
    places: Sequence[Finding],
) -> Check:
    budget = getattr(subject.budget, name, None)
    words = name.replace("_", " ")
    if limits and name == "shared_bytes" and used > limits.cta_shared_bytes:
        summary = f"{used} shared bytes, of {limits.cta_shared_bytes} that a CTA may have"
        return judged(rule, [broken_rule(rule, summary, kernel=subject.function)], summary, facts)
    if name == "ctas_per_sm" and used == 0:
        summary = "no CTA fits on an SM"
        return judged(rule, [broken_rule(rule, summary, kernel=subject.function)], summary, facts)
    if budget is None:
        return not_asked(rule, f"{used} {words}, and no budget for {subject.name}", facts)
    least = name == "ctas_per_sm"
    kept = used >= budget if least else used <= budget
    summary = f"{used} {words}, the budget is {'at least' if least else 'at most'} {budget}"
    found = () if kept else places or (broken_rule(rule, summary, kernel=subject.function),)
    return judged(rule, found, summary, {**facts, "budget": str(budget)})


def _unknown(rule: Rule, arch: str, launch: Launch | Verdict) -> Check:
    if not isinstance(launch, Verdict):
        return not_judged(rule, f"the limits of an SM of {arch} are not known here")
    asked = not_asked if launch.outcome is Outcome.SKIP else not_judged
    return asked(rule, launch.summary)


def _occupancy(
    limits: Limits | None, launch: Launch, registers: int, shared_bytes: int
) -> dict[str, int]:
    return ctas_per_sm(limits, launch.threads, registers, shared_bytes) if limits else {}


def _occupancy_facts(limits: Limits | None, launch: Launch, usage: Usage) -> dict[str, str]:
    fitting = _occupancy(limits, launch, usage.registers, usage.shared_bytes or 0)
    return {
        "launch": f"{launch.threads} threads in clusters of {launch.cluster_ctas}",
        "fit by": ", ".join(f"{what} {number}" for what, number in fitting.items()),
    }
