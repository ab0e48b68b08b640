"""What an installed wheel must have besides Python files."""

from __future__ import annotations

import json
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


@pytest.mark.long
def test_a_wheel_brings_the_native_core_and_uses_it(tmp_path: Path) -> None:
    source, made, installed = tmp_path / "source", tmp_path / "made", tmp_path / "installed"
    tracked = run_process(("git", "ls-files", "-z"), cwd=ROOT).stdout.split("\0")
    for name in filter(None, tracked):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", made, source)
    assert run_process(pip, timeout_s=1200.0).exit_code == 0
    (wheel,) = made.iterdir()
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    brought = list((installed / "kernelrig/emu/native/prebuilt").iterdir())
    assert sorted(p.name[:15] for p in brought) == ["core-x86-64-v2-", "core-x86-64-v3-"]

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
