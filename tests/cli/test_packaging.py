"""What an installed wheel must have besides Python files."""

from __future__ import annotations

import json
import os
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from kernelrig.proc import run_process

from tests.emu.harness import kernel_text

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ci" / "kernelrig"


def test_every_data_file_of_the_package_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["kernelrig"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    data = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }
    assert data == packed


def test_every_package_is_found() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what git tracks, as it is now."""
    folder = tmp_path_factory.mktemp("wheel")
    source, made = folder / "source", folder / "made"
    tracked = run_process(("git", "ls-files", "-z"), cwd=ROOT).stdout.split("\0")
    for name in filter(None, tracked):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", made, source)
    assert run_process(pip, timeout_s=1200.0).exit_code == 0
    (built,) = made.iterdir()
    return built


@pytest.mark.long
def test_a_wheel_brings_the_native_core_and_uses_it(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    (brought,) = (installed / "kernelrig/emu/native/prebuilt").iterdir()
    assert brought.name.startswith(("core-x86-64-v2-", "core-x86-64-v3-"))

    (tmp_path / "k.ptx").write_text(kernel_text("bar.sync 0;", [], "sm_90a"))
    launch = {"schema": 1, "module": "k.ptx", "entry": "k", "grid": [1, 1, 1]}
    launch |= {"block": [32, 1, 1], "buffers": {}, "args": []}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    env = {"PYTHONPATH": str(installed), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = (sys.executable, "-m", "kernelrig.emu", "run", tmp_path / "launch.json")
    done = run_process((*words, "--engine", "native"), cwd=tmp_path, env=env)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "native engine: " in done.stdout
    assert not (tmp_path / "cache").exists()


@pytest.mark.long
@pytest.mark.limit(1800)
def test_an_installed_wheel_serves_a_folder_that_was_empty(wheel: Path, tmp_path: Path) -> None:
    """An environment of its own, no checkout and no cache: init, run, remote-test, watch, new."""
    project, bin_ = tmp_path / "project", tmp_path / "venv/bin"
    project.mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")}
    here = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "HTTP", "http", "no_"))}

    def run(*words: str | Path) -> str:
        done = run_process(words, cwd=project, env=here | env, timeout_s=900)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(bin_ / "pip", "install", "-q", wheel)
    program = bin_ / "kernelrig"
    assert "wrote kernel/kernels.yaml" in run(program, "init")
    (project / "artifacts").mkdir()
    (project / "artifacts/tools").symlink_to((ROOT / "artifacts/tools").resolve())
    assert "saxpy: 0 of 1000 elements are wrong" in run(program, "run", "kernel/saxpy.cu")
    assert run(program, "remote-test").startswith("pass: ")
    assert "pass: saxpy sm_100a production, emulated" in run(program, "watch", "--once")
    said = run(program, "record", "kernel/saxpy.cu", "--out", "case")
    assert "next: kernelrig emulate --launch case/launch.json" in said
    assert "no errors" in run(program, "emulate", "--launch", "case/launch.json")
    assert "wrote kernel/act.cu" in run(program, "new", "act", "--template", "elementwise")
    assert run(program, "remote-test", "--kernel", "act").startswith("pass: ")
    # The core came with the wheel: what was compiled is the CUDA runtime, and no more.
    made = {path.name.partition("-")[0] for path in (tmp_path / "c").glob("kernelrig/native/*")}
    assert "cudart" in made
    assert not {name for name in made if name.startswith("core")}
