"""What a task shows of a run: the verdict, its causes, the stages, and the step that follows.

At most one screen of causes, wrapped at 80 columns; summary.md in the run directory has all of
them. Tables are not cut: a terminal folds their rows, a file or a pipe gets them whole.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from kernelrig.findings.demangling import readable
from kernelrig.findings.location import chain_text
from kernelrig.model import Finding, Outcome, Run, StageKind
from kernelrig.report.entries import Entry, entries, lines_of, place_of
from kernelrig.report.next_step import RUNS, next_step
from kernelrig.report.outcome import (
    describe_devices,
    labelled,
    missing,
    not_run,
    reused,
    run_word,
    shown_name,
    stage_word,
)
from kernelrig.terminal.text import columns, one_line

WIDTH = 80
MAX_LINES = 24
"""The screen's share for causes."""

_MESSAGE_LINES = 5
_CHAIN_LINES = 2
_EXPLAINED = 3
_NAMED = 4
_INDENT = "   "


def render_run(run: Run, body: str = "") -> str:
    """Render a run; `body` is the task's own part, as the pairs of a comparison."""
    found = entries(run)
    lines = [_verdict(run, found), *_causes(found)]
    lines += (f"missing: {one_line(reason)}" for reason in missing(run))
    lines += ["", body.rstrip("\n")] if body.strip() else []
    if rows := _stages(run, found):
        lines += ["", rows]
    folder = RUNS / run.id
    seed = "" if run.seed is None else f" (inputs of --seed {run.seed})"
    lines += ["", f"run: {folder}{seed}", f"next: {next_step(run).text}"]
    return "\n".join(lines) + "\n"


def render_attempt(run: Run, what: str) -> str:
    """Render stages that are of no run directory: the verdict on `what`, and the causes."""
    found = entries(run)
    return "\n".join([f"{run_word(run)}: {what}{_counted(found)}", *_causes(found)]) + "\n"


def entry_lines(entry: Entry, number: int, explained: int | None = None) -> list[str]:
    """Return everything known of an entry, unwrapped; the heading first.

    `explained` is how many of the findings that it explains are named; None = all.
    """
    finding = entry.finding
    if finding is None:
        lines = [f"{number}. {_plain(entry.fault.sentence)}"]
        lines += (one_line(text) for text in entry.fault.verdict.evidence)
        return lines
    return [
        f"{number}. {heading(finding)} {_plain(entry.apart)}".rstrip(),
        *filter(
            None,
            (
                source_text(finding),
                _plain(finding.message),
                *_fix(finding),
                _plain(lines_of(finding)),
                _chain(finding),
                _seen(entry),
            ),
        ),
        *_explained(entry, explained),
    ]


def heading(finding: Finding) -> str:
    """`race at kernel/gemm.cu:304 in load_inputs`, a path that an editor opens."""
    kind, at, inside = place_of(finding)
    where = f" at {at}" if at else ""
    return _plain(f"{kind}{where}" + (f" in {inside}" if inside else ""))


def source_text(finding: Finding) -> str:
    """Return the source line of a finding as entry_lines has it, empty where it is not known."""
    return _plain(finding.source_line)


def _verdict(run: Run, found: Sequence[Entry]) -> str:
    said = f"{run_word(run)}: {run.id} ({describe_devices(run)})"
    judged = (s.verdict for s in run.stages if s.kind is StageKind.FAULT)
    if verdict := next((v for v in judged if v.outcome in (Outcome.PASS, Outcome.FAIL)), None):
        return f"{said}: {one_line(verdict.summary)}"
    apart = "; " if found else ", "
    left = _named("not run", not_run(run), apart)
    return said + _counted(found) + _named("reused", reused(run), apart) + left


def _counted(found: Sequence[Entry]) -> str:
    causes = f": {len(found)} {'cause' if len(found) == 1 else 'causes'}" if found else ""
    explained = sum(len(e.explains) for e in found)
    causes += f", which explain{'s' * (len(found) == 1)} {explained} more" if explained else ""
    return causes


def _named(what: str, names: Sequence[str], apart: str) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{apart}{what}: {', '.join(names[:_NAMED])}{more}" if names else ""


def _causes(found: Sequence[Entry]) -> list[str]:
    """Return the first entries in full, as many as a screen holds, and the others by a line."""
    lines: list[str] = []
    for number, entry in enumerate(found, start=1):
        left, waiting = MAX_LINES - len(lines), len(found) - number
        block = ["", *_wrapped(entry, number)]
        if number == 1 or len(block) + min(waiting, 2) <= left:
            lines += block[: left - min(waiting, 2)]
        elif left > 1 + bool(waiting):
            lines.append(_cut(entry_lines(entry, number)[0]))
        else:
            lines.append(f"and {waiting + 1} more in the run's summary.md")
            break
    return lines


def _wrapped(entry: Entry, number: int) -> Iterator[str]:
    """Wrap an entry for the screen: long messages and chains are cut, but not in summary.md."""
    finding = entry.finding
    head, *rest = entry_lines(entry, number, _EXPLAINED)
    yield from _wrap(head, "", _MESSAGE_LINES)
    for text in rest:
        if finding is not None and text == source_text(finding):
            yield _cut(f"{_INDENT}  {text}")
        elif finding is not None and text == _chain(finding):
            yield from _wrap(text, _INDENT, _CHAIN_LINES)
        else:
            yield from _wrap(text, _INDENT, _MESSAGE_LINES)


def _wrap(text: str, indent: str, most: int) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=_INDENT,
        max_lines=most,
        placeholder=" ...",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 4].rstrip()} ..."


def _fix(finding: Finding) -> Iterator[str]:
    section = f" (PTX ISA {finding.section})" if finding.section else ""
    if finding.fix:
        yield _plain(f"suggested fix: {finding.fix}{section}")


def _chain(finding: Finding) -> str:
    """Return the inlined chain, innermost first."""
    if len(finding.frames) < 2:
        return ""
    return _plain(f"inlined: {chain_text(finding.frames)}")


def _seen(entry: Entry) -> str:
    """Return how often the fault was seen, by which thread first, and in which stages."""
    f = entry.finding
    assert f is not None
    counts = ((f.schedules, "schedule"), (f.warps, "warp"), (f.ctas, "CTA"))
    words = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in counts if n]
    words = [f.times, *words] if f.times else words
    first = [f"first by {f.threads}"] if f.threads else []
    by = [f"stages {', '.join(entry.stages)}" if len(entry.stages) > 1 else entry.stages[0]]
    name = [f"fingerprint {f.fingerprint}"] if f.fingerprint else []
    return _plain("seen: " + "; ".join([", ".join(words), *first, *by, *name]).removeprefix("; "))


def _explained(entry: Entry, most: int | None) -> list[str]:
    """Return a short line for each of the first `most` findings that the entry explains."""
    if not entry.explains:
        return []
    lines = [f"explains {len(entry.explains)} more:"]
    found = [e.finding for e in entry.explains if e.finding is not None]
    for finding in found[:most]:
        objects = f"({', '.join(finding.objects)})" if finding.objects else ""
        lines.append(f"- {heading(finding)} {_plain(objects)}".rstrip())
    more = len(found[most:]) if most is not None else 0
    lines += [f"- and {more} more"] if more else []
    cut = dict.fromkeys(e.fault.stage.name for e in entry.explains if e.finding is None)
    lines += [_plain(f"- checks not completed: {', '.join(cut)}")] if cut else []
    return lines


def _stages(run: Run, found: Sequence[Entry]) -> str:
    """Return a row for each stage, uncut; nothing where all stages are static.

    Static tasks have a body of their own. A terminal folds long rows, a pipe gets whole lines.
    """
    if all(s.kind.static for s in run.stages):
        return ""
    rows = [("stage", "verdict", "seconds", "summary")]
    for s in run.stages:
        numbers = [str(n) for n, e in enumerate(found, start=1) if _is_seen_by(e, s.name)]
        many = "causes" if len(numbers) > 1 else "cause"
        caused = numbers and s.kind is not StageKind.FAULT  # its summary says how it was found
        said = f"{many} {', '.join(numbers)}" if caused else one_line(s.verdict.summary)
        word, seconds = stage_word(s), f"{s.seconds:.1f}"
        rows.append((one_line(shown_name(s)), word, seconds, readable(labelled(s, said))))
    return columns(rows)


def _is_seen_by(entry: Entry, stage: str) -> bool:
    return any(stage in e.stages for e in (entry, *entry.explains))


def _plain(text: str) -> str:
    return one_line(readable(text))
