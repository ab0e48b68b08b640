"""What the user chooses, and what is said where there is no such choice; no host is touched."""

from __future__ import annotations

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Project, run_words


def test_without_a_remote_the_remotes_are_named(project: Project) -> None:
    answer = project.invoke("remote-test", "--kernel", "passes")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences == [
        "no remote was named; remotes: host, local;"
        " pass --remote NAME, or add one with `ci/invoke remote-add NAME USER@HOST`"
    ]


def test_an_unknown_stage_is_refused_with_the_known_ones(project: Project) -> None:
    answer = project.test("passes", "quick", "--only", "program,timing")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences == [
        "unknown stage 'timing' of plan quick; known: after (exit status), again (exit status),"
        " preflight, program (exit status)"
    ]
    assert project.runs() == []


def test_a_plan_with_nothing_for_this_kernel_is_refused(project: Project) -> None:
    answer = project.invoke("profile", "--remote", "host", "--kernel", "passes")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences == [
        "plan profile has no stage to run: passes is a CPU program (cuda: false)"
    ]
    assert project.runs() == []


def test_a_dry_run_prints_the_plan_and_touches_no_host(
    project: Project, host: LoopbackHost
) -> None:
    words = (*run_words("waits", "quick"), "--only", "again", "--dry-run")
    head = (
        "plan quick on host (ssh, device gpu, sm_90a)\n"
        "minutes: unknown, no earlier run there asked the same\n"
        " 1 build: build, judged here from the sources\n"
        " 2 preflight: preflight, judged here from the probe\n"
        " 3 again: exit status, needs preflight; at most output 1 MB, disk 8 MB\n"
    )
    store = project.root / "artifacts/builds"
    shared = store.readlink()
    store.unlink()
    answer = project.invoke(*words)
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.stdout == f"{head}commands: shown once everything is built\n"
    assert not store.exists()  # nothing was compiled

    store.symlink_to(shared)
    assert project.invoke("build", "--kernel", "waits", "--arch", "sm_90a").exit_code == 0
    answer = project.invoke(*words)
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.stdout == (
        f"{head}     program (3 s): ../../build/cpu_program"
        f" --say before --wait-for ../../../../go --say after\n"
    )
    assert not host.workdir.exists()
    assert project.runs() == []
