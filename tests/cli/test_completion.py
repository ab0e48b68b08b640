"""What the tab key offers, asked as bash asks."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from kernelrig.cli.completion import SCRIPTS
from kernelrig.proc import run_process

from tests.cpu_project import make_cpu_project


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, with the command beside it under the name that the script completes."""
    root = make_cpu_project(tmp_path_factory.mktemp("completion") / "project")
    (root / "artifacts/runs/20261122T100334Z-passes-local-12ab").mkdir(parents=True)
    (root / "kernel/experiments").mkdir()
    (root / "kernel/experiments/tried-it.md").touch()
    command = root.parent / "bin" / "kernelrig"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m kernelrig "$@"\n')
    command.chmod(0o755)
    printed = run_process([command, "--print-completion-script", "bash"])
    assert (printed.exit_code, printed.stderr) == (0, "")
    (command.parent / "completion").write_text(printed.stdout)
    return root


def press_tab(root: Path, *words: str) -> list[str]:
    """Return what bash's own completion function offers for the last of `words`."""
    script = """
        PATH="$1:$PATH"
        source "$1/completion"
        shift
        COMP_WORDS=(kernelrig "$@")
        COMP_CWORD=$#
        _kernelrig_complete
        complete -p kernelrig ci/invoke >/dev/null || exit 1
        (( ${#COMPREPLY[@]} )) && printf '%s\\n' "${COMPREPLY[@]}"
        exit 0
    """
    done = run_process(["bash", "-c", script, "bash", root.parent / "bin", *words], cwd=root)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("bui", ["build"]),
        ("remote-", ["remote-add", "remote-test"]),
        ("build --al", ["--all"]),
        ("--vers", ["--version"]),
        ("build --kernel says", ["says_the_wrong_thing"]),
        ("build --kernel = says", ["says_the_wrong_thing"]),
        ("build --kernel=says", ["--kernel=says_the_wrong_thing"]),
        ("remote-test --plan gua", ["guarded"]),
        ("remote_test --remote lo", ["local"]),
        ("build --arch sm_1", ["sm_100a"]),
        ("build --all --var", ["--variant"]),
        ("collect 2026", ["20261122T100334Z-passes-local-12ab"]),
        ("experiment cl", ["close"]),
        ("experiment close tri", ["tried-it"]),
        ("experiment close x --result 2026", ["20261122T100334Z-passes-local-12ab"]),
        ("build --xyzzy", []),
        ("remote-add name user@host --identity-file ~/.ss", []),
    ],
)
def test_tab_offers_tasks_flags_and_the_names_of_the_project(
    root: Path, typed: str, offered: list[str]
) -> None:
    assert press_tab(root, *typed.split()) == offered


def test_an_empty_word_offers_every_task_or_every_value(root: Path) -> None:
    tasks = press_tab(root, "")
    assert {"build", "check", "remote-test"} <= set(tasks)
    assert "local" in press_tab(root, "remote-test", "--remote", "")


def test_a_file_that_is_wrong_offers_nothing_and_says_nothing(root: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "project"
    (wrong / "kernel").mkdir(parents=True)
    (wrong / "kernel/kernels.yaml").write_text("schema: [")
    (tmp_path / "bin").symlink_to(root.parent / "bin")
    assert press_tab(wrong, "build", "--kernel", "") == []


def test_the_shells_are_named_to_who_asks_for_another(root: Path) -> None:
    done = run_process([root.parent / "bin/kernelrig", "--print-completion-script", "fish"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "--print-completion-script takes bash or zsh, not 'fish'\n"
    assert set(SCRIPTS) == {"bash", "zsh"}
