"""`invoke check` on a real build: the verdicts, what lies in the run directory, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from kernelrig.build import load_build
from kernelrig.build.cache import BUILDS
from kernelrig.errors import ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.model import DeviceKind, Outcome, Run, StageKind, Toolchain
from kernelrig.proc import Completed, run_process
from kernelrig.report import exit_code, render_checks, render_run, render_sets, render_summary
from kernelrig.run import engine, store
from kernelrig.run.code_diff import compare_code
from kernelrig.run.executors import host, static
from kernelrig.run.requests import CheckRequest, RunRequest
from kernelrig.static import observations

from tests.cpu_project import make_cpu_project
from tests.demo_project import copy_project, make_demo_project
from tests.toolchain_fixture import REPOSITORY

Project = Callable[..., Path]
"""(*edits) -> a copy of the built demonstration, with these changes."""


@pytest.fixture(scope="module")
def good(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """Return the project with its production build made, and the run that made and checked it."""
    root = make_demo_project(tmp_path_factory.mktemp("demo") / "project")
    return root, check(root, CheckRequest())


@pytest.fixture(scope="module")
def built(good: tuple[Path, Run]) -> Path:
    root, run = good
    assert exit_code(run) == 0
    return root


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Project:
    return lambda *edits: copy_project(built, tmp_path / "project", *edits)


@pytest.fixture(scope="module", autouse=True)
def _live_registers_once() -> Iterator[None]:
    """Ask nvdisasm once of each cubin: it takes 0.7 CPU s, and 30 checks here read the same one."""
    said: dict[tuple[str, ...], Completed] = {}

    def ask(argv: list[str], *, timeout_s: float) -> Completed:
        key = (*argv[:-1], rundir.sha256_file(Path(argv[-1])))
        if key not in said:
            said[key] = run_process(argv, timeout_s=timeout_s)
        return said[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observations, "run_process", ask)
        yield


def check(root: Path, request: CheckRequest) -> Run:
    return engine.run_plan(root, request)


def check_sets(root: Path, request: CheckRequest) -> Run:
    return engine.run_plan(root, replace(request, tunables=True))


def folder_of(root: Path, run: Run) -> Path:
    return root / store.RUNS / run.id


def verdicts(run: Run) -> dict[str, Outcome]:
    return {c.name.split()[0]: c.verdict.outcome for s in run.stages[1:] for c in s.checks}


def test_a_good_build_passes_every_rule_that_is_asked(good: tuple[Path, Run]) -> None:
    _, run = good
    built, stage = run.stages
    assert (built.name, built.verdict.outcome) == ("build", Outcome.PASS)
    assert (stage.name, stage.kind, stage.device) == (
        "sm_90a-production",
        StageKind.CHECK,
        DeviceKind.STATIC,
    )
    said = verdicts(run)
    assert {said[c] for c in ("R001", "R002", "R003", "R004", "R005", "R006", "R007")} == {
        Outcome.PASS
    }
    assert (said["S001"], said["F001"], said["R008"]) == (
        Outcome.PASS,
        Outcome.PASS,
        Outcome.SKIP,
    )
    shared = next(c for c in stage.checks if c.name == "R005 shared-memory")
    assert shared.facts == {"shared_bytes": "1280", "budget": "1280"}  # 256 static, 1024 dynamic


def test_the_run_directory_holds_what_the_verdicts_rest_on(good: tuple[Path, Run]) -> None:
    root, run = good
    folder = folder_of(root, run)
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    home = "stages/01-sm_90a-production"
    assert names >= {
        *("run.json", "junit.xml", "summary.md", "report.html", "manifest.json"),
        *(f"{home}/{name}" for name in ("demo.sass", "demo.ptx", "demo.cubin", "build.json")),
        *(f"{home}/roles-gemm.dot", f"{home}/live-registers-gemm.txt"),
    }
    assert f"{home}/demo" not in names
    kept = serialization.from_json(Run, folder / "run.json")
    assert (kept.remote, kept.state, kept.plan.name) == (None, "finished", "check")
    assert "-demo-check-" in run.id
    _, suite = ET.parse(folder / "junit.xml").getroot()
    assert suite.get("name") == "sm_90a-production (static)"
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["results"] == "read from the build, nothing was run"
    assert properties["label"] == "a demonstration"
    assert "remote" not in properties


def test_what_people_read_names_every_rule_and_says_that_nothing_ran(
    good: tuple[Path, Run],
) -> None:
    _, run = good
    shown = render_checks(run, verbose=True)
    for rule in run.stages[1].checks:
        assert f"{rule.name.split()[0]}  {rule.name.split()[1]}" in shown
    assert render_run(run).startswith(f"pass: {run.id} (static)\n")
    summary = render_summary(run)
    assert "- **ran on**: no device: the builds were read, nothing was run; " in summary
    assert summary.endswith("- **next**: `ci/invoke emulate --kernel demo`\n")


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("shared_bytes: 1280", "shared_bytes: 1279", "R005", "1280 shared bytes, the budget is"),
        ("ctas_per_sm: 8", "ctas_per_sm: 33", "R007", "32 ctas per sm, the budget is at least 33"),
        ("must_have: [FADD]", "must_have: [FFMA2]", "S001", "no FFMA2"),
        ("must_have: [FADD]", "must_not_have: [BAR.SYNC], within: loops", "S001", "BAR.SYNC"),
    ],
)
def test_a_rule_that_does_not_hold_fails_the_run_and_says_how_to_fix_it(
    project: Project, old: str, new: str, code: str, said: str
) -> None:
    root = project(("kernel/kernels.yaml", old, new))
    run = check(root, CheckRequest())
    assert exit_code(run) == 1
    assert [c for c, outcome in verdicts(run).items() if outcome is Outcome.FAIL] == [code]
    (bad,) = (c for c in run.stages[1].checks if c.verdict.outcome is Outcome.FAIL)
    assert bad.verdict.summary.startswith(said)
    assert bad.verdict.evidence[-1].startswith("suggested fix: ")
    (failure,) = ET.parse(folder_of(root, run) / "junit.xml").getroot().iter("failure")
    assert str(failure.get("message")).startswith(said)
    assert (
        render_summary(run)
        .splitlines()[9]
        .endswith(", then `ci/invoke check --kernel demo --arch sm_90a --variant production`")
    )


def test_a_figure_that_got_worse_fails_until_it_is_accepted(project: Project) -> None:
    root = project()
    assert exit_code(check(root, CheckRequest(accept=True))) == 0
    accepted = json.loads((root / "kernel/accepted.json").read_text())
    assert list(accepted["builds"]) == ["demo-sm_90a-production"]
    assert verdicts(check(root, CheckRequest()))["R008"] is Outcome.PASS
    figures = accepted["builds"]["demo-sm_90a-production"]["usage"]
    figures["registers"] -= 1
    (root / "kernel/accepted.json").write_text(json.dumps(accepted))
    worse = check(root, CheckRequest())
    assert (exit_code(worse), verdicts(worse)["R008"]) == (1, Outcome.FAIL)
    assert exit_code(check(root, CheckRequest(accept=True))) == 0
    assert exit_code(check(root, CheckRequest())) == 0


def test_what_breaks_a_rule_is_not_accepted(project: Project) -> None:
    root = project(("kernel/kernels.yaml", "shared_bytes: 1280", "shared_bytes: 1279"))
    assert exit_code(check(root, CheckRequest(accept=True))) == 1
    assert not (root / "kernel/accepted.json").exists()


def only_build(root: Path) -> Path:
    (folder,) = (root / BUILDS).glob("demo-sm_90a-production-*")
    return folder


def handed_over(root: Path) -> Path:
    """Return the only build in a folder outside of the store, as one from elsewhere."""
    folder = only_build(root)
    return folder.rename(root / folder.name)


def forget_hashes(folder: Path, name: str) -> None:
    """Let a build be loaded that holds another file than it was made with."""
    record = json.loads((folder / "build.json").read_text())
    del record["files"][name]
    (folder / "build.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("name", "text", "code", "unjudged"),
    [
        ("demo.sass", None, 5, "S001"),
        ("demo.sass", "what is this\n", 5, "R001"),
        ("demo.ptx", "what is this\n", 5, "P001"),
        ("demo", "#!/bin/sh\necho no >&2; exit 3\n", 4, "R005"),
    ],
)
def test_what_cannot_be_judged_is_an_error_and_no_pass(
    project: Project, name: str, text: str | None, code: int, unjudged: str
) -> None:
    root = project()
    folder = handed_over(root)
    if name != "demo":
        forget_hashes(folder, name)
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    if name == "demo":
        record = json.loads((folder / "build.json").read_text())
        record["files"]["demo"] = rundir.sha256_file(folder / "demo")
        (folder / "build.json").write_text(json.dumps(record))
    run = check(root, CheckRequest(build_folders=(folder,)))
    assert (exit_code(run), verdicts(run)[unjudged]) == (code, Outcome.ERROR)


def test_a_build_made_elsewhere_is_checked_as_it_is(project: Project) -> None:
    root = project()
    run = check(root, CheckRequest(build_folders=(only_build(root),)))
    assert exit_code(run) == 0
    assert not any("live registers" in note for note in run.stages[1].notes)


@pytest.mark.parametrize(
    ("arch", "variant", "asked", "said"),
    [
        ("sm_90a", "gone", "", "unknown variant 'gone' of demo; known: production, wide"),
        ("sm_80", "production", "", "unknown arch 'sm_80' of demo; known: sm_90a"),
        (
            "sm_90a",
            "production",
            "wide",
            "--build gives demo-sm_90a-production, which --arch",
        ),
    ],
)
def test_a_build_that_is_not_meant_is_refused(
    project: Project, arch: str, variant: str, asked: str, said: str
) -> None:
    root = project()
    folder = handed_over(root)
    record = replace(load_build(folder), arch=arch, variant=variant)
    (folder / "build.json").write_text(serialization.to_json(record))
    with pytest.raises(ConfigError) as caught:
        check(root, CheckRequest(variant=asked, build_folders=(folder,)))
    assert str(caught.value).startswith(said)


def test_the_same_build_twice_is_refused(project: Project) -> None:
    root = project()
    with pytest.raises(ConfigError, match="two builds of demo-sm_90a-production"):
        check(root, CheckRequest(build_folders=(only_build(root), only_build(root))))


def test_a_cpu_program_has_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="passes is a CPU program"):
        check(make_cpu_project(tmp_path), CheckRequest(kernel="passes"))


def test_a_run_whose_check_fails_touches_no_host(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(("kernel/kernels.yaml", "shared_bytes: 1280", "shared_bytes: 1279"))

    monkeypatch.setattr(host, "connect", refuse)
    run = engine.run_plan(root, RunRequest("local", plan="quick"))
    assert (exit_code(run), run.state, run.host) == (1, "finished", None)
    assert [(s.name, s.verdict.outcome) for s in run.stages] == [
        ("build", Outcome.PASS),
        ("check", Outcome.FAIL),
        ("preflight", Outcome.SKIP),
        ("program", Outcome.SKIP),
    ]
    assert run.stages[3].verdict.summary == "not run: check did not pass"
    folder = folder_of(root, run)
    assert (folder / "junit.xml").is_file()
    assert (folder / "stages/00-check/roles-gemm.dot").is_file()
    assert (
        render_summary(run)
        .splitlines()[9]
        .endswith(", then `ci/invoke check --kernel demo --arch sm_90a --variant production`")
    )


def refuse(*_: object, **__: object) -> None:
    """Stand in the place of `connect`."""
    raise ConfigError("the host was asked")


def launched_run(root: Path) -> Run:
    (file,) = (root / store.RUNS).glob("*-demo-local-*/run.json")
    return serialization.from_json(Run, file)


def test_a_run_whose_check_passes_continues_on_the_host(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project()
    monkeypatch.setattr(host, "connect", refuse)
    with pytest.raises(ConfigError, match="the host was asked"):
        engine.run_plan(root, RunRequest("local", plan="quick"))
    kept = launched_run(root)
    assert [(s.name, s.verdict.outcome) for s in kept.stages] == [
        ("build", Outcome.PASS),
        ("check", Outcome.PASS),
        ("preflight", Outcome.ERROR),
        ("program", Outcome.SKIP),
    ]
    assert kept.stages[1].device is DeviceKind.STATIC


def test_a_check_that_crashes_is_recorded_as_an_error_and_the_host_stages_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project()

    def crash(*_: object, **__: object) -> None:
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr(static, "inspect_build", crash)
    alone = check(root, CheckRequest())
    assert (exit_code(alone), alone.stages[1].verdict.summary) == (
        4,
        "KeyError: 'nobody foresaw this'",
    )
    monkeypatch.setattr(host, "connect", refuse)
    with pytest.raises(ConfigError, match="the host was asked"):
        engine.run_plan(root, RunRequest("local", plan="quick"))
    assert [(s.name, s.verdict.outcome) for s in launched_run(root).stages] == [
        ("build", Outcome.PASS),
        ("check", Outcome.ERROR),
        ("preflight", Outcome.ERROR),
        ("program", Outcome.SKIP),
    ]


def test_the_diff_of_two_variants_is_shown_by_function(project: Project) -> None:
    root = project()
    shown = compare_code(root, "demo-sm_90a-production", "demo-sm_90a-wide").splitlines()
    assert shown[0].startswith("A  demo-sm_90a-production ")
    assert shown[1].startswith("B  demo-sm_90a-wide ")
    assert any(line.startswith("gemm: changed, ") for line in shown)
    assert any("FADD (1 -> " in line or " FADD " in line for line in shown)
    same = compare_code(root, str(only_build(root)), "demo-sm_90a-production").splitlines()
    assert same[-1].startswith("gemm: the same, ")


def test_what_is_no_build_is_refused_with_what_is_near(project: Project) -> None:
    with pytest.raises(ConfigError) as caught:
        compare_code(project(), "demo-sm_90a-production", "demo-sm_90a-producton")
    assert str(caught.value) == (
        "'demo-sm_90a-producton' is neither a folder of a build nor a KERNEL-ARCH-VARIANT; "
        "did you mean 'demo-sm_90a-production'?; see `ls artifacts/builds`, and kernel/kernels.yaml"
    )


@pytest.mark.long
def test_sets_of_tunables_are_compiled_once_and_judged_each(project: Project) -> None:
    root = project()
    run = check_sets(root, CheckRequest())
    built, stage = run.stages
    assert (built.name, built.verdict.outcome) == ("build", Outcome.PASS)
    assert exit_code(run) == 0
    assert [c.name for c in stage.checks] == [
        "T001 defaults",
        "T001 WIDTH=2",
        "T001 WIDTH=3",
        "T001 WIDTH=4",
    ]
    assert stage.checks[2].verdict.summary == "refused: WIDTH 3 leaves a part of a line"
    assert stage.notes[:2] == (
        "4 sets of tunables: 3 compile, 1 are refused by a static assert, 0 fail",
        "refused 1 sets: WIDTH 3 leaves a part of a line",
    )
    again = check_sets(root, CheckRequest())
    assert again.stages[1].checks == tuple(replace(c, seconds=0.0) for c in stage.checks)
    assert again.stages[1].notes[-1] == "0 s of nvcc, 4 sets kept from before"


@pytest.mark.long
def test_a_set_that_compiles_to_something_else_fails(project: Project) -> None:
    """Each set in a way of its own: a compiler error, local memory, a kernel of another name."""
    spilling = "#if WIDTH == 1\n  volatile float heap[8]; heap[n % 8] = 1;\n#endif\n"
    renamed = "#if WIDTH == 2\n#define gemm other\n#endif\n"
    gemm, sums = 'extern "C" __global__ void gemm', "  float sum[WIDTH] = {};"
    root = project(
        ("kernel/demo.cu", gemm, renamed + gemm),
        ("kernel/demo.cu", sums, f"  float sum[WIDTH == 4 ? -1 : WIDTH] = {{}};\n{spilling}"),
    )
    run = check_sets(root, CheckRequest())
    bad = {c.name: c for c in run.stages[1].checks if c.verdict.outcome is Outcome.FAIL}
    assert exit_code(run) == 1
    expected = {
        "T001 defaults": " accesses to local memory",
        "T001 WIDTH=2": "no ^gemm$",
        "T001 WIDTH=4": "not a static assert of the kernel: kernel/demo.cu:10: error: ",
    }
    assert list(bad) == list(expected)
    for name, said in expected.items():
        assert said in bad[name].verdict.summary
        assert f"fail  {name}: " in render_sets(run)


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
def test_the_kernel_of_this_repository_passes_in_every_variant_with_a_budget(
    arch: str, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    (root / "artifacts").mkdir()
    (root / "artifacts/tools").symlink_to(REPOSITORY / "artifacts/tools")
    run = check(root, CheckRequest(kernel="patch_embed", arch=arch))
    assert exit_code(run) == 0, render_checks(run)
    assert {v for c, v in verdicts(run).items() if c.startswith("R00")} <= {
        Outcome.PASS,
        Outcome.SKIP,
    }


@pytest.mark.parametrize(
    ("request_", "flag"),
    [
        (CheckRequest(accept=True), "--accept"),
        (CheckRequest(build_folders=(Path("build"),)), "--build"),
    ],
)
def test_sets_of_tunables_are_neither_accepted_nor_given(
    tmp_path: Path, request_: CheckRequest, flag: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_sets(tmp_path, request_)
    assert caught.value.message == f"--tunables compiles sets of its own: it takes no {flag}"


def test_a_kernel_without_tunables_is_an_error(project: Project) -> None:
    root = project(("kernel/kernels.yaml", "    tunables:\n      sm_90a:\n", "    unused:\n"))
    text = (root / "kernel/kernels.yaml").read_text()
    lines = [
        line for line in text.splitlines() if "unused" not in line and "structural" not in line
    ]
    (root / "kernel/kernels.yaml").write_text("\n".join(lines).replace(", defines: {WIDTH: 4}", ""))
    with pytest.raises(ConfigError) as caught:
        check_sets(root, CheckRequest())
    assert caught.value.message == "demo has no tunables for sm_90a"
    assert "`tunables: {sm_90a: {TILE: {default: 64, values: [32, 64, 128]}}}`" in caught.value.hint
