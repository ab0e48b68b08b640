"""The model of GitHub Actions itself, by the rules that its documentation gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflows import actions
from tests.workflows.actions import ActionFailed, Store
from tests.workflows.expressions import Unsupported, evaluate, fill_in
from tests.workflows.runner import Runner, commit

CONTEXTS = {
    "github": {"event_name": "pull_request", "event": {"label": {"name": "gpu"}}},
    "inputs": {"profile": False, "kernel": ""},
}
MakeRunner = Callable[..., Runner]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("github.event.label.name == 'GPU'", True),
        ("github.event.label.name != 'gpu' || inputs.profile", False),
        ("inputs.kernel || 'patch_embed'", "patch_embed"),
        ("inputs.nothing.deeper == null", True),
        ("inputs.kernel == null", True),
        ("inputs.profile == 'false'", False),
        ("!(github.event_name == 'push' && always()) && 'it''s'", "it's"),
        ("1 == true", True),
    ],
)
def test_an_expression_has_the_value_that_github_gives_it(text: str, value: object) -> None:
    assert evaluate(text, CONTEXTS, {"always": lambda: True}) == value


@pytest.mark.parametrize(
    "text", ["matrix.os", "fromJSON('1')", "a[0]", "1 +", "'open", "true true"]
)
def test_an_expression_that_the_model_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        evaluate(text, CONTEXTS, {})


def test_a_text_is_filled_in() -> None:
    text = "ci-${{ github.event.label.name }}-${{ inputs.profile }}${{ inputs.kernel }}"
    assert fill_in(text, CONTEXTS, {}) == "ci-gpu-false"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for name in ("repository", "artifacts", "caches"):
        (tmp_path / name).mkdir()
    return Store(*(tmp_path / name for name in ("repository", "artifacts", "caches")))


@pytest.fixture
def make_runner(store: Store, tmp_path: Path) -> MakeRunner:
    def make(workflow: str, **settings: object) -> Runner:
        (store.repository / "workflow.yml").write_text(workflow)
        commit(store.repository)
        return Runner(tmp_path / "job", store, tmp_path, tmp_path, **settings)  # type: ignore[arg-type]

    return make


def test_an_artifact_loses_modes_and_hidden_files(store: Store, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/tool").write_text("#!/bin/sh\n")
    (tmp_path / "made/tool").chmod(0o755)
    (tmp_path / "made/.hidden").touch()
    actions.upload_artifact({"name": "a", "path": "made"}, tmp_path, store)
    actions.download_artifact({"name": "a", "path": "got"}, tmp_path, store)
    assert [p.name for p in (tmp_path / "got").iterdir()] == ["tool"]
    assert (tmp_path / "got/tool").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["a:b", 'a"b', "a?b", "a\nb", "a|b"])
def test_an_artifact_with_a_name_that_windows_forbids_is_refused(
    store: Store, tmp_path: Path, name: str
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / name).touch()
    with pytest.raises(ActionFailed, match="is not valid"):
        actions.upload_artifact({"name": "a", "path": "made"}, tmp_path, store)


def test_nothing_to_upload_is_an_error_where_the_workflow_says_so(
    store: Store, tmp_path: Path
) -> None:
    inputs = {"name": "a", "path": "nothing", "if-no-files-found": "error"}
    with pytest.raises(ActionFailed, match="no files were found"):
        actions.upload_artifact(inputs, tmp_path, store)


JOBS = """
defaults: {run: {shell: bash}}
env: {WHAT: "${{ inputs.what || 'nothing' }}"}
jobs:
  first:
    environment: vault
    steps:
      - uses: actions/checkout@1
      - run: |
          echo "the secret is $SECRET, what is $WHAT, twice ${SECRET}x"
          echo "::add-mask::hunter2"
          echo hunter2 >&2
          echo "::error file=a.c,line=3,title=a%2C b::it broke"
          echo "# summary" >> "$GITHUB_STEP_SUMMARY"
          mkdir made && echo "$PWD" > made/where
        env: {SECRET: "${{ secrets.SECRET }}"}
      - run: "true | false | true; echo not reached"
      - run: echo not reached either
      - {run: echo cleaned, if: always()}
      - {run: echo why, if: failure()}
      - uses: actions/upload-artifact@1
        if: always()
        with: {name: made, path: made}
  second:
    needs: first
    steps: [{run: echo never}]
"""


def test_a_job_runs_as_on_github(make_runner: MakeRunner, store: Store) -> None:
    runner = make_runner(JOBS, environments={"vault": {"SECRET": "opensesame"}})
    results = runner.run(store.repository / "workflow.yml", "push", {}, {"what": "this"})
    assert list(results) == ["first"]
    job = results["first"]
    assert job.conclusion == "failure"
    assert [step.outcome for step in job.steps] == [
        *("success", "success", "failure", "skipped", "success", "success", "success"),
    ]
    assert sorted(job.log.lines) == [
        "***",
        "cleaned",
        "the secret is ***, what is this, twice ***x",
        "why",
    ]
    assert [(a.level, a.file, a.line, a.title, a.message) for a in job.log.annotations] == [
        ("error", "a.c", 3, "a, b", "it broke"),
        ("error", "", 0, "", "Process completed with exit code 1."),
    ]
    assert job.summary == "# summary\n"
    assert (store.artifacts / "made/where").read_text() == f"{job.workspace}\n"


CACHED = """
defaults: {run: {shell: bash}}
jobs:
  only:
    steps:
      - uses: actions/checkout@1
      - uses: actions/cache@1
        with:
          path: ~/.cache/pip
          key: pip-${{ hashFiles('*.lock') }}
          restore-keys: pip-
      - run: mkdir -p ~/.cache/pip && ls ~/.cache/pip && touch ~/.cache/pip/"$(cat *.lock)"
"""


def test_a_cache_is_kept_by_its_key_and_found_by_a_part_of_it(
    make_runner: MakeRunner, store: Store
) -> None:
    listed: list[list[str]] = []
    for lock in ("one", "one", "two"):
        (store.repository / "a.lock").write_text(lock)
        (store.repository / "note").write_text(str(len(listed)))  # else there is nothing to commit
        runner = make_runner(CACHED)
        (job,) = runner.run(store.repository / "workflow.yml", "push", {}, {}).values()
        listed.append(job.log.lines)
    assert listed == [[], ["one"], ["one"]]
    assert sorted(sorted(p.name for p in cache.iterdir()) for cache in store.caches.iterdir()) == [
        ["one"],
        ["one", "two"],
    ]


DECIDED = """
defaults: {run: {shell: bash}}
jobs:
  first:
    outputs: {wanted: "${{ steps.decision.outputs.wanted }}"}
    steps:
      - uses: actions/checkout@1
      - uses: actions/cache@1
        with: {path: kept/here, key: kept}
      - id: decision
        run: |
          echo wanted="$([ -e kept/here/it ] && echo no || echo yes)" >> "$GITHUB_OUTPUT"
  second:
    needs: first
    if: needs.first.outputs.wanted == 'yes'
    steps:
      - uses: actions/checkout@1
      - uses: actions/cache@1
        with: {path: kept/here, key: kept}
      - run: mkdir -p kept/here && touch kept/here/it
"""


def test_a_job_is_skipped_by_the_output_of_another(make_runner: MakeRunner, store: Store) -> None:
    runner = make_runner(DECIDED)
    for jobs in (["first", "second"], ["first"]):
        assert list(runner.run(store.repository / "workflow.yml", "push", {}, {})) == jobs


CANCELLED = """
defaults: {run: {shell: bash}}
jobs:
  only:
    steps:
      - uses: actions/checkout@1
      - name: works
        run: |
          exec sh -c 'trap "echo interrupted; exit 6" INT; echo ready; while :; do sleep 0.02; done'
      - run: echo not reached
      - {run: echo cleaned, if: always()}
"""


def test_a_cancelled_job_interrupts_the_step_and_runs_what_always_runs(
    make_runner: MakeRunner, store: Store
) -> None:
    runner = make_runner(CANCELLED, cancel_when=lambda log: "ready" in log.lines)
    (job,) = runner.run(store.repository / "workflow.yml", "push", {}, {}).values()
    assert job.conclusion == "cancelled"
    assert job.step("works").exit_code == 6
    assert job.log.lines == ["ready", "interrupted", "cleaned"]


def test_without_exec_the_signals_of_a_cancelled_job_end_the_shell_alone(
    make_runner: MakeRunner, store: Store
) -> None:
    """Why the steps that use a host say `exec`."""
    workflow = CANCELLED.replace("exec sh -c", "sh -c").replace('; exit 6"', '"')
    runner = make_runner(
        workflow + "\n", cancel_when=lambda log: "ready" in log.lines, kill_after_s=(0.2, 0.2)
    )
    (job,) = runner.run(store.repository / "workflow.yml", "push", {}, {}).values()
    assert job.conclusion == "cancelled"
    assert "interrupted" not in job.log.lines
