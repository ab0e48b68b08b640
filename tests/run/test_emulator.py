"""What `invoke emulate` makes of its flags, and which faults it knows; nothing is compiled here."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ConfigError
from kernelrig.model import Command, EndedBy, Kernel, Pattern, Plan, StageJob, StageKind
from kernelrig.model.configuration import Emulation
from kernelrig.remote import read_journal, run_job_here
from kernelrig.run.emulation import CASES, plan_for, prepare_emulation
from kernelrig.run.fault import broken_tree, read_fault
from kernelrig.run.requests import EmulateRequest
from kernelrig.stages.emulation.command import emulated_case

from tests.e2e.host import marked_processes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return config.load_kernels(ROOT)["patch_embed"]


def names(plan: Plan) -> list[str]:
    return [s.name for s in plan.stages]


def test_without_flags_four_sizes_are_judged_and_the_last_is_observed(kernel: Kernel) -> None:
    cased, plan = plan_for(kernel, EmulateRequest())
    checked = ["checksum-1x2", "checksum-2x2", "checksum-3x2", "checksum-7x4"]
    assert names(plan) == [*checked, "memcheck", "racecheck", "initcheck", "synccheck"]
    assert {s.patterns for s in plan.stages[:4]} == {tuple(Pattern)}
    assert {s.case for s in plan.stages[4:]} == {"images=7,ctas=4"}
    assert set(CASES) <= set(cased.cases)


def test_where_three_ctas_share_a_tile_the_sizes_are_of_groups_of_three(kernel: Kernel) -> None:
    _, plan = plan_for(kernel, EmulateRequest(arch="sm_90a"))
    assert names(plan)[:4] == ["checksum-1x3", "checksum-2x3", "checksum-3x3", "checksum-7x6"]
    prepared = prepare_emulation(ROOT, EmulateRequest(kernel="patch_embed", arch="sm_90a"))
    assert prepared.plan.stages[-1].case == "images=7,ctas=6"


def test_flags_narrow_it(kernel: Kernel) -> None:
    request = EmulateRequest(case="sanitizer", pattern="random", observe=("sync", "races"), seed=3)
    _, plan = plan_for(kernel, request)
    assert names(plan) == ["checksum-7x4", "synccheck", "racecheck"]
    assert plan.stages[0].patterns == (Pattern.RANDOM,)
    assert {(s.case, s.seeds) for s in plan.stages} == {("sanitizer", (3,))}
    assert plan.stages[1].kind is StageKind.SANITIZER


def test_a_large_case_is_emulated_once_at_its_own_size_with_all_observers(kernel: Kernel) -> None:
    cased, plan = plan_for(kernel, EmulateRequest(case="full"))
    assert names(plan) == ["memcheck", "racecheck", "initcheck", "synccheck"]
    assert all(s.whole and s.disk_mb > 1360 for s in plan.stages)
    assert {emulated_case(cased, s) for s in plan.stages} == {kernel.cases["full"]}
    _, plan = plan_for(kernel, EmulateRequest(case="images=17", pattern="random"))
    assert names(plan) == ["checksum-17x0"]
    _, plan = plan_for(
        kernel, EmulateRequest(case="images=17", pattern="random", observe=("init",))
    )
    assert names(plan) == ["checksum-17x0", "initcheck"]
    assert prepare_emulation(ROOT, EmulateRequest("patch_embed", case="full")).emulation == (
        Emulation(1, 1)
    )


def test_sets_of_tunables_are_emulated_on_nine_tiles() -> None:
    spec = prepare_emulation(ROOT, EmulateRequest("patch_embed", tunables=True, observe=("sync",)))
    (stage,) = spec.plan.stages
    assert (stage.name, stage.kind) == ("sm_100a-production", StageKind.TUNABLES)
    assert spec.kernel.cases[stage.case].images == 3
    assert stage.patterns == (Pattern.INTEGER,)
    assert spec.emulation == Emulation(4, 2, tools=("synccheck",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"only_fault": "x"}, "--tunables emulates the kernel as it is: it takes no --only-fault"),
        ({"pattern": "random"}, "--tunables compares every output to the bit: it takes no random"),
        ({"case": "full"}, "--tunables emulates many launches: a case has 1 to 16 images"),
        ({"kernel": "patch_embed_cuda"}, "patch_embed_cuda has no tunables for "),
    ],
)
def test_what_sets_of_tunables_do_not_take_is_refused(changes: dict[str, str], said: str) -> None:
    request = replace(EmulateRequest("patch_embed", tunables=True), **changes)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as error:
        prepare_emulation(ROOT, request)
    assert str(error.value).startswith(said)


def test_schedules_hold_for_every_launch() -> None:
    assert EmulateRequest().emulation() == Emulation(4, 2, 0, "fp32")
    asked = EmulateRequest(schedules=9, seed=5, accumulate="hardware")
    assert asked.emulation() == Emulation(9, 9, 5, "hardware")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (EmulateRequest(case="images=0"), "case images=0 is not emulated: it may have 1 to 9999"),
        (EmulateRequest(case="x"), "unknown case 'x'; write images=N,ctas=N, or one of smoke, "),
        (EmulateRequest(pattern="odd"), "unknown pattern 'odd'; known: constant, integer, random"),
        (
            EmulateRequest(observe=("race",)),
            "unknown observer 'race'; known: init, memory, races, ",
        ),
    ],
)
def test_what_cannot_be_emulated_is_refused(
    kernel: Kernel, request_: EmulateRequest, said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        plan_for(kernel, request_)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedules": 0}, "--schedules must be from 1 to 10000, not 0"),
        ({"schedules": 1 << 40}, "--schedules must be from 1 to 10000, not 1099511627776"),
        ({"engine": "cuda"}, "unknown engine 'cuda'; known: auto, native, numpy"),
        ({"accumulate": "fp16"}, "unknown accumulation 'fp16'; known: fp32, hardware"),
    ],
)
def test_how_it_cannot_be_emulated_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        replace(EmulateRequest(), **changes).emulation()  # type: ignore[arg-type]
    assert str(error.value) == said


def test_the_agent_runs_the_commands_of_a_job_in_the_run_directory(tmp_path: Path) -> None:
    commands = (
        Command("good", ("sh", "-c", "echo out; echo $TOLD >&2"), 30.0, env={"TOLD": "err"}),
        Command("bad", ("sh", "-c", "exit 3"), 30.0),
        Command("killed", ("sh", "-c", "kill -9 $$"), 30.0),
        Command("absent", ("no-such-program",), 30.0),
        Command("long", ("sleep", "60"), 0.1),
        Command("after", ("true",), 30.0),
    )
    jobs = (
        StageJob("stage", StageKind.CHECKSUM, commands),
        StageJob("next", StageKind.CHECKSUM, (Command("next", ("true",), 30.0),)),
        StageJob("held", StageKind.CHECKSUM, (), needs=("stage",)),
    )
    run, heard = tmp_path / "run-1", list[str]()
    run.mkdir()
    run_job_here(run, run.name, jobs, lambda event: heard.append(event["event"]))
    first, then, held = read_journal(run / "journal.jsonl", jobs, run.name)
    assert [(c.name, c.ended_by, c.exit_code, c.signal) for c in first.commands] == [
        ("good", EndedBy.EXIT, 0, None),
        ("bad", EndedBy.EXIT, 3, None),
        ("killed", EndedBy.SIGNAL, None, 9),
        ("absent", EndedBy.NOT_STARTED, None, None),
        ("long", EndedBy.TIME_LIMIT, None, None),
        ("after", EndedBy.HELD_BACK, None, None),
    ]
    assert [c.exit_code for c in then.commands] == [0]
    assert held.not_run == "needs 'stage', which did not pass"
    assert (heard[0], heard[-1]) == ("run_started", "finished")
    folder = run / "stages/01-stage"
    assert (folder / "good.stdout.log").read_text() == "out\n"
    assert (folder / "good.stderr.log").read_text() == "err\n"
    told = (folder / "good.command").read_text()
    assert told == "env TOLD=err sh -c 'echo out; echo $TOLD >&2'\n"
    assert {p.name for p in run.iterdir()} == {
        *("agent.log", "job.json", "journal.jsonl", "stages"),
    }


_SLEEPER = """
import sys
from pathlib import Path
from kernelrig.model import Command, StageJob, StageKind
from kernelrig.remote import run_job_here
run = Path(sys.argv[1])
script = "sleep 600 & setsid sleep 600 & wait"
jobs = (StageJob("stage", StageKind.CHECKSUM, (Command("sleeps", ("sh", "-c", script), 600.0),)),)
run_job_here(run, run.name, jobs, lambda event: print(event["event"], flush=True))
"""


def test_an_interrupted_client_ends_the_agent_and_all_that_it_started(tmp_path: Path) -> None:
    run = tmp_path / "runs/20261122T120000Z-interrupted"
    run.mkdir(parents=True)
    argv = [sys.executable, "-c", _SLEEPER, str(run)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as client:
        assert client.stdout is not None
        heard = [line.strip() for line in iter(client.stdout.readline, "command_started\n")]
        assert heard == ["run_started", "stage_started"]
        assert marked_processes(run.name) != []
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=30)
    assert marked_processes(run.name) == []
    journal = (run / "journal.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in journal]
    assert events[-1] == "finished"


def test_a_fault_says_what_it_breaks_and_how_it_shows() -> None:
    fault, patch = read_fault(ROOT, "missing-proxy-fence", "sm_100a")
    assert fault.kinds == ("proxy-fence",)
    assert fault.broken.startswith("a box is stored by TMA without fence.proxy.async")
    assert patch == ROOT / "tests/bad/sm100a/missing-proxy-fence.patch"


def project(root: Path) -> Path:
    shutil.copytree(ROOT / "kernel", root / "kernel")
    return root


def test_a_fault_goes_into_a_copy_and_leaves_nothing_behind(tmp_path: Path) -> None:
    root = project(tmp_path)
    name = "sm100a_patch_embed_fp8.cu"
    before = (root / "kernel" / name).read_bytes()
    _, patch = read_fault(ROOT, "missing-dealloc", "sm_100a")
    with broken_tree(root, patch) as tree:
        assert (tree / "kernel" / name).read_bytes() != before
        (tree / "artifacts/builds/made").touch()
    assert (root / "kernel" / name).read_bytes() == before
    assert [p.name for p in sorted((root / "artifacts").iterdir())] == ["builds", "tools"]
    assert (root / "artifacts/builds/made").exists()


def test_a_patch_that_no_longer_applies_is_no_fault(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "kernel/sm100a_patch_embed_fp8.cu").write_text("// another kernel\n")
    patch = ROOT / "tests/bad/sm100a/missing-dealloc.patch"
    with (
        pytest.raises(ConfigError) as error,
        broken_tree(root, patch),
    ):
        pass
    assert str(error.value).startswith("missing-dealloc.patch no longer applies to kernel/: ")
