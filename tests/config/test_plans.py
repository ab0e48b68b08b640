"""Mistakes in plans come back with file, line and what is allowed."""

from __future__ import annotations

from kernelrig import config
from kernelrig.model import Pattern, Plan, Stage, StageKind

from tests.config.projects import Project, mistakes


def plan_mistakes(project: Project, stages: str) -> list[str]:
    root = project("ci/plans/mine.yaml", f"schema: 1\nstages:\n{stages}")
    return mistakes(lambda: config.load_plan(root, "mine"))


def test_a_plan_takes_its_name_from_its_file(project: Project) -> None:
    root = project(
        "ci/plans/mine.yaml",
        "schema: 1\nstages:\n"
        "  - {name: pre, kind: preflight}\n"
        "  - {name: sum, kind: checksum, needs: [pre], patterns: [integer], time_s: 2}\n",
    )
    assert config.load_plan(root, "mine") == Plan(
        "mine",
        (
            Stage("pre", StageKind.PREFLIGHT),
            Stage(
                "sum",
                StageKind.CHECKSUM,
                needs=("pre",),
                patterns=(Pattern.INTEGER,),
                time_s=2.0,
            ),
        ),
    )


def test_every_mistake_of_a_plan_is_reported_at_once(project: Project) -> None:
    stages = """\
  - {name: pre, kind: preflight}
  - {name: smoke, kind: checksum, needs: [pre, smke, race]}
  - {name: smoke, kind: checksum, patterns: [integer, rndom]}
  - {name: race, kind: sanitizer, needs: [smoke]}
  - {kind: timing, tool: memchek}
  - {name: time, kind: timing, tool: memcheck, needs: [rase], time_s: 0}
  - {name: time, kind: timing}
"""
    assert plan_mistakes(project, stages) == [
        "ci/plans/mine.yaml:4: 'smoke' needs 'race', which is not an earlier stage; "
        "earlier stages: pre",
        "ci/plans/mine.yaml:4: 'smoke' needs 'smke', which is not an earlier stage; "
        "earlier stages: pre",
        "ci/plans/mine.yaml:5: item 2 of 'patterns' must be one of constant, integer, random, "
        "not 'rndom'; did you mean 'random'?",
        "ci/plans/mine.yaml:6: missing key 'tool' in stage 'race'; a sanitizer stage needs it",
        "ci/plans/mine.yaml:7: 'tool' must be one of memcheck, racecheck, initcheck, synccheck, "
        "not 'memchek'; did you mean 'memcheck'?",
        "ci/plans/mine.yaml:7: missing key 'name' in item 5 of 'stages'",
        "ci/plans/mine.yaml:8: 'time' needs 'rase', which is not an earlier stage; "
        "earlier stages: pre, smoke, race; did you mean 'race'?",
        "ci/plans/mine.yaml:8: 'time_s' must be more than 0, not 0",
        "ci/plans/mine.yaml:8: a timing stage takes no 'tool'",
        "ci/plans/mine.yaml:9: duplicate stage 'time'; first on line 8",
    ]


def test_a_stage_that_a_host_could_only_refuse_is_refused_before(project: Project) -> None:
    stages = """
  - {name: seeded, kind: checksum, patterns: [integer], seeds: [-1]}
  - {name: lone, kind: timing, samples: 1}
"""
    assert plan_mistakes(project, stages) == [
        "ci/plans/mine.yaml:4: a seed is a whole number from 0 on, not -1",
        "ci/plans/mine.yaml:5: a timing stage needs 2 'samples' at least:"
        " without another no launch is checked",
    ]


def test_a_thing_named_twice_or_not_at_all_is_a_mistake(project: Project) -> None:
    """Two commands of one name would write over each other's results."""
    stages = """\
  - {name: pre, kind: preflight}
  - {name: sum, kind: checksum, patterns: [integer, random, integer], needs: [pre, pre]}
  - {name: again, kind: checksum, patterns: [integer], seeds: [1, 1]}
  - {name: never, kind: checksum, patterns: [integer], seeds: []}
"""
    assert plan_mistakes(project, stages) == [
        "ci/plans/mine.yaml:4: 'needs' of 'sum' names pre 2 times",
        "ci/plans/mine.yaml:4: 'patterns' of 'sum' names integer 2 times",
        "ci/plans/mine.yaml:5: 'seeds' of 'again' names 1 2 times",
        "ci/plans/mine.yaml:6: 'seeds' of 'never' is empty; it needs one at least",
    ]


def test_a_stage_that_runs_no_program_takes_no_variant(project: Project) -> None:
    stages = """\
  - {name: pre, kind: preflight, variant: guard}
  - {name: guard, kind: checksum, patterns: [integer], variant: guard}
"""
    assert plan_mistakes(project, stages) == [
        "ci/plans/mine.yaml:3: a preflight stage runs no program: no 'variant'",
    ]


def test_a_plan_without_stages_is_refused(project: Project) -> None:
    root = project("ci/plans/mine.yaml", "schema: 1\nstages: []\n")
    assert mistakes(lambda: config.load_plan(root, "mine")) == [
        "ci/plans/mine.yaml:2: 'stages' is empty; it needs one at least"
    ]


def test_an_unknown_plan_is_answered_with_the_known_ones(project: Project) -> None:
    root = project("ci/plans/defect.yaml", "")
    (line,) = mistakes(lambda: config.load_plan(root, "defekt"))
    assert line.startswith("unknown plan 'defekt'; plans: ")
    assert line.endswith("; did you mean 'defect'?")


def test_a_plan_of_the_project_comes_before_the_package_s_own(project: Project) -> None:
    text = "schema: 1\nstages:\n  - {name: only, kind: preflight}\n"
    root = project("ci/plans/default.yaml", text)
    assert config.load_plan(root, "default").stages == (Stage("only", StageKind.PREFLIGHT),)
