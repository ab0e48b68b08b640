"""junit.xml: a suite per stage, a case per check; junit.xsd in this package is its schema.

fail -> failure (the kernel's fault), error -> error (ours or the host's), skip -> skipped with
its reason. junit-xml builds the tree; `_complete` adds what that library cannot write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from xml.etree import ElementTree as ET

from junit_xml import TestCase, TestSuite

from kernelrig.model import Check, Finding, Outcome, Run, StageRecord, Verdict, combine
from kernelrig.report.outcome import (
    EMULATED,
    describe_finding,
    device_label,
    is_incomplete,
    measured,
    missing,
    own_verdict,
    run_word,
    scope,
    shown_name,
)
from kernelrig.terminal.text import one_line, printable


@dataclass(frozen=True, slots=True)
class CaseOf:
    name: str
    verdict: Verdict
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteOf:
    """A suite; cases of one name are told apart by their number."""

    name: str
    classname: str
    cases: tuple[CaseOf, ...]
    seconds: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)
    timestamp: str = ""
    hostname: str = ""


def render_junit(run: Run) -> bytes:
    """Render a run; the same run gives the same bytes."""
    suites = [_stage_suite(run, stage) for stage in run.stages]
    if (own := own_verdict(run)) is not None:  # a report of passes alone would read as a pass
        suites.append(_stage_suite(run, own))
    if not run.stages or missing(run) or is_incomplete(run):
        suites.append(_absent_suite(run))
    of = f" (of {scope(run)})" if scope(run) else ""
    return render_suites(f"{one_line(run.id)}{of}", suites)


def render_suites(name: str, suites: Sequence[SuiteOf]) -> bytes:
    """Render suites; the same ones give the same bytes."""
    root = ET.Element("testsuites", name=one_line(name))
    for given in suites:
        suite = replace(given, cases=_distinct(given.cases))
        element = _junit_suite(suite).build_xml_doc()
        _complete(element, suite)
        root.append(element)
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(e.get(kind, "0")) for e in root)))
    root.set("time", f"{sum(suite.seconds for suite in suites):.3f}")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _stage_suite(run: Run, stage: StageRecord) -> SuiteOf:
    cases = [_check_case(check) for check in stage.checks]
    # A stage whose verdict is not that of its checks is a case of its own, so that it counts.
    if combine(case.verdict for case in cases) is not stage.verdict.outcome or not cases:
        cases.insert(0, CaseOf("stage", stage.verdict))
    name = f"{shown_name(stage)} ({device_label(stage)})"
    properties = {
        "device": device_label(stage),
        "results": measured(stage),
        "stage.kind": stage.kind,
        **({"gpu": stage.gpu} if stage.gpu else {}),
        **({"reused_from": stage.reused_from} if stage.reused_from else {}),
        "run.verdict": run_word(run),
        **_origin(run, stage.variant),
        **{f"note.{i}": note for i, note in enumerate(stage.notes, start=1)},
    }
    return _of_run(run, name, cases, properties, stage.seconds, stage.started_utc)


def _of_run(
    run: Run,
    name: str,
    cases: Sequence[CaseOf],
    properties: Mapping[str, str],
    seconds: float = 0.0,
    timestamp: str = "",
) -> SuiteOf:
    emulated = [EMULATED] if properties.get("device") == EMULATED else []
    stage = name.split(" (")[0]
    words = (run.kernel.name, run.arch, properties["variant"], *emulated, stage)
    host = run.host.hostname if run.host else ""
    return SuiteOf(name, ".".join(words), tuple(cases), seconds, properties, timestamp, host)


def _distinct(cases: Sequence[CaseOf]) -> tuple[CaseOf, ...]:
    """Number equal names from the second on: readers of JUnit join cases of one name."""
    taken: set[str] = set()
    named = []
    for case in cases:
        names = (case.name if i == 1 else f"{case.name} ({i})" for i in count(1))
        name = next(n for n in names if one_line(n) not in taken)
        taken.add(one_line(name))
        named.append(replace(case, name=name))
    return tuple(named)


def _absent_suite(run: Run) -> SuiteOf:
    """Return an error for each stage without a record: a missing case would read as a pass."""
    reasons = missing(run) or ("no stage left a record",)
    cases = [
        CaseOf(f"missing {i}", Verdict(Outcome.ERROR, reason))
        for i, reason in enumerate(reasons, start=1)
    ]
    return _of_run(run, "collect", cases, {"run.verdict": run_word(run), **_origin(run)})


def _origin(run: Run, variant: str = "") -> dict[str, str]:
    labels = dict.fromkeys(run.kernel.label_for(arch) for arch in run.arch.split("+"))
    label = "; ".join(filter(None, labels))
    changed = run.provenance.not_in_commit
    return {
        "kernel": run.kernel.name,
        "arch": run.arch,
        "variant": variant or run.variant,
        **({"remote": run.remote.name} if run.remote else {}),
        **({"shared_power": "true"} if run.host and run.host.shared_power else {}),
        "commit": run.provenance.commit,
        "dirty_sha256": run.provenance.dirty_sha256,
        **({"not_in_commit": ", ".join(changed)} if changed else {}),
        **({} if run.seed is None else {"seed": str(run.seed)}),
        "purpose": run.purpose,
        **({"only": ", ".join(run.only)} if run.only else {}),
        **({"label": label} if label else {}),
    }


def _check_case(check: Check) -> CaseOf:
    accepted = [f for f in check.findings if f.accepted]
    return CaseOf(
        name=check.name,
        verdict=check.verdict,
        seconds=check.seconds,
        findings=check.findings,
        properties=(
            *check.facts.items(),
            *(("fingerprint", f.fingerprint) for f in check.findings if f.fingerprint),
            *(("accepted", describe_finding(f)) for f in accepted),
        ),
    )


def _junit_suite(suite: SuiteOf) -> TestSuite:
    return TestSuite(
        one_line(suite.name),
        [_junit_case(case, one_line(suite.classname)) for case in suite.cases],
        hostname=one_line(suite.hostname) or None,
        timestamp=one_line(suite.timestamp) or None,
        properties={k: one_line(v) for k, v in suite.properties.items()},
    )


def _junit_case(case: CaseOf, classname: str) -> TestCase:
    # `message` is what viewers show in a list; junit-xml drops an element that has none.
    found = tuple(describe_finding(f) for f in case.findings)
    message = one_line("; ".join((case.verdict.summary, *found[:1]))) or "no reason was given"
    details = printable("\n".join((*case.verdict.evidence, *found)))
    result = TestCase(one_line(case.name), classname, elapsed_sec=case.seconds)
    match case.verdict.outcome:
        case Outcome.FAIL:
            result.add_failure_info(message, details)
        case Outcome.ERROR:
            result.add_error_info(
                message, details, "unreadable" if case.verdict.unreadable else None
            )
        case Outcome.SKIP:
            result.add_skipped_info(message, details)
        case Outcome.PASS:
            result.stdout = printable(case.verdict.summary) + (f"\n{details}" if details else "")
    return result


def _complete(element: ET.Element, suite: SuiteOf) -> None:
    """Add to junit-xml's tree what it lacks, and take out what junit-10 does not know."""
    del element.attrib["disabled"]
    element.set("time", f"{suite.seconds:.3f}")  # it would sum the cases: a stage is longer
    for case, node in zip(suite.cases, element.findall("testcase"), strict=True):
        node.set("time", f"{case.seconds:.3f}")  # it writes six digits, junit-10 allows three
        judged_first = sorted(case.findings, key=lambda f: bool(f.accepted))
        if located := next((f for f in judged_first if f.file), None):
            node.set("file", one_line(located.file))
            if located.line:
                node.set("line", str(located.line))
        if case.properties:
            properties = ET.Element("properties")
            for name, value in case.properties:
                ET.SubElement(properties, "property", name=one_line(name), value=one_line(value))
            node.insert(0, properties)
