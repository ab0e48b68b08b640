"""The committed locks: they satisfy pyproject.toml, are complete, and are what is installed here.

Nothing of it needs the index: what a package depends on is in its metadata in this environment.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pip
import pytest
from kernelrig.build.toolchain.requirements import OWN_LOCKS, Locked, read_lock
from kernelrig.proc import run_process
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.wheels import sha256, write_lock, write_wheel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13")
STALE = "write the locks anew: python -m kernelrig.dev.lock"


def locked(*names: str) -> dict[str, Locked]:
    every = [entry for name in names for entry in read_lock(OWN_LOCKS / f"{name}.txt")]
    found: dict[str, Locked] = {
        canonicalize_name(entry.pin.partition("==")[0]): entry for entry in every
    }
    assert len(found) == len(every), f"two entries of one package in {names}"
    return found


def pinned(entry: Locked) -> str:
    return entry.pin.partition("==")[2]


def needed(wanted: Iterable[str], python: str) -> dict[str, list[Requirement]]:
    """Return what `wanted` needs in the end, by name: the requirements that ask for it."""
    found: dict[str, list[Requirement]] = {}
    todo = [(Requirement(text), "") for text in wanted]
    seen = set()
    while todo:
        requirement, extra = todo.pop()
        environment = {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "extra": extra,
        }
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        name = canonicalize_name(requirement.name)
        found.setdefault(name, []).append(requirement)
        for extra_of_it in ("", *requirement.extras):
            if (name, extra_of_it) not in seen:
                seen.add((name, extra_of_it))
                todo += [(Requirement(text), extra_of_it) for text in _dependencies(name)]
    return found


def _dependencies(name: str) -> Iterator[str]:
    try:
        yield from requires(name) or ()
    except PackageNotFoundError:  # of another Python than this one, or of a build
        return


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    ("locks", "wanted"),
    [
        (["build"], PROJECT["build-system"]["requires"]),
        (["base"], BASE),
        (["base", "dev"], [*BASE, *EXTRAS["dev"]]),
    ],
    ids=lambda value: "+".join(value) if len(value) < 3 else "",
)
def test_a_lock_has_what_is_needed_in_versions_that_fit_and_no_more(
    locks: list[str], wanted: list[str], python: str
) -> None:
    entries = locked(*locks)
    found = needed(wanted, python)
    assert set(found) == set(entries), STALE
    unfit = [
        f"{requirement} and {entries[name].pin}"
        for name, requirements in found.items()
        for requirement in requirements
        if not requirement.specifier.contains(pinned(entries[name]), prereleases=True)
    ]
    assert unfit == [], STALE


@pytest.mark.parametrize("extra", ["cuda", "cublas", "curand", "sanitizer"])
def test_the_tools_are_locked_as_pyproject_pins_them(extra: str) -> None:
    assert sorted(e.pin for e in locked(extra).values()) == sorted(EXTRAS[extra]), STALE


def test_there_is_a_lock_for_each_extra_and_no_other_file() -> None:
    assert {p.name for p in OWN_LOCKS.iterdir()} == {
        f"{name}.txt" for name in ("build", "base", *EXTRAS)
    }


def test_what_is_installed_here_is_what_is_locked() -> None:
    entries = locked("base", "dev")
    assert {name: version(name) for name in entries} == {
        name: pinned(entry) for name, entry in entries.items()
    }, "this environment was not made by ci/invoke"


def test_locks_name_no_address() -> None:
    for path in OWN_LOCKS.glob("*.txt"):
        assert not re.search(r"://|--index|--find-links|-i ", path.read_text()), path.name


BACKEND = """
import zipfile

INFO = {
    "METADATA": "Metadata-Version: 2.1\\nName: kernelrig\\nVersion: 1.0\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "",
}

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "kernelrig-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("kernelrig.py", "import some_tool, sys; sys.exit(some_tool.exit_code)")
        for file, text in INFO.items():
            wheel.writestr(f"kernelrig-1.0.dist-info/{file}", text)
    return name
"""

PIP = Path(pip.__file__).parent
PYTHON = f"""#!/bin/sh
# As `python -m venv`, with this environment's pip copied: to unpack ensurepip's takes 4 s.
[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"
{sys.executable} -m venv --without-pip "$3" && cp -r {PIP} "$3"/lib/python*/site-packages
"""


def test_ci_invoke_installs_offline_and_refuses_a_wheel_with_another_hash(tmp_path: Path) -> None:
    """Everything is real here but the project, which is one file, and its one dependency."""
    root, wheels = tmp_path / "checkout", tmp_path / "wheels"
    own = Path("ci/kernelrig/build/toolchain/pip_output.py")
    (root / own).parent.mkdir(parents=True)
    for file in (Path("ci/invoke"), own):
        shutil.copy(ROOT / file, root / file)
    (root / "backend.py").write_text(BACKEND)
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "kernelrig"\nversion = "1.0"\n'
    )
    locks = root / "ci/kernelrig/locks"
    wheel = write_wheel(wheels, "some_tool", {"some_tool.py": b"exit_code = 7\n"})
    write_lock(
        locks,
        build=write_wheel(wheels, "some_backend", {"some_backend.py": b""}),
        base=wheel,
        dev=write_wheel(wheels, "some_check", {"some_check.py": b""}),
    )
    (tmp_path / "bin").mkdir()
    for name in ("python3.13", "python3.12", "python3.11"):
        (tmp_path / "bin" / name).write_text(PYTHON)
        (tmp_path / "bin" / name).chmod(0o755)
    env = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "HOME": str(tmp_path),
    }
    done = run_process([root / "ci/invoke", "doctor"], env=env, timeout_s=120)
    assert done.exit_code == 7, done.stderr

    newer = write_wheel(wheels, "some_tool", {"some_tool.py": b"exit_code = 0\n"}, version="1.1")
    write_lock(locks, base="some-tool==1.1")
    done = run_process([root / "ci/invoke", "doctor"], env=env, timeout_s=120)
    assert done.exit_code == 4
    assert done.stderr.splitlines()[1:] == [
        "ci/invoke: pip could not install kernelrig into .venv (exit 1, full output: "
        ".venv/pip.log): some-tool==1.1 was refused: sha256 of some_tool-1.1-py3-none-any.whl is "
        f"{sha256(newer)}, not {'0' * 64}"
    ]

    for lock in locks.glob("*.txt"):
        lock.write_text(re.sub(r" \\\n +--hash.*", "", lock.read_text()))
    done = run_process([root / "ci/invoke", "doctor"], env=env, timeout_s=120)
    assert done.exit_code == 4
    assert "Hashes are required in --require-hashes mode" in done.stderr


def test_the_documented_line_for_a_folder_of_wheels_names_locks_that_exist(tmp_path: Path) -> None:
    (line,) = re.findall(r"`(for lock in .*? done)`", (ROOT / "ci/docs/install.md").read_text())
    documented_pip = tmp_path / ".venv/bin/pip"
    documented_pip.parent.mkdir(parents=True)
    documented_pip.write_text('#!/bin/sh\necho "$*"\n')
    documented_pip.chmod(0o755)
    done = run_process(["sh", "-c", line], cwd=tmp_path)
    calls = [call.split() for call in done.stdout.splitlines()]
    assert [call[:-1] for call in calls] == [["download", "--no-deps", "-d", "../wheels", "-r"]] * 5
    named = [ROOT / call[-1] for call in calls]
    locks = ("build", "base", "cuda", "cupti", "sanitizer")
    assert named == [OWN_LOCKS / f"{name}.txt" for name in locks]


def test_what_is_installed_beside_the_tests_has_the_same_pins() -> None:
    dev, engines = locked("base", "dev"), locked("base", "engines")
    assert "packaging" in {*dev} & {*engines}
    assert not [n for n in {*dev} & {*engines} if pinned(dev[n]) != pinned(engines[n])]
