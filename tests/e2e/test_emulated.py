"""The megakernel with no GPU anywhere: through SSH and the agent, and by itself; broken, too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernelrig.model import DeviceKind, Toolchain
from kernelrig.run import engine
from lxml import etree

from tests.command_server import REPOSITORY
from tests.compilations import DESCRIBES, share_builds
from tests.e2e.project import Answer, Project, read_junit, stage_of
from tests.kernel.bad_kernels import make_bad_project

FAULT = "missing-dealloc"
SMALL = ("--case", "images=1,ctas=2", "--pattern", "integer", "--observe", "sync")
_PLAN = """\
schema: 1
stages:
  - {name: preflight, kind: preflight}
  - {name: smoke, kind: checksum, case: smoke, patterns: [integer]}
  - {name: synccheck, kind: sanitizer, tool: synccheck, case: smoke}
  - {name: memcheck, kind: sanitizer, tool: memcheck, case: smoke}
  - {name: timing, kind: timing, case: smoke, needs: [smoke]}
"""


def replace_in(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def make_project(root: Path) -> Project:
    """Complete a project that has a kernel folder with what is ours: tools, builds, remotes."""
    for name in ("tasks.py", "remotes.yaml"):
        shutil.copy(REPOSITORY / name, root)
    (root / "ci/plans").mkdir(parents=True)
    (root / "ci/plans/tiny.yaml").write_text(_PLAN)
    replace_in(root / "kernel/kernels.yaml", "smoke: {images: 1}", "smoke: {images: 1, ctas: 2}")
    # Emulated, the program only describes its launches, as others of tests/kernel have it built.
    flags = f"nvcc_flags: [{', '.join(DESCRIBES)}]"
    program = "program: siglip_vision\n"
    replace_in(root / "kernel/kernels.yaml", program, f"{program}        {flags}\n")
    share_builds(root)
    tools = REPOSITORY / "artifacts/tools"
    tools.mkdir(parents=True, exist_ok=True)
    (root / "artifacts/tools").symlink_to(tools)
    (root / "tests/bad").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "tests/bad/sm100a", root / "tests/bad/sm100a")
    return Project(root, limit_s=400.0)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Project:
    root = tmp_path_factory.mktemp("good")
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    return make_project(root)


@pytest.fixture(scope="module")
def run(good: Project) -> Answer:
    """A run that names no remote: this machine, as it would be a rented one."""
    return good.invoke("remote-test", "--plan", "tiny")


def test_without_a_remote_it_goes_the_whole_way_emulated(run: Answer) -> None:
    assert (run.exit_code, run.sentences) == (0, [])
    assert any(line.startswith("embedded SSH host on ") for line in run.progress)
    found = run.run
    assert found.remote is not None
    assert (found.remote.name, found.arch, found.state) == ("emulator", "sm_100a", "finished")
    built, *others = found.stages
    assert (built.name, built.verdict.outcome, built.device) == ("build", "pass", DeviceKind.STATIC)
    assert [(s.name, s.verdict.outcome, s.device) for s in others] == [
        (name, outcome, DeviceKind.EMULATOR)
        for name, outcome in (
            ("preflight", "pass"),
            ("smoke", "pass"),
            ("synccheck", "pass"),
            ("memcheck", "pass"),
            ("timing", "skip"),
        )
    ]
    assert stage_of(found, "smoke").verdict.summary == "all elements right in 2 schedules"


def test_every_line_and_every_case_says_emulated(run: Answer) -> None:
    verdict, _, head, built, *lines = run.stdout.splitlines()
    assert verdict == f"pass: {run.run.id} (emulated), not run: timing"
    assert head.split() == ["stage", "verdict", "seconds", "summary"]
    assert built.split()[:2] == ["build", "pass"]
    stages, last = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert len(stages) == 5
    assert [line for line in stages if "emulated" not in line] == []
    assert [line.split(":")[0] for line in last] == ["run", "next"]
    root = etree.parse(run.folder / "junit.xml").getroot()
    built, *suites = root.iterfind("testsuite")
    assert built.get("name") == "build (static)"
    assert all(s.get("name").endswith(" (emulated)") for s in suites)
    cases = [case for s in suites for case in s.iterfind("testcase")]
    assert len(cases) >= 10
    assert all(".emulated." in case.get("classname") for case in cases)
    summary = (run.folder / "summary.md").read_text()
    assert summary.startswith("# pass: patch_embed, sm_100a, production (emulated)\n")
    assert "- **ran on**: emulated, not measured; remote emulator" in summary


def test_a_time_is_skipped_with_the_reason(run: Answer) -> None:
    assert read_junit(run.folder)["timing/timing"] == (
        "skipped: emulated: no timing, as the emulator models results and ordering, not time"
    )


def test_an_emulated_pass_meets_no_standard_of_a_check(run: Answer) -> None:
    assert {s.standard for s in run.run.stages} == {""}


def test_one_emulation_serves_both_tools(run: Answer) -> None:
    names = {s.name: [c.name for c in s.commands] for s in run.run.stages}
    assert names["synccheck"] == ["emulate", "synccheck"]
    assert names["memcheck"] == ["memcheck"]


@pytest.fixture(scope="module")
def again(good: Project, run: Answer) -> Answer:
    """The same once more: nothing has changed since `run` passed."""
    assert run.exit_code == 0
    return good.invoke("remote-test", "--plan", "tiny")


def test_what_passed_before_is_reused_and_every_report_says_so(run: Answer, again: Answer) -> None:
    assert (again.exit_code, again.sentences) == (0, [])
    names = ["smoke", "synccheck", "memcheck"]
    assert [s.name for s in again.run.stages if s.reused_from == run.run.id] == names
    assert again.stdout.splitlines()[0] == (
        f"pass: {again.run.id} (emulated), reused: {', '.join(names)}, not run: timing"
    )
    assert all(stage_of(again.run, name).seconds == 0 for name in names)
    for line in again.stdout.splitlines():
        if line.split(" ")[0] in names:
            assert f"pass (reused)  0.0      emulated: reused from {run.run.id}: " in line
    root = etree.parse(again.folder / "junit.xml").getroot()
    found = {s.get("name"): s.find("properties/property[@name='reused_from']") for s in root}
    assert [n.split()[0] for n, p in found.items() if p is not None] == names
    assert {p.get("value") for p in found.values() if p is not None} == {run.run.id}
    summary = (again.folder / "summary.md").read_text()
    assert "smoke pass (reused), synccheck pass (reused), memcheck pass (reused)" in summary


def test_a_run_has_the_files_that_its_reused_verdicts_rest_on(
    good: Project, run: Answer, again: Answer, tmp_path: Path
) -> None:
    before = again.run
    run.folder.rename(tmp_path / "gone")
    try:
        judged = engine.judge(good.root, again.folder, before)
        (again.folder / "stages/01-smoke/integer-0.json").unlink()
        (again.folder / "manifest.json").unlink()  # else it is refused as changed
        lost = engine.judge(good.root, again.folder, before)
    finally:
        (tmp_path / "gone").rename(run.folder)
    assert stage_of(judged, "smoke").verdict == stage_of(before, "smoke").verdict
    assert stage_of(lost, "smoke").verdict.outcome == "error"


@pytest.mark.long
def test_a_run_that_was_changed_or_removed_is_not_reused(good: Project) -> None:
    words = ("remote-test", "--plan", "tiny", "--only", "smoke")
    first = good.invoke(*words, "--fresh")
    assert stage_of(first.run, "smoke").reused_from == ""
    assert stage_of(good.invoke(*words).run, "smoke").reused_from == first.run.id
    log = first.folder / "stages/01-smoke/integer-0.json"
    log.write_bytes(log.read_bytes() + b" ")
    changed = good.invoke(*words)
    assert stage_of(changed.run, "smoke").reused_from == ""
    assert stage_of(changed.run, "smoke").verdict.outcome == "pass"
    assert any("smoke is run again, though it passed before" in line for line in changed.progress)
    shutil.rmtree(changed.folder)
    assert stage_of(good.invoke(*words).run, "smoke").reused_from == ""


def test_a_required_gpu_is_not_emulated(good: Project) -> None:
    answer = good.invoke("remote-test", "--plan", "tiny", "--require-device", "NVIDIA B200")
    assert answer.exit_code == 4
    found = read_junit(answer.folder)
    assert found["preflight/required device"] == (
        "error: the device is emulated, --require-device asks for 'NVIDIA B200'"
    )
    assert found["smoke/stage"] == "skipped: not run: preflight did not pass"


def test_what_measures_is_refused_where_no_host_is_named(good: Project) -> None:
    answer = good.invoke("profile")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences == [
        "plan profile needs a GPU: emulated: no profile, as the emulator models results and"
        " ordering, not time; pass --remote NAME of a host with a GPU (remote-add adds one)"
    ]


def test_emulate_judges_here_and_files_like_any_run(good: Project) -> None:
    answer = good.invoke("emulate", *SMALL, "--schedules", "1")
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert (
        "synccheck and 1 schedule a launch only"
        in ((answer.folder / "summary.md").read_text().splitlines()[0])
    )
    assert read_junit(answer.folder) == {
        "build/patch_embed-sm_100a-production": "pass",
        "checksum-1x2/integer seed 0, images=1,ctas=2": "pass",
        "synccheck/integer seed 0, images=1,ctas=2: outputs": "pass",
        "synccheck/synccheck: run": "pass",
    }
    assert (answer.folder / "stages/01-checksum-1x2/integer-0.command").is_file()
    assert (answer.folder / "launches/own/1x2-integer-0/launch.json").is_file()


@pytest.mark.long
def test_a_broken_kernel_fails_and_the_case_names_kind_and_line(
    tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    bad = make_project(make_bad_project(f"sm100a/{FAULT}", tmp_path / "bad"))
    answer = bad.invoke("emulate", *SMALL, "--schedules", "1")
    assert (answer.exit_code, answer.sentences) == (1, [])
    named = [k for k in read_junit(answer.folder) if k.startswith("synccheck/synccheck: leak at ")]
    assert {k.partition(" at ")[2].split(":")[0] for k in named} == {"sm100a_patch_embed_fp8.cu"}
    assert read_junit(answer.folder)[named[0]].startswith("failure: synccheck: leak at ")


@pytest.mark.long
def test_a_fault_that_is_found_is_a_pass_of_the_emulator(good: Project) -> None:
    answer = good.invoke("emulate", "--only-fault", FAULT, *SMALL, "--schedules", "1")
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert read_junit(answer.folder) == {
        "build/patch_embed-sm_100a-production": "pass",
        f"{FAULT}/{FAULT} is found": "pass",
    }
    told = (answer.folder / "junit.xml").read_text()
    first = f"{FAULT} is found as leak in schedule 1 of 1\nleak at sm100a_patch_embed_fp8.cu:"
    assert first in told
    assert list((good.root / "artifacts").glob(".fault-*")) == []


@pytest.mark.long
def test_a_fault_that_is_missed_is_a_failure_of_the_emulator(good: Project) -> None:
    words = ("--only-fault", FAULT, "--case", "images=1,ctas=2", "--observe", "memory")
    answer = good.invoke("emulate", *words, "--schedules", "1")
    assert answer.exit_code == 1
    missed = f"{FAULT} is missed in 1 schedule: its patch expects leak"
    assert read_junit(answer.folder) == {
        "build/patch_embed-sm_100a-production": "pass",
        f"{FAULT}/{FAULT} is found": f"failure: {missed}",
    }


def test_an_unknown_fault_is_refused_with_the_known_ones(good: Project) -> None:
    answer = good.invoke("emulate", "--only-fault", "missing")
    assert answer.exit_code == 2
    assert answer.sentences[0].startswith("unknown fault 'missing' of sm_100a; known: ")
