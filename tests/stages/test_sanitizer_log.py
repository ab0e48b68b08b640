"""A damaged log or XML of compute-sanitizer is never a pass: real ones, cut, doubled, joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Outcome, StageRecord
from kernelrig.stages import read_stage
from kernelrig.stages.sanitizer import reader
from kernelrig.stages.sanitizer.tool_log import parse_log, parse_xml

from tests.stages import bench
from tests.stages.test_sanitizer_verdict import (
    CAPTURES,
    SEEDED,
    accepting,
    apart,
    capture,
    files,
    racing,
    read,
    stage,
    with_logged_session,
    with_session,
)

TOOLS = tuple(SEEDED)
MIXED = sorted(
    p.name.removesuffix(".stdout.txt")
    for p in CAPTURES.glob("*.stdout.txt")
    # one has no summary; one was shortened by hand to show what the tool printed of inlined code
    if "nocuda" not in p.name and "memcheck-inlined" not in p.name
)

FOUND = ("memcheck-oob", "racecheck-race", "initcheck-oob", "synccheck-divergent")


def clean_log(tool: str) -> str:
    return str(files(tool)[f"{tool}.log"])


def damaged(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a log may have become on its way, or if another had written into it."""
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        yield f"without line {i}", "".join(lines[:i] + lines[i + 1 :])
        yield f"line {i} twice", "".join([*lines[: i + 1], *lines[i:]])
        for at in (1, len(line) // 2, len(line) - 1):
            yield f"line {i} cut at {at}", "".join([*lines[:i], line[:at], *lines[i + 1 :]])
            yield f"ends in line {i} at {at}", "".join([*lines[:i], line[:at]])
        yield f"program's line before {i}", "".join([*lines[:i], "done\n", *lines[i:]])
    yield "program's line last", text + "done\n"
    yield "joined to itself", text + text
    yield "CRLF", text.replace("\n", "\r\n")
    yield "NUL", text.replace("SUMMARY", "SUM\0MARY")
    yield "NUL at the end", text + "\0"
    yield "empty lines at the end", text + "\n\n"
    yield "translated", text.replace("errors", "Fehler").replace("hazards", "Konflikte")
    yield "another prefix", text.replace("=========", "####")
    yield "empty", ""


@pytest.mark.parametrize("tool", TOOLS)
def test_no_damaged_log_of_a_clean_run_passes(tmp_path: Path, tool: str) -> None:
    whole = clean_log(tool)
    assert read(tmp_path, tool, files(tool)).verdict.outcome is Outcome.PASS
    for how, text in damaged(whole):
        if text == whole:
            continue
        found = read(tmp_path, tool, files(tool) | {f"{tool}.log": text}).verdict
        assert found.outcome is Outcome.ERROR, how


@pytest.mark.parametrize("tool", TOOLS)
def test_no_damaged_xml_of_a_clean_run_passes(tmp_path: Path, tool: str) -> None:
    xml = files(tool)[f"{tool}.xml"]
    entity = '<!DOCTYPE x [<!ENTITY a "b">]>'
    cut = (xml[:at] for at in range(len(xml) - 1))
    joined = (xml + xml, xml + "x", entity + xml, xml.replace("?>", "?>" + entity), "\0" + xml)
    for text in (*cut, *joined):
        found = read(tmp_path, tool, files(tool) | {f"{tool}.xml": text}).verdict
        assert found.outcome is Outcome.ERROR, text


@pytest.mark.parametrize("name", [f"2025.3.1-{n}" for n in FOUND])
def test_no_damage_to_a_log_with_findings_makes_it_a_pass(tmp_path: Path, name: str) -> None:
    tool, said = name.split("-")[1], capture(f"{name}.stdout.txt")
    left = files(tool, said=said, xml=capture(f"{name}.xml"))
    every = [text for _, text in damaged(left[f"{tool}.log"])]
    for i, text in enumerate(every[:: max(1, len(every) // 24)]):
        record = read(tmp_path, tool, left | {f"{tool}.log": text}, (0, 86)[i % 2])
        assert record.verdict.outcome is not Outcome.PASS


def test_no_damage_to_the_log_of_an_accepted_finding_passes(tmp_path: Path) -> None:
    """With the finding reviewed the log alone says that nothing else was found."""
    left = racing()
    whole = left["racecheck.log"]
    assert read(tmp_path, "racecheck", left, 86, ctx=accepting()).verdict.outcome is Outcome.PASS
    inside = ("line 2", "line 5", "line 8")  # a record's text, which is not counted
    for how, text in damaged(whole):
        if text == whole or any(part in how for part in inside):
            continue
        record = read(tmp_path, "racecheck", left | {"racecheck.log": text}, 86, ctx=accepting())
        if record.verdict.outcome is Outcome.PASS:
            assert text.count("=========\n") + text.count("========= \n") == 3, how
            assert text.endswith(whole.splitlines(keepends=True)[-1]), how


@pytest.mark.parametrize("tool", TOOLS)
def test_what_the_program_prints_is_no_word_of_the_tools(tmp_path: Path, tool: str) -> None:
    """A program that prints a clean log of its own, under a tool that died."""
    forged = {f"{tool}.stdout.log": clean_log(tool), f"{tool}.log": "========= COMPUTE-SANITIZER\n"}
    assert read(tmp_path, tool, files(tool) | forged).verdict.outcome is Outcome.ERROR
    del (left := files(tool) | forged)[f"{tool}.log"]
    assert read(tmp_path, tool, left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("tool", [t for t in TOOLS if t != "racecheck"])
def test_the_log_of_another_process_that_found_something_is_an_error(
    tmp_path: Path, tool: str
) -> None:
    of_another = apart(tool, capture("2025.3.1-memcheck-oob.stdout.txt"))
    record = read(tmp_path, tool, files(tool) | of_another)
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("piece", ["log", "xml"])
def test_a_log_too_long_to_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: str
) -> None:
    left = files("memcheck")
    monkeypatch.setattr(reader, "MAX_LOG_BYTES", len(left[f"memcheck.{piece}"].encode()) - 1)
    assert read(tmp_path, "memcheck", left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("name", MIXED)
def test_every_real_log_is_whole(name: str) -> None:
    text = capture(f"{name}.stdout.txt")
    assert parse_log(text).damage == ""
    lines = text.splitlines(keepends=True)
    alone = "".join(line for line in lines if line.startswith("="))
    assert parse_log(alone, alone=True).damage == ""


@pytest.mark.parametrize("name", sorted(p.name for p in CAPTURES.glob("*.log")))
def test_every_real_log_of_its_own_is_whole(name: str) -> None:
    """As `--log-file` writes it; two clean ones of the three other tools are equal to the byte."""
    log = parse_log(capture(name), alone=True)
    assert (log.damage, log.summaries) == ("", 1)
    assert bool(log.total) == name.endswith("-selftest.log")


def of_before(folder: Path, tool: str, left: dict[str, str]) -> StageRecord:
    """Judge a run that was recorded when the tool still wrote to stdout."""
    ctx = bench.context()
    job = bench.job(stage(tool), ctx)
    *others, last = job.commands
    since = ("--log-file", f"{tool}.log", "--print-session-details")
    before = replace(last, argv=tuple(word for word in last.argv if word not in since))
    result = bench.ended(stage(tool), bench.exited(f"{tool}-selftest", 86), bench.exited(tool, 0))
    bench.write(folder, left)
    job = replace(job, commands=(*others, before))
    return read_stage(stage(tool), job, result, folder, ctx)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_recorded_run_without_a_log_of_its_own_is_judged_by_its_stdout(
    tmp_path: Path, tool: str
) -> None:
    said = capture(f"2025.3.1-{tool}-clean.stdout.txt")
    left = files(tool) | {f"{tool}.stdout.log": said}
    del left[f"{tool}.log"]
    assert of_before(tmp_path, tool, left).verdict.outcome is Outcome.PASS
    tool_lines = {line for line in said.splitlines() if line.startswith("=")}
    for how, text in damaged(said):
        if {line for line in text.splitlines() if line.startswith("=")} == tool_lines and (
            text.rstrip("\n").endswith(said.splitlines()[-1]) and text.count("COMPUTE") == 1
        ):
            continue  # the program's own lines
        record = of_before(tmp_path, tool, left | {f"{tool}.stdout.log": text})
        assert record.verdict.outcome is Outcome.ERROR, how


@pytest.mark.parametrize("version", ["2025.3.1", "2026.4.0"])
def test_the_session_of_a_real_log_is_that_of_its_xml(version: str) -> None:
    records = parse_xml(capture(f"{version}-memcheck-session.xml"))
    session = parse_log(capture(f"{version}-memcheck-session.log"), alone=True).session
    assert session is not None
    assert (records.count, session.driver) == (0, "580.159.04")
    assert session.application == (
        "/tmp/run/build/siglip_vision --mode once --samples 1 --case images=1,ctas=4"
        " --pattern integer --seed 3 --result r.json"
    )
    assert records.session == session


def judge(folder: Path, log: str, xml: str) -> StageRecord:
    job = bench.job(stage("memcheck"), bench.context())
    result = bench.ended(
        stage("memcheck"), bench.exited("memcheck-selftest", 86), bench.exited("memcheck", 0)
    )
    bench.write(folder, files("memcheck") | {"memcheck.log": log, "memcheck.xml": xml})
    return read_stage(stage("memcheck"), job, result, folder, bench.context())


def of_one_process() -> tuple[str, str]:
    """Return log and XML of a clean run, both of the process of the stage's command."""
    job = bench.job(stage("memcheck"), bench.context())
    left = files("memcheck")
    return with_logged_session(left["memcheck.log"], job), with_session(left["memcheck.xml"], job)


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("--seed 0", "--seed 1"),
        ("memcheck.json", "initcheck.json"),
        ("build/siglip_vision", "build/another"),
        ("build/siglip_vision", "build/not_siglip_vision"),
        ("--mode once", "--mode check"),
        ("580.159.04", "570.86.10"),
        ("636", "637"),
    ],
)
def test_what_another_process_left_is_an_error(tmp_path: Path, there: str, instead: str) -> None:
    log, xml = of_one_process()
    assert judge(tmp_path, log, xml).verdict.outcome is Outcome.PASS
    other_log, other_xml = (text.replace(there, instead) for text in (log, xml))
    assert (other_log, other_xml) != (log, xml)
    mixed = [(other_log, xml), (log, other_xml)]
    if there != "636":  # which process it was is not known, only that both files are of one
        mixed.append((other_log, other_xml))
    for pair in mixed:
        assert judge(tmp_path, *pair).verdict.outcome is Outcome.ERROR, pair


def test_files_of_two_sessions_or_of_none_are_an_error(tmp_path: Path) -> None:
    log, xml = of_one_process()
    session = xml[xml.index("<session>") : xml.index("</session>") + len("</session>")]
    header = log.index("\n") + 1
    logged = log[header : log.index("========= ERROR SUMMARY")]
    without = log.replace(logged, "")
    for pair in (
        (log, xml.replace(session, session * 2)),
        (log, xml.replace(session, "")),
        (log.replace(logged, logged * 2), xml),
        (without, xml),
        (without, xml.replace(session, "")),
    ):
        assert judge(tmp_path, *pair).verdict.outcome is Outcome.ERROR, pair


@pytest.mark.parametrize("tool", TOOLS)
def test_a_self_test_whose_log_is_damaged_proves_nothing(tmp_path: Path, tool: str) -> None:
    whole = files(tool)[f"{tool}-selftest.stdout.log"]
    for text in (whole + whole, whole[: len(whole) // 2], whole[:-2], whole.replace("\n", "\r\n")):
        record = read(tmp_path, tool, files(tool) | {f"{tool}-selftest.stdout.log": text})
        assert record.verdict.outcome is Outcome.ERROR
