"""Every task's --json: one document that keeps to the committed schema, of errors as well."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kernelrig import __version__
from kernelrig.cli import document, ns, project
from kernelrig.cli.answer_schema import DESCRIPTIONS, FILE, answer_schema, write_answer_schema
from kernelrig.cli.program import KernelrigProgram
from kernelrig.cli.reply import Reply
from kernelrig.config.schema import SCHEMAS
from kernelrig.dev import lint
from kernelrig.errors import RemoteError
from kernelrig.run import accepted_times
from kernelrig.run.program_report import program_record
from kernelrig.run.program_review import Review

from tests.cpu_project import make_cpu_project
from tests.run.test_program_report import CLEAN, RACE, WARNING, run_of

SCHEMA = json.loads((SCHEMAS / FILE).read_text())
FITS = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
"""Made once: `jsonschema.validate` checks the schema itself each time, which takes 0.3 s."""
KERNEL = ("--kernel", "passes", "--arch", "sm_90a")
Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cpu_project(tmp_path_factory.mktemp("json") / "project")


@pytest.fixture
def ask(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(project, "_chosen", [])

    def typed(*words: str) -> tuple[int, dict[str, Any]]:
        program = KernelrigProgram(__version__, ns, name="kernelrig")
        code = program.exit_code(["kernelrig", "--root", str(root), *words])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        FITS.validate(answer)
        assert answer["exit_code"] == code
        return code, answer

    return typed


def test_the_committed_schema_is_the_one_the_records_make(tmp_path: Path) -> None:
    write_answer_schema(tmp_path)
    assert (SCHEMAS / FILE).read_text() == (tmp_path / FILE).read_text(), (
        "run python -m kernelrig.cli.answer_schema"
    )


def test_the_schema_is_one_and_refuses_what_no_task_answers() -> None:
    FITS.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        FITS.validate({"exit_code": 0})


def test_every_key_of_the_answer_has_a_description() -> None:
    schema = answer_schema()
    for record, definition in {"Answer": schema, **schema["$defs"]}.items():
        assert definition["description"].strip(), record
        held = definition.get("properties", {})
        assert set(held) == set(DESCRIPTIONS.get(record, {})), record


def test_the_list_has_every_task(ask: Ask) -> None:
    for words in (("--list", "--json"), ("--json",)):
        code, answer = ask(*words)
        assert (code, answer["task"], answer["verdict"]) == (0, "list", "pass")
        assert [t["name"] for t in answer["tasks"]] == sorted(ns.task_names)


def test_a_build_is_listed_with_its_folder(ask: Ask) -> None:
    code, answer = ask("build", *KERNEL, "--json")
    (built,) = answer["builds"]
    assert (code, answer["verdict"], built["kernel"]) == (0, "pass", "passes")
    assert Path(built["folder"], "build.json").is_file()
    _, again = ask("--json", "build", *KERNEL)
    assert again["builds"][0]["reused"] is True


def test_a_run_has_its_stages_and_its_folder(ask: Ask, root: Path) -> None:
    plan = ("--remote", "local", "--plan", "quick")
    code, answer = ask("remote-test", "--kernel", "passes", *plan, "--json")
    assert (code, answer["verdict"], answer["error"]) == (0, "pass", None)
    assert [s["verdict"] for s in answer["stages"]] == ["pass"] * len(answer["stages"])
    assert (root / answer["run"]["folder"] / "run.json").is_file()
    assert answer["next_step"].startswith("ci/invoke ")
    assert answer["run"]["id"] in answer["text"]
    code, failed = ask("remote-test", "--kernel", "fails", *plan, "--json")
    assert (code, failed["verdict"]) == (1, "fail")
    _, collected = ask("collect", answer["run"]["id"], "--json")
    assert collected["run"] == answer["run"]


def test_what_is_known_has_its_records(ask: Ask) -> None:
    there = ("--remote", "local", "--plan", "quick")
    ask("remote-test", "--kernel", "passes", *there, "--json")
    code, answer = ask("runs", "--kernel", "passes", "--json")
    assert (code, answer["runs"][0]["kernel"]) == (0, "passes")
    assert ask("show", answer["runs"][0]["id"], "--json")[1]["run"]["kernel"] == "passes"
    assert ask("history", "--json")[1]["trends"] == []
    new = ("new", "a", "--kernel", "passes", "--hypothesis", "h", "--rule", "x > 1")
    code, answer = ask("experiment", *new, "--json")
    (written,) = answer["experiments"]
    assert (code, written["name"], written["title"]) == (0, "a", "a")
    assert ask("experiment", "list", "--json")[1]["experiments"] == [written]


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("build --kernel nope", 2, "unknown kernel 'nope'"),
        ("check --kernel passes", 2, "passes is a CPU program"),
        ("emulate --kernel passes", 2, "passes"),
        ("sass-diff nope nope", 2, "'nope' is neither a folder of a build"),
        ("remote-test --remote nope", 2, "unknown remote 'nope'"),
        ("profile --remote nope", 2, "unknown remote 'nope'"),
        ("bench passes fails --rounds many", 2, "--rounds must be a whole number"),
        ("bench", 2, "bench needs A and B"),
        ("collect nope", 2, "nope"),
        ("baseline-accept nope", 2, "nope"),
        ("show nope", 2, "nope"),
        ("runs --last many", 2, "--last must be a whole number"),
        ("history --metric nope", 2, "no run has observed 'nope'"),
        ("experiment open", 2, "unknown action 'open'"),
        ("clean --remove", 2, "--remove is of --runs"),
        ("clean --runs --remote local", 2, "--runs is about the results here"),
        ("clean --days many", 2, "--days must be a whole number"),
        ("remote-add bad/name user@127.0.0.1:1", 2, "remote 'bad/name' cannot be added"),
        ("biuld", 2, "unknown task 'biuld'"),
        ("build check", 2, "--json shows the answer of one task"),
    ],
)
def test_an_error_is_a_document_too(ask: Ask, typed: str, code: int, said: str) -> None:
    exit_code, answer = ask(*typed.split(), "--json")
    assert (exit_code, answer["verdict"]) == (code, "error")
    assert said in answer["error"]["message"]


def test_a_build_that_fails_names_its_run_directory(ask: Ask, root: Path) -> None:
    source = root / "kernel/cpu_program.cpp"
    text = source.read_text()
    source.write_text(f"{text}\nnonsense\n")
    try:
        code, answer = ask("build", "--kernel", "fails", "--arch", "sm_90a", "--json")
    finally:
        source.write_text(text)
    assert (code, answer["verdict"]) == (3, "error")
    assert "nonsense" in answer["error"]["details"]
    assert (root / answer["error"]["folder"] / "junit.xml").is_file()


def test_tasks_that_make_no_run_answer_with_what_they_found(ask: Ask) -> None:
    _, checked = ask("doctor", "--json")
    assert {"python", "g++", "emulator"} <= {tool["name"] for tool in checked["tools"]}
    _, listed = ask("baselines", "--json")
    assert (listed["baselines"], listed["text"][:12]) == ([], "no baselines")
    _, cleaned = ask("clean", "--json")
    assert cleaned["text"].startswith("freed ")


def test_the_errors_of_an_emulated_program_are_among_the_findings() -> None:
    """Who reads `findings` alone must not take a program with a race for one without."""
    ran = run_of(CLEAN, replace(CLEAN, number=2, findings=(WARNING, RACE)))
    reply = Reply(exit_code=1, program=program_record(ran, "GPU", 4, Review()))
    answer = json.loads(document.reply_document("run", reply))
    FITS.validate(answer)
    (found,) = answer["findings"]
    assert (found["stage"], found["check"]) == ("launch 2", "add")
    assert found["finding"] == answer["program"]["launches"][1]["findings"][1]["finding"]


def test_what_a_task_prints_while_it_works_is_kept_off_stdout(
    ask: Ask, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("test", "--json")[0] == 2  # a project of kernels is not the repository of the rig
    (root / "ci/kernelrig").mkdir()

    def talk(root: Path, *, long: bool) -> int:
        print("12 passed")  # noqa: T201 - what is tested
        return 1

    monkeypatch.setattr(lint, "run_all", talk)
    code, answer = ask("test", "--json")
    assert (code, answer["verdict"]) == (1, "fail")


def test_an_exception_that_was_not_foreseen_is_one_sentence_and_a_report(
    ask: Ask, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(root: Path) -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(accepted_times, "listing", crash)
    code, answer = ask("baselines", "--json")
    (report,) = (root / "artifacts").glob("crash-*.txt")
    assert code == RemoteError.exit_code == 4
    assert answer["error"]["message"] == "kernelrig failed: ZeroDivisionError: by zero"
    assert answer["error"]["hint"] == f"its traceback is in {report}"
