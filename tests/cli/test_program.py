"""The command line as it is typed: names, mistakes and their nearest match, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernelrig import __version__
from kernelrig.cli import ns, project
from kernelrig.cli.program import KernelrigProgram
from kernelrig.cli.usage import spread_words
from kernelrig.proc import run_process

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-m", "kernelrig"]
BENCH = next(context for context in ns.to_contexts() if context.name == "bench")


@pytest.fixture(autouse=True)
def _no_root_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_chosen", [])


def run(*words: str) -> int:
    program = KernelrigProgram(__version__, ns, name="kernelrig", binary="kernelrig")
    return program.exit_code(["kernelrig", *words])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("biuld", "unknown task 'biuld'; did you mean 'build'?"),
        ("remote-tset", "unknown task 'remote-tset'; did you mean 'remote-test'?"),
        ("xyzzy", "unknown task 'xyzzy'; `ci/invoke --list` names all"),
        ("watch prog.cu", "watch takes no file, and 'prog.cu' is no task; see `ci/invoke watch"
         " --help`; a program without a project: `ci/invoke run FILE`"),
        ("--help biuld", "unknown task 'biuld'; did you mean 'build'?"),
        ("build --kernal x", "unknown flag '--kernal' of build; did you mean '--kernel'?"),
        ("clean --dais 3", "unknown flag '--dais' of clean; did you mean '--days'?"),
        ("build --xyzzy", "unknown flag '--xyzzy' of build; see `ci/invoke build --help`"),
        ("--hlep", "unknown flag '--hlep'; did you mean '--help'?"),
        ("bench", "bench needs A and B; see `ci/invoke bench --help`"),
        ("bench A", "bench needs B; see `ci/invoke bench --help`"),
        ("collect", "collect needs RUN; see `ci/invoke collect --help`; `ci/invoke runs`"
         " lists them"),
        ("attach", "attach needs RUN; see `ci/invoke attach --help`; `ci/invoke runs`"
         " lists them"),
        ("remote_add", "remote_add needs NAME and TARGET; see `ci/invoke remote_add --help`"),
        ("build --kernel", "--kernel needs a value"),
        ("doctor --nope", "unknown flag '--nope' of doctor; see `ci/invoke doctor --help`"),
        ("clean --days 3 --days 4", "--days is given twice; give it once"),
        ("build --kernel=a --kernel=b", "--kernel is given twice; give it once"),
        ("build --all=yes", "--all takes no value, not 'yes'"),
        ("build --json=yes", "--json takes no value, not 'yes'"),
        ("bench A B --samples 0", "--samples must be from 1 to 100000, not 0"),
        ("bench A B --minutes 0", "--minutes must be more than 0 and at most 1440"),
        ("emulate --module k.ptx", "--module is the PTX of a launch file; pass --launch FILE too"),
        ("emulate --observe ,", "--observe must be names separated by commas, not ','"),
        ("remote-test --only ,", "--only must be names separated by commas, not ','"),
        ("emulate --launch l --case full", "--launch emulates one launch file: it takes no --case"),
        ("emulate --seed 12345678", "--seed must be a whole number from 0 to 9999999, "
         "not '12345678'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_the_nearest_name_and_exit_2(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*typed.split()) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{said}\n")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--build=a\0b", "an argument holds a control character: '--build=a\\x00b'"),
        ("--kernel=a\nb", "an argument holds a control character: '--kernel=a\\nb'"),
        ("--only=\x1b[31m", "an argument holds a control character: '--only=\\x1b[31m'"),
        (
            f"--remote={'x' * 10000}",
            f"an argument is too long: --remote={'x' * 31}...;"
            " it may have 4096 bytes, and a name in it 255",
        ),
        (
            f"--build=/{'y' * 256}",
            f"an argument is too long: --build=/{'y' * 31}...;"
            " it may have 4096 bytes, and a name in it 255",
        ),
    ],
)
def test_a_word_that_no_file_or_process_can_be_called_is_refused_first(
    capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert run("remote-test", word) == 2
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.parametrize(
    ("words", "of"),
    [
        (("--require-device", ""), "--require-device"),
        (("--require-device=",), "--require-device"),
        (("--gate", ""), "--gate"),
        (("--remote", ""), "--remote"),
        (("--only=",), "--only"),
        (("",), "an argument"),
    ],
)
def test_a_value_that_a_scripts_variable_left_empty_does_not_take_the_flag_away(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], of: str
) -> None:
    assert run("remote-test", "--kernel", "patch_embed", *words) == 2
    assert capsys.readouterr().err == (
        f"{of} has an empty value; leave it out, or set the variable that it is from\n"
    )


def test_a_task_may_be_typed_with_underscores(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--root", str(ROOT), "remote_test", "--gate", "much") == 2
    assert capsys.readouterr().err == "--gate must be a number from 0 to 9999999, not 'much'\n"


@pytest.mark.parametrize("words", [(), ("--list",)])
def test_the_bare_command_lists_the_tasks(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 0
    listed = capsys.readouterr().out
    for name in ns.task_names:
        assert f"\n  {name} " in listed


def test_help_of_a_task_explains_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help", "clean") == 0
    shown = capsys.readouterr().out
    assert "Prune old builds here" in shown
    assert "keep what is younger; default: 14" in shown
    assert run("bench", "--help") == 0
    assert capsys.readouterr().out.startswith("Usage: kernelrig bench A B [--flags]\n")


def test_the_version_is_that_of_kernelrig(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"kernelrig {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bench A B", "bench A B"),
        ("bench A B C D", "bench A B --also C --also D"),
        ("bench A B C --remote R", "bench A B --also C --remote R"),
        ("bench --force A --remote R B C", "bench --force A --remote R B --also C"),
        ("bench A B --gate=1 C", "bench A B --gate=1 --also C"),
        ("bench A B --also C", "bench A B --also C"),
        ("build --all", "build --all"),
    ],
)
def test_bench_takes_as_many_builds_as_are_named(typed: str, meant: str) -> None:
    assert spread_words(typed.split(), BENCH, "--also") == meant.split()


def test_a_third_build_reaches_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").touch()
    words = ("bench", str(tmp_path), str(tmp_path), str(tmp_path))
    assert run("--root", str(tmp_path), *words) == 2
    assert capsys.readouterr().err == "bench compares builds, or two recorded runs; name two runs\n"


@pytest.mark.parametrize("flag", ["--gate=2", "--remote=R", "--rounds=9", "--minutes=1"])
def test_a_flag_that_two_recorded_runs_cannot_follow_is_refused(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that gates nothing would pass."""
    (tmp_path / "run.json").touch()
    assert run("--root", str(tmp_path), "bench", str(tmp_path), str(tmp_path), flag) == 2
    name = flag.partition("=")[0]
    said = f"bench of two runs measures and decides nothing: it takes no {name}; "
    assert capsys.readouterr().err.startswith(said)


def test_the_project_is_the_nearest_folder_upward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "kernel" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "kernel" / "kernels.yaml").touch()
    monkeypatch.chdir(below)
    assert project.project_root() == tmp_path


def test_the_root_may_stand_before_or_after_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("--root", str(tmp_path), "baselines"), ("baselines", f"--root={tmp_path}")):
        assert run(*words) == 0
        assert capsys.readouterr().out.startswith("no baselines in ")
    assert run("--root", str(tmp_path / "nowhere"), "baselines") == 2
    assert capsys.readouterr().err == f"--root: no folder {tmp_path / 'nowhere'}\n"


def test_outside_a_project_one_sentence_says_what_a_project_is(tmp_path: Path) -> None:
    if any((folder / marker).exists() for folder in tmp_path.parents for marker in project.MARKERS):
        pytest.skip("the folder for temporary files lies in a project")
    done = run_process([*COMMAND, "baselines"], cwd=tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"no project in {tmp_path} or above it: no folder there has kernel/kernels.yaml, "
        "remotes.yaml, tasks.py; go to the folder of a project, make this one with"
        " `kernelrig init`, or pass `kernelrig --root DIR TASK`\n"
    )
    assert run_process([*COMMAND, "--list"], cwd=tmp_path).exit_code == 0


def test_a_module_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "invoke.py").write_text("raise SystemExit('the wrong module was imported')\n")
    done = run_process([*COMMAND, "--version"], cwd=tmp_path)
    assert (done.exit_code, done.stdout) == (0, f"kernelrig {__version__}\n")


def test_a_reader_of_stdout_that_has_gone_is_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "--list"], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (4, b"")
