"""ci/invoke on machines that lack something, and on its way past what is already there.

`python3` here is a small stand-in that makes environments, installs and runs as the real one is
asked to, and writes down each time that pip was called.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kernelrig.proc import Completed, run_process

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ci" / "invoke"
PIP_OUTPUT = Path("ci/kernelrig/build/toolchain/pip_output.py")
LOCKS = Path("ci/kernelrig/locks")
TOOLS = ("sh", "cat", "cksum", "flock", "id", "ls", "mkdir", "cp", "mktemp", "rm", "rmdir", "tail")

PYTHON = """#!/bin/sh
case "$*" in
"-c import sys; sys.exit"*) exit {too_old} ;;
"-c import ensurepip, venv") exit {no_venv} ;;
"-c import pip"*) [ -e "${{0%/*}}/pip" ] ;;
"-c import sys; print"*) echo python3.11-venv ;;
--version) echo "Python 3.11.2" ;;
"-m venv "*)
    [ ! -e "{calls}.interrupt" ] || {{ kill -INT 0; echo "Traceback"; exit 130; }}
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/pip" ;;
"-m pip "*)
    mkdir "{calls}.busy" || echo overlap >>"{calls}"
    case "$*" in *--require-hashes*) echo "$*" >>"{calls}" ;; *) echo "$*" >>"{calls}.own" ;; esac
    if [ -e "{calls}.slow" ]; then
        echo "  Collecting numpy"
        tries=0
        until [ -e "{calls}.ticked" ] || [ $tries = 2000000 ]; do tries=$((tries + 1)); done
    fi
    [ ! -e "{calls}.edit" ] || . "{calls}.edit"
    rmdir "{calls}.busy"
    [ ! -e "{calls}.fail" ] || {{ echo "      ERROR: No matching distribution found for x"
        echo "ERROR: No matching distribution found for x"; exit 1; }} ;;
"-I "*) exec "{real}" "$@" ;;
*) [ ! -e "{calls}.task" ] || . "{calls}.task"; shift && echo "$*" && exit 7 ;;
esac
"""


class Machine:
    """A checkout with ci/invoke and a PATH that holds only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.bin = folder / "bin"
        self.calls = folder / "pip-calls"
        self.bin.mkdir()
        (self.root / "ci").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "ci" / "invoke")
        (self.root / PIP_OUTPUT).parent.mkdir(parents=True)
        shutil.copy(ROOT / PIP_OUTPUT, self.root / PIP_OUTPUT)
        shutil.copytree(ROOT / LOCKS, self.root / LOCKS)
        (self.root / "pyproject.toml").write_text("[project]\n")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def add(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def add_python(self, name: str = "python3", *, too_old: int = 0, no_venv: int = 0) -> None:
        self.add(
            name,
            PYTHON.format(calls=self.calls, real=sys.executable, too_old=too_old, no_venv=no_venv),
        )

    def invoke(
        self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Completed:
        script = self.root / "ci" / "invoke"
        env = {"PATH": str(self.bin), **(env or {})}
        return run_process([script, *words], env=env, cwd=cwd or self.bin)

    @property
    def pip_calls(self) -> list[str]:
        """Return the calls that installed requirements; the project itself follows each."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    @property
    def locks(self) -> list[list[str]]:
        """Return the names of the locks that each call installed."""
        words = [call.split(" --requirement ")[1:] for call in self.pip_calls]
        return [[Path(word).stem for word in call] for call in words]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_python_one_sentence_names_the_command(machine: Machine) -> None:
    done = machine.invoke("doctor")
    assert (done.exit_code, done.stderr) == (
        4,
        "ci/invoke: no python >= 3.11 on PATH (looked for python3.13, python3.12, python3.11, "
        "python3); install one with: sudo apt-get install python3 python3-venv\n",
    )


def test_a_python_that_is_too_old_is_passed_over(machine: Machine) -> None:
    machine.add_python(too_old=1)
    assert "no python >= 3.11 on PATH" in machine.invoke("doctor").stderr
    machine.add_python("python3.12")
    assert machine.invoke("doctor").exit_code == 7


def test_without_the_venv_module_one_sentence_names_the_package(machine: Machine) -> None:
    machine.add_python(no_venv=1)
    done = machine.invoke("doctor")
    assert (done.exit_code, done.stderr) == (
        4,
        "ci/invoke: python3 has no venv module (ensurepip is missing); "
        "install it with: sudo apt-get install python3.11-venv\n",
    )


def test_a_python_with_the_venv_module_is_preferred(machine: Machine) -> None:
    machine.add_python("python3.13", no_venv=1)
    machine.add_python("python3")
    assert machine.invoke("doctor").exit_code == 7


def test_without_a_compiler_a_task_that_compiles_stops_and_others_go_on(machine: Machine) -> None:
    machine.add_python()
    done = machine.invoke("build", "--all")
    assert (done.exit_code, done.stderr) == (
        4,
        "ci/invoke: no g++ on PATH, which nvcc needs to build kernels; "
        "install it with: sudo apt-get install g++\n",
    )
    assert machine.invoke("remote-test", "--build", "artifacts/builds/x").exit_code == 7
    assert machine.invoke("doctor").exit_code == 7


def test_without_git_the_tests_stop_and_a_build_goes_on(machine: Machine) -> None:
    machine.add_python()
    machine.add("g++", "#!/bin/sh\n")
    done = machine.invoke("test")
    assert (done.exit_code, done.stderr) == (
        4,
        "ci/invoke: no git on PATH, and the tests need it; "
        "install it with: sudo apt-get install git\n",
    )
    assert machine.invoke("build").exit_code == 7


@pytest.mark.skipif(os.getuid() != 0, reason="only root installs with apt")
def test_root_on_debian_installs_the_compiler_with_apt(machine: Machine) -> None:
    if not Path("/etc/debian_version").exists():
        pytest.skip("this is no Debian or Ubuntu")
    machine.add_python()
    machine.add("apt-get", f'#!/bin/sh\necho "$*" >>"{machine.calls}.apt"\n')
    done = machine.invoke("build")
    assert done.exit_code == 7
    assert done.stderr.splitlines()[0] == "ci/invoke: installing g++ with apt"
    assert Path(f"{machine.calls}.apt").read_text() == (
        "install -y -q --no-install-recommends g++\n"
    )


def test_arguments_and_exit_code_pass_through_from_any_folder(machine: Machine) -> None:
    machine.add_python()
    done = machine.invoke("doctor", "--name", "two words", "$HOME", cwd=Path("/"))
    assert done.exit_code == 7
    assert done.stdout == f"-m kernelrig --root {machine.root} doctor --name two words $HOME\n"


def test_a_link_to_the_script_finds_the_checkout(machine: Machine, tmp_path: Path) -> None:
    machine.add_python()
    (machine.bin / "readlink").symlink_to(shutil.which("readlink") or "")
    (tmp_path / "kr").symlink_to(machine.root / "ci" / "invoke")
    done = run_process([tmp_path / "kr", "doctor"], env={"PATH": str(machine.bin)})
    assert done.stdout == f"-m kernelrig --root {machine.root} doctor\n"


def test_pip_runs_once_and_again_when_the_project_changes(machine: Machine) -> None:
    machine.add_python()
    first = machine.invoke("doctor")
    assert first.stderr == (
        "ci/invoke: making .venv with Python 3.11.2\n"
        "ci/invoke: installing kernelrig (base) into .venv\n"
    )
    second = machine.invoke("doctor")
    assert second.stderr == ""
    assert len(machine.pip_calls) == 1
    (machine.root / "pyproject.toml").write_text("[project]\nversion = '2'\n")
    assert machine.invoke("doctor").stderr == "ci/invoke: installing kernelrig (base) into .venv\n"
    assert len(machine.pip_calls) == 2
    with (machine.root / LOCKS / "base.txt").open("a") as lock:
        lock.write("# another\n")
    assert machine.invoke("doctor").stderr == "ci/invoke: installing kernelrig (base) into .venv\n"


def test_requirements_are_installed_by_hash_and_nothing_else_is_fetched(machine: Machine) -> None:
    machine.add_python()
    machine.invoke("doctor")
    (requirements,) = machine.pip_calls
    wanted = " --no-deps --require-hashes --only-binary :all: --no-compile --requirement "
    assert wanted in requirements
    (own,) = Path(f"{machine.calls}.own").read_text().splitlines()
    assert own.endswith(f"--no-deps --no-build-isolation --no-index --editable {machine.root}")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, "no prefix"),
        ({"PYTHONDONTWRITEBYTECODE": "1"}, "{venv}/bytecode"),
        ({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/elsewhere"}, "/elsewhere"),
    ],
)
def test_what_python_compiles_is_kept_beside_no_source_where_that_is_not_wanted(
    machine: Machine, given: Mapping[str, str], kept: str
) -> None:
    machine.add_python()
    shows = "echo ${PYTHONDONTWRITEBYTECODE-kept} ${PYTHONPYCACHEPREFIX-no prefix}"
    Path(f"{machine.calls}.task").write_text(shows)
    shown = machine.invoke("doctor", env=given).stdout.splitlines()[0]
    assert shown == f"kept {kept.format(venv=machine.root / '.venv')}"


def test_only_the_tests_get_what_only_they_need(machine: Machine) -> None:
    machine.add_python()
    for tool in ("g++", "git"):
        machine.add(tool, "#!/bin/sh\n")
    machine.invoke("doctor")
    machine.invoke("test")
    machine.invoke("doctor")
    machine.invoke("test")
    assert machine.locks == [["build", "base"], ["build", "base", "dev"]]


@pytest.mark.limit(30)
def test_the_core_compiles_while_pip_installs(machine: Machine) -> None:
    machine.add_python()
    machine.add("git", "#!/bin/sh\n")
    machine.add("g++", "#!/bin/sh\nexit 1\n")
    build = machine.root / "ci/kernelrig/emu/native/core_build.py"
    build.parent.mkdir(parents=True)
    for package in build.parents[:3]:
        (package / "__init__.py").touch()
    build.write_text(
        "def build(folder):\n"
        f"    with open({str(machine.calls)!r} + '.core', 'w') as told:\n"
        "        told.write(str(folder))\n"
    )
    told = Path(f"{machine.calls}.core")
    os.mkfifo(told)
    # pip goes on when the core's compiler has been started: one after the other, it would not end.
    Path(f"{machine.calls}.edit").write_text(
        f'[ ! -p "{told}" ] || {{ cat "{told}" >"{told}.seen"; rm "{told}"; }}'
    )
    machine.invoke("test")
    assert Path(f"{told}.seen").read_text() == str(machine.root / "artifacts" / "native")


def test_the_tests_install_again_into_an_environment_of_an_older_pyproject(
    machine: Machine,
) -> None:
    machine.add_python()
    for tool in ("g++", "git"):
        machine.add(tool, "#!/bin/sh\n")
    machine.invoke("test")
    project = machine.root / "pyproject.toml"
    project.write_text("[project]\nversion = '2'\n")
    machine.invoke("doctor")  # brings only the base up to date
    done = machine.invoke("test")
    assert done.stderr == "ci/invoke: installing kernelrig (dev) into .venv\n"
    assert machine.invoke("test").stderr == ""
    base, dev = ["build", "base"], ["build", "base", "dev"]
    assert machine.locks == [dev, base, dev]


def test_an_edit_of_pyproject_while_pip_installs_makes_the_next_call_install(
    machine: Machine,
) -> None:
    machine.add_python()
    project = machine.root / "pyproject.toml"
    Path(f"{machine.calls}.edit").write_text(f"echo version >>'{project}'\n")
    machine.invoke("doctor")
    Path(f"{machine.calls}.edit").unlink()
    machine.invoke("doctor")
    machine.invoke("doctor")
    assert len(machine.pip_calls) == 2


def test_an_environment_that_others_made_is_installed_into(machine: Machine) -> None:
    machine.add_python()
    machine.invoke("doctor")
    for stamp in (machine.root / ".venv").glob(".kernelrig-*"):
        stamp.unlink()
    marker = machine.root / ".venv" / "was here"
    marker.touch()
    assert machine.invoke("doctor").exit_code == 7
    assert len(machine.pip_calls) == 2
    assert marker.exists()


def test_a_checkout_that_was_moved_gets_a_new_environment(machine: Machine, tmp_path: Path) -> None:
    machine.add_python()
    machine.invoke("doctor")
    machine.root = machine.root.rename(tmp_path / "moved")
    done = machine.invoke("doctor")
    assert done.stderr.splitlines()[0] == "ci/invoke: making .venv with Python 3.11.2"
    assert done.exit_code == 7


def test_a_failing_pip_is_shown_and_the_next_call_starts_over(machine: Machine) -> None:
    machine.add_python()
    failing = Path(f"{machine.calls}.fail")
    failing.touch()
    done = machine.invoke("doctor")
    assert done.exit_code == 4
    assert done.stderr.splitlines()[2:] == [
        "ci/invoke: pip could not install kernelrig into .venv (exit 1, full output: "
        ".venv/pip.log): No matching distribution found for x; it needs the package index, or a "
        "folder of wheels (README.md says how to fill one): "
        "PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR ci/invoke ...",
    ]
    failing.unlink()
    half_made = machine.root / ".venv" / "half made"
    half_made.touch()
    again = machine.invoke("doctor")
    assert again.exit_code == 7
    assert again.stderr.splitlines()[0] == "ci/invoke: making .venv with Python 3.11.2"
    assert not half_made.exists()


def test_calls_at_the_same_time_install_once(machine: Machine) -> None:
    machine.add_python()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: machine.invoke("doctor"), range(4)))
    assert [d.exit_code for d in done] == [7, 7, 7, 7]
    assert len(machine.pip_calls) == 1


def test_a_question_installs_nothing_that_only_its_task_needs(machine: Machine) -> None:
    machine.add_python()
    assert machine.invoke("--help", "test").exit_code == 7
    assert machine.invoke("build", "--help").exit_code == 7
    assert machine.locks == [["build", "base"]]


def test_a_dry_run_asks_for_the_compiler_that_its_run_needs(machine: Machine) -> None:
    machine.add_python()
    done = machine.invoke("remote-test", "--dry-run")
    assert done.exit_code == 4
    assert done.stderr.startswith("ci/invoke: no g++ on PATH, which nvcc needs")


def test_a_long_installation_says_how_long_it_takes_and_what_it_does(machine: Machine) -> None:
    machine.add_python()
    # A second passes at once, and the installation lasts for 16 of them.
    ticks = f"{machine.calls}.ticks"
    machine.add(
        "sleep",
        f'#!/bin/sh\necho >>"{ticks}"\n'
        f'[ "$(cat "{ticks}" | wc -l)" -lt 17 ] || : >"{machine.calls}.ticked"\n',
    )
    (machine.bin / "wc").symlink_to(shutil.which("wc") or "")
    Path(f"{machine.calls}.slow").touch()
    done = machine.invoke("doctor")
    assert done.exit_code == 7
    lines = done.stderr.splitlines()
    assert "ci/invoke: installing kernelrig (base) into .venv: 15 s  Collecting numpy" in lines


def test_completion_makes_no_environment_and_says_nothing(machine: Machine) -> None:
    machine.add_python()
    done = machine.invoke("--complete", "--", "bui")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert not (machine.root / ".venv").exists()
    assert machine.pip_calls == []
    machine.invoke("doctor")
    done = machine.invoke("--complete", "--", "build", "--ker")  # there is no compiler either
    assert (done.exit_code, done.stderr) == (7, "")
    assert done.stdout == f"-m kernelrig --root {machine.root} --complete -- build --ker\n"


def test_ctrl_c_while_the_environment_is_made_is_one_sentence(machine: Machine) -> None:
    machine.add_python()
    interrupt = Path(f"{machine.calls}.interrupt")
    interrupt.touch()
    done = machine.invoke("doctor")
    assert (done.exit_code, done.stderr.splitlines()) == (
        6,
        [
            "ci/invoke: making .venv with Python 3.11.2",
            "ci/invoke: interrupted while making .venv; the next call makes it again",
        ],
    )
    interrupt.unlink()
    assert machine.invoke("doctor").exit_code == 7
