"""What came back, judged without a host: damaged run directories of a CPU program."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.config.selection import SELFTEST
from kernelrig.errors import CiError, ConfigError, ProtocolError, RemoteError
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Build,
    Check,
    Command,
    DeviceKind,
    Host,
    Kernel,
    Outcome,
    Plan,
    Provenance,
    RecordedRemote,
    Run,
    Shipped,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    Variant,
    Verdict,
)
from kernelrig.remote.transfer import Missing
from kernelrig.report import exit_code, run_word
from kernelrig.run import engine, reuse, store
from kernelrig.run.executors import host
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import BuildRequest, RunRequest

from tests.cpu_project import make_cpu_project

RUN = "20261121T120000Z-greets-box-beef"
UTC = "2026-11-21T12:00:00Z"
KEY = "aabbccddeeff0011"
GREETS = Kernel(
    name="greets",
    sources={"sm_90a": "greets.cpp"},
    variants={"production": Variant("production", "greets")},
    level=0,
    cuda=False,
    expected_lines=("hello",),
)
STAGES = (Stage("preflight", StageKind.PREFLIGHT), Stage("program", StageKind.CHECKSUM))
JOURNAL: tuple[dict[str, Any], ...] = (
    {"event": "run_started", "run": RUN},
    {"event": "stage_started", "stage": "program", "index": 1},
    {"event": "command_started", "stage": "program", "command": "program", "utc": UTC},
    {
        "event": "command_ended",
        "stage": "program",
        "command": "program",
        "ended_by": "exit",
        "ok": True,
        "exit": 0,
        "signal": None,
        "seconds": 0.5,
        "started_utc": UTC,
        "detail": "",
        "reused_from": "",
    },
    {"event": "stage_ended", "stage": "program", "ok": True},
    {"event": "finished", "reason": "all stages were run"},
)


def build_in(folder: Path, **changes: Any) -> Build:  # noqa: ANN401 - any field
    """Put a build in `folder` and return it."""
    folder.mkdir(parents=True)
    (folder / "greets").write_text("#!/bin/sh\necho hello\n")
    build = Build(
        kernel="greets",
        arch="sm_90a",
        variant="production",
        key=KEY,
        folder=folder,
        program="greets",
        command=("g++",),
        toolchain_version="g++ 12",
        resources=(),
        glibc="2.34",
        min_driver="",
        inputs={},
        files={"greets": rundir.sha256_file(folder / "greets")},
        compile_s=1.0,
    )
    build = replace(build, **changes)
    (folder / "build.json").write_text(serialization.to_json(build))
    return build


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run directory in which everything is as it should be."""
    run = tmp_path / RUN
    build_in(run / "build")
    stage = run / "stages/01-program"
    stage.mkdir(parents=True)
    (stage / "program.stdout.log").write_text("hello\n")
    write_journal(run, *JOURNAL)
    return run


def launched() -> Run:
    good = Verdict(Outcome.PASS, "3 checks passed")
    preflight = StageRecord(
        "preflight", StageKind.PREFLIGHT, DeviceKind.CPU, "host-17", good, (Check("python", good),)
    )
    return Run(
        id=RUN,
        kernel=GREETS,
        variant="production",
        arch="sm_90a",
        remote=RecordedRemote(name="box", arch="sm_90a", kind="embedded"),
        plan=Plan("default", STAGES),
        provenance=Provenance("", "", "0.1.0", "", "", {"greets-sm_90a-production": KEY}, ""),
        started_utc=UTC,
        state="launched",
        jobs=(
            StageJob(
                "program",
                StageKind.CHECKSUM,
                (Command("program", ("../../build/greets",), 60.0),),
            ),
        ),
        host=Host("host-17", "3.12.3", "2.39", 64 << 30),
        stages=(preflight,),
    )


class Link:
    """A host that has every blob already: it records the requests, or fails as told."""

    host_key = "SHA256:shown"
    began, held_s = 0.0, 12.3456

    def __init__(self, **failures: Exception) -> None:
        self.failures = failures
        self.asked: list[str] = []
        self.shipped: dict[str, Path] = {}

    @property
    def facts(self) -> Host:
        self._ask("facts")
        return Host("host-17", "3.12.3", "2.39", 64 << 30)

    def ship(self, blobs: dict[str, Path]) -> Shipped:
        self._ask("ship")
        self.shipped = blobs
        return Shipped(len(blobs), 0, 0, 0.0)

    def launch(self, *_: object, **__: object) -> None:
        self._ask("launch")

    def bring_back(self, *_: object) -> Missing:
        self._ask("bring back")
        return Missing()

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.failures:
            raise self.failures[what]


def run_project(
    root: Path, monkeypatch: pytest.MonkeyPatch, link: Link, *builds: Path
) -> tuple[Run | None, Run]:
    """Run a CPU program there; return what came of it, None if it raised, and run.json."""
    monkeypatch.setattr(host, "connect", lambda *_, **__: nullcontext(link))
    request = RunRequest("local", kernel="passes", plan="quick", build_folders=builds)
    try:
        came: Run | None = engine.run_plan(root, request)
    except (ValueError, CiError):
        came = None
    (file,) = (root / store.RUNS).glob("*/run.json")
    return came, serialization.from_json(Run, file)


def write_journal(folder: Path, *events: dict[str, Any]) -> None:
    (folder / "journal.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def judge(folder: Path, run: Run | None = None) -> Run:
    return engine.judge(folder.parent, folder, run or launched())


def test_a_run_of_which_all_came_back_passes(folder: Path) -> None:
    run = judge(folder)
    assert (run.state, run_word(run), exit_code(run)) == ("finished", "pass", 0)
    assert serialization.from_json(Run, folder / "run.json") == run
    assert sorted(p.name for p in folder.iterdir() if p.is_file()) == [
        "journal.jsonl",
        "junit.xml",
        "manifest.json",
        "report.html",
        "run.json",
        "summary.md",
    ]


FAILED = {"event": "agent_error", "detail": "IsADirectoryError"}


@pytest.mark.parametrize(
    ("events", "how"),
    [
        (JOURNAL[:4], "was lost"),
        ((*JOURNAL[:4], JOURNAL[4] | {"ok": False, "compared": False}, JOURNAL[5]), "was lost"),
        ((*JOURNAL[:4], FAILED, JOURNAL[5]), "failed"),
        ((*JOURNAL[:5], FAILED, JOURNAL[5]), "failed"),
    ],
    ids=["killed", "closed by another", "failed", "failed later"],
)
def test_a_pass_that_the_agent_did_not_live_to_compare_is_an_error(
    folder: Path, events: tuple[dict[str, Any], ...], how: str
) -> None:
    """All commands ended well, and nobody knows what was done to the files that they rest on."""
    write_journal(folder, *events)
    run = judge(folder)
    assert exit_code(run) == 4
    (program,) = [s for s in run.stages if s.name == "program"]
    assert program.verdict.summary == (
        f"the agent on the host {how} before it had compared what program left:"
        " a pass of it does not count"
    )


def test_what_no_agent_compared_to_its_end_is_no_standard_that_was_met(folder: Path) -> None:
    """Nor offered to later runs: the last program may have rewritten what earlier stages left."""
    assert all(s.standard for s in judge(folder).stages if s.name == "program")
    write_journal(folder, *JOURNAL[:5])
    (program,) = [s for s in judge(folder).stages if s.name == "program"]
    assert (program.verdict.outcome, program.standard) == (Outcome.PASS, "")
    keyed = replace(launched(), state="finished", stages=(program,), stage_keys={"program": "ab"})
    for events, offered in ((JOURNAL[:5], False), (JOURNAL, True)):
        write_journal(folder, *events)
        reuse.offer_passed(store.RunDirectory(folder.parent, folder, keyed))
        assert (folder.parent / reuse.PASSED / "ab.json").is_file() == offered


@pytest.mark.parametrize(
    ("spoil", "code", "summary"),
    [
        (lambda f: (f / "journal.jsonl").unlink(), 4, "not run: the run left no journal"),
        (lambda f: write_journal(f, *JOURNAL[1:]), 5, "not the journal of"),
        (lambda f: write_journal(f, {**JOURNAL[0], "run": "other"}), 5, "not the journal of"),
        (lambda f: write_journal(f, *JOURNAL, JOURNAL[3]), 5, "command_ended occurs 2 times"),
        (lambda f: write_journal(f, *JOURNAL[:3]), 4, "program was ended by lost"),
        (lambda f: write_journal(f, *JOURNAL[:1]), 4, "not run: the agent on the host was lost"),
        (
            lambda f: write_journal(f, *JOURNAL[:3], JOURNAL[3] | {"ended_by": "exploded"}),
            5,
            "'ended_by' must be one of",
        ),
        (lambda f: (f / "stages/01-program/program.stdout.log").unlink(), 4, "is missing"),
    ],
)
def test_a_run_with_invalid_or_missing_files_ends_with_an_error_and_its_reports(
    folder: Path, spoil: Callable[[Path], None], code: int, summary: str
) -> None:
    spoil(folder)
    run = judge(folder)
    assert (run.state, run_word(run), exit_code(run)) == ("finished", "error", code)
    assert summary in run.stages[1].verdict.summary
    assert (folder / "junit.xml").is_file()


def test_a_reader_that_fails_costs_its_own_stage_alone(folder: Path) -> None:
    """No job for a stage of the plan: nothing of ours should write that, and it is no crash."""
    plan = Plan("default", (*STAGES, Stage("again", StageKind.CHECKSUM)))
    run = judge(folder, replace(launched(), plan=plan))
    assert [s.verdict.outcome for s in run.stages] == [Outcome.PASS, Outcome.PASS, Outcome.ERROR]
    assert run.stages[2].verdict.summary == "KeyError: 'again'"


@pytest.mark.parametrize(
    "changes", [{"key": "0123456789ab"}, {"arch": "sm_100a"}, {"variant": "debug"}]
)
def test_another_build_in_the_place_of_the_one_that_ran_is_refused(
    tmp_path: Path, folder: Path, changes: dict[str, str]
) -> None:
    (folder / "build").rename(tmp_path / "the one")
    build_in(folder / "build", **changes)
    with pytest.raises(ProtocolError, match="which is not what was run; it ran greets-sm_90a"):
        judge(folder)


GUARD = Stage("guard", StageKind.CHECKSUM, variant="guard")
GUARD_KEY = "0011223344556677"


def launched_with_guard(folder: Path, *archs: str) -> Run:
    """Put the run's second build and stage into its folder and return the run."""
    build_in(folder / "variants/guard", variant="guard", key=GUARD_KEY)
    (folder / "stages/02-guard").mkdir()
    (folder / "stages/02-guard/program.stdout.log").write_text("hello\n")
    own = [e | {"stage": "guard"} if "stage" in e else e for e in JOURNAL[1:-1]]
    write_journal(folder, *JOURNAL[:-1], *(e | {"index": 2} for e in own), JOURNAL[-1])
    run = launched()
    builds = {**run.provenance.builds, "greets-sm_90a-guard": GUARD_KEY}
    command = Command("program", ("../../variants/guard/greets",), 60.0)
    return replace(
        run,
        kernel=replace(
            GREETS, variants={**GREETS.variants, "guard": Variant("guard", "greets", archs=archs)}
        ),
        plan=Plan("default", (*STAGES, GUARD)),
        provenance=replace(run.provenance, builds=builds),
        jobs=(*run.jobs, StageJob("guard", StageKind.CHECKSUM, (command,))),
    )


def test_a_stage_of_another_variant_is_judged_by_that_build(folder: Path) -> None:
    run = judge(folder, launched_with_guard(folder))
    assert [(s.name, s.variant, s.verdict.outcome) for s in run.stages[1:]] == [
        ("program", "production", Outcome.PASS),
        ("guard", "guard", Outcome.PASS),
    ]
    (own,), (guard,) = (s.checks for s in run.stages[1:])
    assert own.verdict.evidence == ()
    assert guard.verdict.evidence == ("variant guard: greets, build 001122334455",)


def test_a_variant_that_the_arch_has_not_got_is_looked_for_nowhere(folder: Path) -> None:
    launch = launched_with_guard(folder, "sm_100a")
    (folder / "variants/guard/build.json").unlink()
    run = judge(folder, launch)
    assert (run_word(run), exit_code(run)) == ("pass", 0)
    assert (run.stages[2].verdict.outcome, run.stages[2].verdict.summary) == (
        Outcome.SKIP,
        "greets has no variant guard for sm_90a; it is for sm_100a",
    )


def test_the_runs_own_build_in_the_place_of_a_variant_is_refused(folder: Path) -> None:
    run = launched_with_guard(folder)
    (folder / "variants/guard/build.json").write_bytes((folder / "build/build.json").read_bytes())
    with pytest.raises(ProtocolError, match="variants/guard holds greets-sm_90a-production"):
        judge(folder, run)


def test_a_replaced_binary_is_refused(folder: Path) -> None:
    (folder / "build/greets").write_text("#!/bin/sh\necho hello # and more\n")
    with pytest.raises(ConfigError, match="greets is not what was built"):
        judge(folder)


@pytest.mark.parametrize("where", ["facts", "ship"])
@pytest.mark.parametrize("what", [ValueError("nobody foresaw this"), RemoteError("it is dead")])
def test_what_goes_wrong_before_the_launch_is_on_file_for_every_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, what: Exception
) -> None:
    root = make_cpu_project(tmp_path)
    came, kept = run_project(root, monkeypatch, Link(**{where: what}))
    assert came is None
    assert (kept.state, run_word(kept), exit_code(kept)) == ("finished", "error", 4)
    assert {s.name for s in kept.stages} == {s.name for s in kept.plan.stages}
    named = {s.name: s.verdict for s in kept.stages}
    assert str(what) in named["preflight"].summary
    assert named["program"].summary == "not run: the run ended before this stage"
    assert (root / store.RUNS / kept.id / "junit.xml").is_file()


@pytest.mark.parametrize("where", ["launch", "bring back"])
def test_what_goes_wrong_after_the_launch_leaves_a_run_that_can_be_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    root = make_cpu_project(tmp_path)
    came, kept = run_project(root, monkeypatch, Link(**{where: ValueError("unforeseen")}))
    assert came is None
    assert (kept.state, exit_code(kept), kept.missing) == (
        "incomplete",
        6,
        ("ValueError: unforeseen",),
    )
    monkeypatch.setattr(host, "connect", lambda *_, **__: nullcontext(Link()))
    again = engine.collect(root, kept.id)
    assert (again.state, exit_code(again)) == ("finished", 4)  # the host has no journal either


def test_a_binary_that_was_replaced_since_it_was_checked_does_not_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host gets the recorded hash, and refuses bytes with another one."""
    root = make_cpu_project(tmp_path)
    (built,) = engine.build_kernels(root, BuildRequest("passes", "sm_90a"))

    class Slow(Link):
        def ship(self, blobs: dict[str, Path]) -> Shipped:
            assert rundir.sha256_file(built.binary) not in blobs
            return super().ship(blobs)

        @property
        def facts(self) -> Host:
            built.binary.unlink()
            built.binary.write_text("#!/bin/sh\n")
            return super().facts

    link = Slow()
    run_project(root, monkeypatch, link, built.folder)
    assert link.shipped == {built.files[built.program]: built.binary}


def test_a_run_keeps_the_sources_that_its_findings_are_named_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the build read, and only what is still as the build read it."""
    root = make_cpu_project(tmp_path)
    (built,) = engine.build_kernels(root, BuildRequest("passes", "sm_90a"))
    (source,) = built.inputs
    strangers = {"../outside.cu": "00", "gone.cuh": "00"}
    prepared = prepare(root, RunRequest("local", kernel="passes", plan="quick"))
    several = replace(built, inputs={**built.inputs, **strangers})
    own = prepared.wanted[""]
    wanted = {"": replace(own, given=several), SELFTEST: replace(own, given=built)}
    monkeypatch.setattr(engine, "prepare", lambda *_: replace(prepared, wanted=wanted))
    (tmp_path / "outside.cu").write_text("")
    _, kept = run_project(root, monkeypatch, Link(launch=RemoteError("busy")))
    folder = root / store.RUNS / kept.id / store.SOURCES
    assert [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()] == [source]
    assert (folder / source).read_bytes() == (root / source).read_bytes()


def test_collecting_a_finished_run_writes_the_reports_that_a_killed_client_did_not(
    folder: Path,
) -> None:
    root = folder.parent
    judge(folder)
    runs = root / store.RUNS
    runs.mkdir(parents=True)
    home = folder.rename(runs / RUN)
    for name in ("junit.xml", "summary.md", "report.html", "manifest.json"):
        (home / name).unlink()
    assert exit_code(engine.collect(root, RUN)) == 0
    written = {"junit.xml", "summary.md", "report.html", "manifest.json"}
    assert written <= {p.name for p in home.iterdir()}
