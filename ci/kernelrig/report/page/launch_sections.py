"""What measurements of a launch mean: its profile, its code with stalls, its phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from kernelrig.model import (
    BarrierWait,
    CostCause,
    CountedInstruction,
    Explanation,
    PowerUse,
    Region,
    SharedMap,
    SourceAnalysis,
    SourceCounters,
    SourceRole,
    TimingAnalysis,
)
from kernelrig.report.explained_launch import time_saved
from kernelrig.report.page.content import Content
from kernelrig.report.page.launch_charts import (
    budget_chart,
    roofline_chart,
    stall_chart,
    units_chart,
)
from kernelrig.report.page.markup import Html, join, share, table, tag
from kernelrig.report.page.section import Section, absent
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line

MOST_LINES, MOST_INSTRUCTIONS, MOST_WAITS = 40, 3000, 6
_NO_PROFILE = f"No profile in this run: `{COMMAND} profile` makes one."


def sections(content: Content) -> Iterator[Section]:
    """Yield what the profile means, the roles, the code with its stalls, and the phases."""
    yield _profile(content)
    if content.source is not None:
        yield _roles(content.source)
        yield _code(content)
    yield _phases(content)


def _profile(content: Content) -> Section:
    x = content.explanation
    if x is None:
        return Section("profile", "Profile", absent(content.absent.get("profile", _NO_PROFILE)))
    stalls = content.source.stalls if content.source and content.source.samples else x.stalls
    charts = (roofline_chart(x), units_chart(x), stall_chart(stalls, x.device))
    tried = [c for name in x.suggestions for c in x.causes if c.name == name]
    others = [c for c in x.causes if c not in tried]
    return Section(
        "profile",
        "Profile",
        join(
            _worth_trying(tried),
            _other_causes(others),
            _figures(x),
            _shared(x.shared),
            [tag("p", one_line(n), class_="more") for n in x.notes],
            tag("p", f"Evidence: {', '.join(x.evidence)}", class_="more") if x.evidence else "",
        ),
        tuple(c for c in charts if c),
        tag("p", x.kernel, " is bound by ", tag("strong", x.bound), ".", class_="bound"),
        one_line(f"under ncu on {x.device or 'an unknown GPU'}"),
    )


def _worth_trying(tried: list[CostCause]) -> Html:
    if not tried:
        return join(tag("h3", "Worth trying"), absent("No cause explains enough of the time."))
    shown = [
        tag(
            "li",
            tag("b", c.name),
            f" at {', '.join(c.at)}" if c.at else "",
            tag("span", f"{time_saved(c)}, estimated", class_="label"),
            tag("p", c.means),
            tag("p", tag("b", "do"), " ", c.do, class_="fix"),
            tag("p", _numbers(c.figures), class_="more"),
        )
        for c in tried
    ]
    return join(tag("h3", "Worth trying"), tag("ol", shown, class_="tried"))


def _other_causes(others: list[CostCause]) -> Html:
    if not others:
        return Html()
    rows = [(c.name, time_saved(c), _numbers(c.figures)) for c in others]
    return join(tag("h3", "Other causes"), table(("cause", "saves (estimated)", "figures"), rows))


def _figures(x: Explanation) -> Html:
    rows: list[tuple[str, str]] = []
    if x.sm_mhz:
        rows.append(("SM clock", f"{x.sm_mhz:.0f} of {x.most_sm_mhz:.0f} MHz, under ncu"))
    if o := x.occupancy:
        limits = ", ".join(
            f"{name} {n}" for name, n in sorted(o.limits.items(), key=lambda p: p[1])
        )
        rows.append(
            (
                "occupancy",
                f"{o.active_warps:g} warps of {o.possible_warps} that fit ({o.most_warps} at most),"
                f" {o.ctas} CTAs an SM, {o.waves:g} waves; CTAs by {limits}",
            )
        )
    rows.append(("power", _power(x.power)))
    for name, held in (("lanes of 32", x.lanes), ("memory", x.memory), ("tensor", x.tensor)):
        if held:
            rows.append((name, _numbers(held)))
    rows += [(f"rule {r.plan}/{r.name}", _numbers(r.numbers)) for r in x.rules]
    return join(tag("h3", "Figures"), table(("figure", "value"), rows))


def _power(p: PowerUse | None) -> str:
    if p is None:
        return "not sampled: a timing run of the same build says it"
    limit = f" of {p.limit_w:.0f} W" if p.limit_w else ""
    at = ", the card's limit: it bounds the clock" if p.is_limit else ""
    return f"{p.joules:.3f} J a launch at {p.watt:.0f}{limit}{at} (NVML, measured in {p.run})"


def _shared(m: SharedMap | None) -> Html:
    if m is None:
        return Html()
    rows = [(s.name, f"{s.offset:,}", f"{s.size_bytes:,}", f"{s.count}") for s in m.pieces]
    said = f"{m.used_bytes:,} bytes used, {m.free_bytes:,} free."
    head = ("name", "offset", "bytes", "count")
    listed = table(head, rows, numbers=(1, 2, 3)) if rows else Html()
    return join(tag("h3", "Shared memory of a CTA"), tag("p", said), listed)


def _roles(a: SourceAnalysis) -> Section:
    """Show the warp roles as they leave the dispatch, each with its parts in their order."""
    if not a.roles:
        why = "; ".join(a.notes) or "the control flow of the kernel is not known"
        return Section("roles", "Warp roles", absent(f"None are known: {one_line(why)}."))
    most = max((r.samples for r in a.roles), default=0) or 1
    shown = [_role(r, a, most) for r in a.roles]
    lead = tag(
        "p",
        f"{one_line(a.kernel)} divides its warps into {len(a.roles)} roles. A bar is a part's share"
        " of the samples; ↻ is a loop.",
        class_="more",
    )
    graph = tag("ol", shown, class_="roles", aria_label="warp roles and their parts")
    return Section("roles", "Warp roles", join(graph), (), lead)


def _role(r: SourceRole, a: SourceAnalysis, most: int) -> Html:
    regions = r.regions if len(r.regions) > 1 else ()
    parts = [tag("li", _region(p, i, r.samples), class_="part") for i, p in enumerate(regions, 1)]
    said = [
        tag(
            "li",
            "waits at ",
            tag("b", name),
            f": {100 * sum(w.share for w in waits):.1f}% of the samples,"
            f" {sum(w.passes for w in waits):,} times,"
            f" {sum(w.retries for w in waits):,} tried again",
        )
        for name, waits in _waits(a, f"{r.name} {r.warps}".strip()).items()
    ]
    figures = [f"warps {r.warps}" if r.warps else "", f"{r.instructions:,} instructions in code"]
    if a.executed:
        figures.append(f"{r.per_iteration:,.1f} an iteration, {r.iterations:,} iterations")
    if r.per_tile is not None:
        figures.append(f"{r.per_tile:,.1f} a tile")
    stalls = ", ".join(f"{s.reason} {100 * s.share:.0f}%" for s in r.stalls[:3])
    return tag(
        "li",
        tag(
            "h3",
            r.name or "all warps",
            tag("span", f"{100 * r.share:.1f}% of the samples", class_="label"),
        ),
        share(r.samples / most),
        tag("p", "; ".join(filter(None, figures)), class_="more"),
        tag("ol", parts, class_="parts", aria_label="its parts in their order") if parts else "",
        tag("p", f"stalls: {stalls}", class_="more") if stalls else "",
        tag("ul", said, class_="more") if said else "",
    )


def _waits(a: SourceAnalysis, role: str) -> dict[str, list[BarrierWait]]:
    """Return the waits of a role by their source line, or by what waits where none is known."""
    found: dict[str, list[BarrierWait]] = {}
    for w in a.waits:
        if w.role == role and w.samples:
            opcode = next(word for word in (*w.sass.split(), "?") if not word.startswith("@"))
            name = _at(w.line.file, w.line.line) if w.line and w.line.line else opcode
            found.setdefault(name, []).append(w)
    return dict(list(found.items())[:MOST_WAITS])


def _region(p: Region, number: int, samples: int) -> Html:
    name = f"{'↻ loop' if p.loop else 'part'} {number}"
    return join(
        tag("b", name),
        tag("span", one_line(p.what), class_="more"),
        share(p.samples / samples if samples else 0.0),
        tag("span", f"{p.samples:,} samples, {p.per_time:,.0f} instructions", class_="more"),
    )


def _code(content: Content) -> Section:
    a, counters = content.source, content.counters
    assert a is not None
    label = "under ncu: counts and samples, no times"
    if counters is None or not a.samples:
        return Section(
            "code", "Code with stalls", absent("No samples by instruction."), label=label
        )
    lines = _hot_lines(counters, content.sources, a.samples)
    listing = [
        tag("h3", "SASS"),
        tag(
            "details",
            tag("summary", f"{len(counters.instructions):,} instructions"),
            _sass(counters, a.samples),
        ),
    ]
    return Section("code", "Code with stalls", join(lines, listing), label=label)


def _hot_lines(
    counters: SourceCounters, sources: Mapping[str, tuple[str, ...]], samples: int
) -> Html:
    """Return the source lines on which most samples lie, with their text where it is known."""
    found: dict[tuple[str, int], list[CountedInstruction]] = {}
    for i in counters.instructions:
        if i.line is not None and i.line.line:
            found.setdefault((i.line.file, i.line.line), []).append(i)
    if not found:
        return absent("The report names no source lines: build with -lineinfo.")
    total = {line: sum(i.samples for i in held) for line, held in found.items()}
    hot = sorted((line for line in total if total[line]), key=lambda line: -total[line])
    rows = []
    for file, number in hot[:MOST_LINES]:
        held = found[file, number]
        text = sources.get(file, ())
        source = text[number - 1].strip() if 0 < number <= len(text) else ""
        part = total[file, number] / samples
        rows.append(
            (
                share(part),
                f"{100 * part:.1f}%",
                _top_stall(held),
                _at(file, number),
                tag("code", source) if source else "",
            )
        )
    left = len(hot) - len(rows)
    more = tag("p", f"And {left} lines more with samples.", class_="more") if left > 0 else Html()
    head = ("", "samples", "stall", "line", "source")
    return join(tag("h3", "Source"), table(head, rows, numbers=(1,)), more)


def _sass(counters: SourceCounters, samples: int) -> Html:
    base = counters.instructions[0].address if counters.instructions else 0
    every = counters.instructions
    shown = every if len(every) <= MOST_INSTRUCTIONS else [i for i in every if i.samples]
    rows = [
        (
            f"{i.address - base:#06x}",
            share(i.samples / samples) if i.samples else "",
            f"{i.samples:,}" if i.samples else "",
            _top_stall([i]),
            f"{i.executed:,}",
            tag("code", i.sass),
            _at(i.line.file, i.line.line) if i.line and i.line.line else "",
        )
        for i in shown[:MOST_INSTRUCTIONS]
    ]
    left = len(every) - len(rows)
    more = tag("p", f"{left:,} instructions without samples are left out.") if left else Html()
    head = ("at", "", "samples", "stall", "executed", "instruction", "line")
    return join(table(head, rows, numbers=(2, 4), caption="SASS with samples"), more)


def _top_stall(held: list[CountedInstruction]) -> str:
    counts: dict[str, int] = {}
    for i in held:
        for reason, n in i.stalls.items():
            counts[reason] = counts.get(reason, 0) + n
    return max(counts, key=lambda reason: counts[reason]) if counts else ""


def _phases(content: Content) -> Section:
    if not content.phases:
        why = content.absent.get(
            "phases",
            f"No phases in this run: `{COMMAND} remote-test --variant timing` measures them.",
        )
        return Section("phases", "Phases", absent(why))
    charts = [
        budget_chart(a, one_line(f"clock64, stage {stage}"), f"phases-{n}")
        for n, (stage, a) in enumerate(content.phases)
    ]
    body = join([_analysis(stage, a) for stage, a in content.phases])
    return Section("phases", "Phases", body, tuple(charts))


def _analysis(stage: str, a: TimingAnalysis) -> Html:
    ceilings = [
        (f"{c.role} without {c.without}", f"{c.cycles:,.0f}", f"{c.factor:.2f}x")
        for c in a.ceilings
    ]
    jitter = [
        (f"{j.role} {j.phase}", f"{j.least:,}", f"{j.mean:,.0f}", f"{j.most:,}", j.text)
        for j in a.jitter
    ]
    apart = [(c.phase, c.text) for c in a.contention]
    said = [a.headline, a.coverage.text if a.coverage else "", a.production]
    return join(
        tag("h3", f"Stage {one_line(stage)}"),
        [tag("p", one_line(s)) for s in said if s],
        table(("if it never waited", "cycles", "at most"), ceilings, numbers=(1, 2))
        if ceilings
        else "",
        table(("several warps", "how far apart"), apart) if apart else "",
        table(("jitter", "least", "mean", "largest", ""), jitter, numbers=(1, 2, 3))
        if jitter
        else "",
    )


def _numbers(found: Mapping[str, float]) -> str:
    return one_line(", ".join(f"{name} {value:.4g}" for name, value in found.items()))


def _at(file: str, line: int) -> str:
    return one_line(f"{PurePosixPath(file).name}:{line}")
