from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import kernelrig.report
import pytest
from kernelrig.model import Check, Run, StageKind
from kernelrig.report.junit import render_junit
from lxml import etree

from tests.report import runs

DATA = Path(__file__).parents[1] / "data" / "report"
OURS = etree.XMLSchema(file=str(Path(kernelrig.report.__file__).with_name("junit.xsd")))
JUNIT_10 = etree.XMLSchema(file=str(DATA / "junit-10.xsd"))


@pytest.mark.parametrize("run", runs.ALL.values(), ids=runs.ALL)
def test_every_kind_of_run_is_valid(run: Run) -> None:
    OURS.assertValid(etree.fromstring(render_junit(run)))


@pytest.mark.parametrize("run", runs.ALL.values(), ids=runs.ALL)
def test_without_properties_and_lines_of_cases_it_is_plain_junit_10(run: Run) -> None:
    tree = etree.fromstring(render_junit(run))
    for properties in tree.findall("testsuite/testcase/properties"):
        properties.getparent().remove(properties)
    for case in tree.findall("testsuite/testcase"):
        case.attrib.pop("file", None)
        case.attrib.pop("line", None)
    for timed in [tree, *tree.findall("testsuite")]:
        if float(timed.get("time")) >= 1000:  # there 1,234.567 stands for 1234.567
            timed.set("time", "999.000")
    JUNIT_10.assertValid(tree)


@pytest.mark.parametrize("name", ["pass", "fail", "incomplete", "emulated"])
def test_the_document_is_the_one_that_was_reviewed(name: str) -> None:
    assert render_junit(runs.ALL[name]).decode() == (DATA / f"{name}.junit.xml").read_text()


def test_the_same_run_gives_the_same_bytes() -> None:
    assert render_junit(copy.deepcopy(runs.FAIL)) == render_junit(runs.FAIL)


def test_outcomes_become_the_elements_of_junit() -> None:
    root = _parse(
        runs.run(
            runs.CHECKSUM,
            runs.FAILED_MEMCHECK,
            runs.UNREADABLE.stages[1],
            runs.SKIPPED_TIMING,
        )
    )
    cases = root.findall("testsuite/testcase")
    assert [[child.tag for child in case if child.tag != "properties"] for case in cases] == [
        ["system-out"],
        ["failure"],
        ["error"],
        ["skipped"],
    ]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "1")


def test_the_message_of_a_failure_has_the_finding_with_its_location() -> None:
    failure = _parse(runs.run(runs.FAILED_MEMCHECK)).find(".//failure")
    assert failure is not None
    message = failure.get("message", "")
    for part in (
        "memcheck",
        "patch_embed_gemm",
        "kernel/cuda_patch_embed_fp8.cu:123",
        "(0,0,0) to (31,0,0) in block (3,0,0)",
        "5e1f00d5",
    ):
        assert part in message
    assert "ERROR SUMMARY: 32 errors" in (failure.text or "")


def test_a_case_names_the_file_and_line_of_its_finding() -> None:
    cases = _parse(runs.FAIL).findall("testsuite/testcase")
    assert [(c.get("file"), c.get("line")) for c in cases if c.get("file")] == [
        ("kernel/cuda_patch_embed_fp8.cu", "123")
    ]


def test_a_case_names_what_failed_it_before_what_was_accepted() -> None:
    elsewhere = replace(runs.OUT_OF_BOUNDS, file="kernel/other.cu", line=0)
    accepted = replace(runs.OUT_OF_BOUNDS, accepted="known since May")
    check = Check("memcheck", runs.failed("one of two"), findings=(accepted, elsewhere))
    record = runs.stage("memcheck", StageKind.SANITIZER, check, verdict=runs.failed("one of two"))
    (case,) = _parse(runs.run(record)).findall("testsuite/testcase")
    assert (case.get("file"), case.get("line")) == ("kernel/other.cu", None)


def test_facts_are_properties_of_their_case() -> None:
    case = _parse(runs.run(runs.CHECKSUM)).find(".//testcase")
    assert case is not None
    assert {p.get("name"): p.get("value") for p in case.iterfind("properties/property")} == {
        "elements": "1053696",
        "pattern": "integer",
    }


def test_an_accepted_finding_passes_and_stays_visible() -> None:
    root = _parse(runs.ACCEPTED)
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    accepted = [
        p.get("value", "") for p in root.iterfind(".//testcase//property[@name='accepted']")
    ]
    assert len(accepted) == 1
    assert accepted[0].endswith("accepted: the allocator pads, see issue 12")
    verdicts = {p.get("value") for p in root.iterfind(".//property[@name='run.verdict']")}
    assert verdicts == {"pass (1 accepted)"}


def test_every_suite_names_the_device_that_answered() -> None:
    assert [s.get("name") for s in _parse(runs.PASS)] == [
        "preflight (gpu NVIDIA H200)",
        "checksum (gpu NVIDIA H200)",
        "memcheck (gpu NVIDIA H200)",
        "timing (gpu NVIDIA H200)",
    ]
    assert [s.get("name") for s in _parse(runs.EMULATED)] == [
        "checksum (emulated)",
        "timing (emulated)",
    ]
    assert b"B200" not in render_junit(runs.EMULATED)


def test_every_suite_and_case_names_the_variant_that_was_run() -> None:
    guard = replace(runs.CHECKSUM, name="tmem-guard", variant="guard")
    suites = _parse(runs.run(runs.PREFLIGHT, runs.CHECKSUM, guard)).findall("testsuite")
    named = [s.find("properties/property[@name='variant']") for s in suites]
    assert [p.get("value") for p in named if p is not None] == ["production", "production", "guard"]
    cases = [s.find("testcase") for s in suites]
    assert [c.get("classname") for c in cases if c is not None] == [
        "patch_embed.sm_90a.production.preflight",
        "patch_embed.sm_90a.production.checksum",
        "patch_embed.sm_90a.guard.tmem-guard",
    ]


def test_the_label_of_another_arch_is_none_of_this_run() -> None:
    for label, wanted in (({"sm_90a": "a stand-in"}, ["a stand-in"]), ({"sm_100a": "it"}, [])):
        run = replace(runs.run(runs.CHECKSUM), kernel=replace(runs.KERNEL, label=label))
        properties = _parse(run).iterfind("testsuite/properties/property[@name='label']")
        assert [p.get("value") for p in properties] == wanted


def test_a_stage_that_failed_as_a_whole_counts_though_its_checks_passed() -> None:
    check = Check("integer", runs.passed())
    record = runs.stage("checksum", StageKind.CHECKSUM, check, verdict=runs.failed("ran too long"))
    root = _parse(runs.run(record))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (runs.NOTHING, "no stage left a record"),
        (runs.INCOMPLETE, "host-17 does not answer: connection refused"),
        (replace(runs.PASS, stages=runs.PASS.stages[:-1]), "stage timing: it left no record"),
    ],
)
def test_what_is_missing_is_an_error_case(run: Run, message: str) -> None:
    errors = _parse(run).findall("testsuite[@name='collect']/testcase/error")
    assert [e.get("message") for e in errors] == [message]


def test_nothing_from_a_tool_breaks_the_document_and_nothing_of_it_vanishes() -> None:
    failure = _parse(runs.nasty_run()).find(".//failure")
    assert failure is not None
    assert failure.get("message", "").startswith(
        "\\x1b[31mred\\x00 \\ud800 \U0001f525 ü]]>&<b>%0A / ::error::x|`*_\\ufffe; "
    )


def test_the_schema_refuses_a_case_with_two_answers() -> None:
    tree = etree.fromstring(render_junit(runs.run(runs.FAILED_MEMCHECK)))
    case = tree.find("testsuite/testcase")
    assert case is not None
    etree.SubElement(case, "error", message="x", type="error")
    assert not OURS.validate(tree)


def _parse(run: Run) -> ET.Element:
    return ET.fromstring(render_junit(run))


def test_no_two_cases_of_a_suite_have_one_name() -> None:
    """Two findings of one kind on one line: readers would show one of them."""
    check = runs.FAILED_MEMCHECK.checks[0]
    three = [check, check, replace(check, name=f"{check.name} (2)")]
    root = _parse(runs.run(replace(runs.FAILED_MEMCHECK, checks=tuple(three))))
    assert [case.get("name") for case in root.findall("testsuite/testcase")] == [
        "finding 5e1f00d5",
        "finding 5e1f00d5 (2)",
        "finding 5e1f00d5 (2) (2)",
    ]


def test_a_run_that_judged_nothing_has_an_error() -> None:
    root = _parse(runs.UNJUDGED)
    assert root.get("errors") == "1"
    (error,) = root.iterfind("testsuite/testcase/error")
    assert error.get("message") == "nothing judged the kernel on NVIDIA H200"


def test_a_run_that_was_narrowed_says_so_in_the_documents_name() -> None:
    root = _parse(runs.NARROWED)
    assert root.get("name") == "20261121T120000Z-patch_embed-h200-beef (of smoke only)"
    for name, value in (("only", "smoke"), ("run.verdict", "pass, of smoke only")):
        found = root.iterfind(f"testsuite/properties/property[@name='{name}']")
        assert {p.get("value") for p in found} == {value}
