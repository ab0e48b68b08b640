"""Judge one build by every rule that needs no GPU: what `invoke check` does with each build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from kernelrig import __version__
from kernelrig import ptx as ptx_text
from kernelrig.errors import CiError, ConfigError, ProtocolError
from kernelrig.findings import Acceptance, Sources
from kernelrig.model import (
    AcceptedBuild,
    Build,
    Check,
    Kernel,
    Outcome,
    Rule,
    Verdict,
    broken,
    passed,
    skipped,
)
from kernelrig.model.symbol import base_name
from kernelrig.sass import Function, Module, control_flow, parse_sass
from kernelrig.static import accepted_figures, fingerprint, role_rules, sass_rules
from kernelrig.static.accepted_figures import check_accepted
from kernelrig.static.described_launch import Launch, NoLaunch, describe
from kernelrig.static.fingerprint import check_fingerprint
from kernelrig.static.observations import latency_notes, live_notes
from kernelrig.static.ptx import RULES as ASKED_OF_PTX
from kernelrig.static.ptx import check_ptx
from kernelrig.static.resource_rules import RULES, check_resources, local_accesses, measure
from kernelrig.static.role_graph import RoleGraph, part_roles
from kernelrig.static.role_graph_dot import role_dot, write_picture
from kernelrig.static.role_rules import check_roles
from kernelrig.static.rule_check import TOOL, not_judged
from kernelrig.static.sass_rules import check_sass
from kernelrig.static.subject import Subject

PLAIN_PROGRAM = (
    "a plain program is judged by its exit status and output; with the harness every output"
    " element, the speed, shared memory and occupancy, and single launches are judged too"
)
"""What a third-party program would gain from the harness."""
_MOST_NAMED = 8
PTX_RULES = tuple(asked.rule for asked in ASKED_OF_PTX)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The verdicts on a build; `figures` are what `--accept` writes, None if they are unknown."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    figures: AcceptedBuild | None = None


def inspect_build(
    kernel: Kernel,
    build: Build,
    folder: Path,
    then: AcceptedBuild | None,
    *,
    accept: bool = False,
    nvdisasm: Path | None = None,
    today: date | None = None,
    root: Path | None = None,
) -> Inspection:
    """Judge `build` by every rule; pictures and tables go into `folder`.

    `then` are its accepted figures; with `accept` its own take their place. Without nvdisasm
    there is no note on live registers; no rule depends on them.
    """
    if not kernel.level and not build.resources:
        said = "the program has no kernel of its own: there is nothing to check"
        return Inspection((Check("kernels", skipped(said)),))
    subject = Subject(kernel, build.arch, build.variant)
    launch = _launch(subject, build)
    try:
        ptx: ptx_text.Module | CiError = read_ptx(build)
    except CiError as e:
        ptx = e
    try:
        module = read_module(build, {} if isinstance(ptx, CiError) else ptx.named_lines)
        entries = [f for f in module.functions if f.is_entry]
        functions = [f for f in entries if subject.means(f.name)]
        if not functions:
            return Inspection((_no_kernel(subject, [f.name for f in entries]),))
    except CiError as e:
        checks = [not_judged(rule, e) for rule in _all_rules(subject)]
        return Inspection(tuple(checks))
    local = local_accesses(subject, functions)
    usage = measure(subject, build, len(local), launch)
    prints = {fingerprint.stable_name(f.name): fingerprint.fingerprint(f) for f in functions}
    device_compiler = build.toolchain_version.partition(",")[0]  # the host's makes no SASS
    figures = AcceptedBuild(device_compiler, usage, prints) if usage else None
    then = figures if accept else then
    checks = list(check_resources(subject, usage, launch, local))
    if figures:
        checks.append(check_accepted(subject, figures, then))
    threads = launch.threads if isinstance(launch, Launch) else role_rules.MOST_THREADS
    graphs = _Graphs(subject, module, functions)
    rules = subject.sass.rules if subject.sass else (sass_rules.NONE_ASKED,)
    checks += _family(rules, lambda: check_sass(subject, graphs.all()))
    checks += _family(role_rules.RULES, lambda: _roles(subject, graphs.all(), threads))
    checks += _family(PTX_RULES, lambda: _ptx(subject, [f.name for f in functions], ptx))
    checks.append(check_fingerprint(subject, prints, then))
    review = Acceptance(TOOL, __version__, today or datetime.now(UTC).date(), kernel.accepted)
    checks = [_reviewed(check, review, Sources(build, root)) for check in checks]
    notes = _notes(
        lambda: () if kernel.level else (PLAIN_PROGRAM,),
        lambda: _pictures(subject, graphs.all(), folder),
        lambda: latency_notes(subject, graphs.all(), build),
        lambda: live_notes(subject, functions, build, folder, nvdisasm) if nvdisasm else (),
    )
    return Inspection(tuple(checks), notes, figures)


def inspect_ptx(kernel: Kernel, build: Build, root: Path) -> tuple[Check, ...]:
    """Judge the PTX of `build` by its rules: all that can be judged before there is a cubin."""
    subject = Subject(kernel, build.arch, build.variant)

    def ask() -> Iterator[Check]:
        module = read_ptx(build)
        entries = [f.name for f in module.entries if subject.means(f.name)]
        if not entries:
            yield _no_kernel(subject, [f.name for f in module.entries])
        yield from _ptx(subject, entries, module)

    review = Acceptance(TOOL, __version__, datetime.now(UTC).date(), kernel.accepted)
    sources = Sources(build, root)
    return tuple(_reviewed(check, review, sources) for check in _family(PTX_RULES, ask))


def _no_kernel(subject: Subject, entries: Sequence[str]) -> Check:
    """Return the error of a build without the kernel: one, as no rule has anything to judge."""
    there = ", ".join(map(base_name, entries[:_MOST_NAMED])) or "none"
    why = f"the build has no kernel called '{subject.function}'; kernels in it: {there}"
    return Check("kernels", broken(why, "suggested fix: name it as kernel_regex in kernels.yaml"))


def read_module(build: Build, functions: Mapping[tuple[str, int], str] | None = None) -> Module:
    """Return the disassembly that the build keeps; `functions` names the function of each line."""
    return parse_sass(_kept(build, "sass"), functions)


def read_ptx(build: Build) -> ptx_text.Module:
    """Return the PTX that the build keeps. nvcc wrote it: an error in it is not the user's."""
    try:
        return ptx_text.parse_ptx(_kept(build, "ptx"), f"{build.program}.ptx")
    except ConfigError as e:
        raise ProtocolError(e.message, e.hint) from e


def _kept(build: Build, suffix: str) -> str:
    path = build.binary.with_name(f"{build.program}.{suffix}")
    if not path.is_file():
        raise ProtocolError(f"{build.folder} holds no {path.name}", "build it again")
    return path.read_text(errors="replace")


@dataclass(slots=True)
class _Graphs:
    """The control-flow graphs, made once; each family of rules that needs them sees a failure."""

    subject: Subject
    module: Module
    functions: Sequence[Function]
    made: tuple[RoleGraph, ...] = ()

    def all(self) -> tuple[RoleGraph, ...]:
        if not self.made:
            flows = (control_flow(self.module, f.name) for f in self.functions)
            self.made = tuple(part_roles(flow, self.subject.roles) for flow in flows)
        return self.made


def _launch(subject: Subject, build: Build) -> Launch | Verdict:
    """Return how the program launches its kernel, or the verdict where that is unknown."""
    if not subject.kernel.level:
        return skipped("a plain program does not say how it launches its kernels")
    try:
        return describe(build, next(iter(subject.kernel.cases.values())), subject.kernel)
    except NoLaunch as e:
        return skipped(f"no launch to judge: {e}")
    except CiError as e:
        return broken(str(e))


def _roles(subject: Subject, graphs: Sequence[RoleGraph], threads: int) -> Iterator[Check]:
    asked = graphs if subject.roles else graphs[:1]
    for graph in asked:
        checks = check_roles(graph, subject.source, threads, subject.tunables)
        yield from _named(checks, graph.flow.function.name, len(asked))


def _ptx(
    subject: Subject, entries: Sequence[str], ptx: ptx_text.Module | CiError
) -> Iterator[Check]:
    if isinstance(ptx, CiError):
        raise ptx
    for name in entries:
        checks = check_ptx(ptx, name, subject.source)
        yield from _named(checks, name, len(entries))


def _reviewed(check: Check, review: Acceptance, sources: Sources) -> Check:
    """Accept findings that kernels.yaml accepts; a rule of which all are accepted passes."""
    named = (replace(f, source_line=sources.text(f)) for f in check.findings)
    found = tuple(map(review.apply, named))
    if check.verdict.outcome is not Outcome.FAIL or not found:
        return check
    verdict = check.verdict
    if all(f.accepted for f in found):
        verdict = passed(f"accepted: {found[0].accepted}", verdict.summary)
    return replace(check, verdict=verdict, findings=found)


def _named(checks: Iterable[Check], function: str, several: int) -> Iterator[Check]:
    """Add the function to the names of the checks if there are several."""
    for check in checks:
        yield replace(check, name=f"{check.name} ({function})") if several > 1 else check


def _pictures(subject: Subject, graphs: Sequence[RoleGraph], folder: Path) -> tuple[str, ...]:
    for graph in graphs:
        name = graph.flow.function.name
        text = role_dot(graph, subject.source, f"{name}, {subject.name}")
        write_picture(text, folder / f"roles-{fingerprint.stable_name(name)}.dot")
    return ()


def _family(rules: Iterable[Rule], ask: Callable[[], Iterable[Check]]) -> Sequence[Check]:
    """Return the checks of a family of rules; if they cannot be judged, each rule is an error."""
    try:
        return list(ask())
    except CiError as e:
        return [not_judged(rule, e) for rule in rules]


def _notes(*writers: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """Return what is reported without a verdict; a note that fails is replaced by the reason."""
    notes: list[str] = []
    for write in writers:
        try:
            notes += write()
        except CiError as e:
            notes.append(f"not available: {e}")
    return tuple(notes)


def _all_rules(subject: Subject) -> Iterator[Rule]:
    yield from RULES.values()
    yield accepted_figures.RULE
    yield from subject.sass.rules if subject.sass else ()
    yield from role_rules.RULES
    yield from PTX_RULES
    yield fingerprint.RULE
