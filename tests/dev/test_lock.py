"""Which of a release's files a lock names; uv's answer is a capture, its addresses replaced."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from kernelrig.build.toolchain.requirements import read_lock
from kernelrig.dev.lock import render
from kernelrig.errors import BuildError

CAPTURE = Path(__file__).parents[1] / "data/uv/pylock-uv0.13.9.toml"


def packages() -> dict[str, dict[str, Any]]:
    return {p["name"]: p for p in tomllib.loads(CAPTURE.read_text())["packages"]}


def hashes(package: dict[str, Any], *endings: str) -> list[str]:
    wheels = package["wheels"]
    found = [w["hashes"]["sha256"] for w in wheels if w["url"].endswith(endings)]
    assert len(found) == len(endings)
    return sorted(found)


def test_a_lock_has_the_wheels_of_linux_on_x86_64_and_no_source(tmp_path: Path) -> None:
    found = packages()
    lock = tmp_path / "lock.txt"
    lock.write_text(render(found.values()))
    bcrypt, six, tomli = read_lock(lock)  # colorama is for Windows
    assert (bcrypt.pin, bcrypt.marker) == ("bcrypt==5.0.0", "")
    # No musl, no free-threaded build, no PyPy
    assert list(bcrypt.hashes) == hashes(
        found["bcrypt"],
        "cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "cp38-abi3-manylinux_2_28_x86_64.whl",
        "cp38-abi3-manylinux_2_34_x86_64.whl",
        "cp39-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "cp39-abi3-manylinux_2_28_x86_64.whl",
        "cp39-abi3-manylinux_2_34_x86_64.whl",
    )
    assert list(six.hashes) == hashes(found["six"], "py2.py3-none-any.whl")
    assert (tomli.pin, tomli.marker) == ("tomli==2.3.0", "python_full_version < '3.12'")
    assert list(tomli.hashes) == hashes(
        found["tomli"],
        "cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl",
        "py3-none-any.whl",
    )
    assert "files.invalid" not in lock.read_text()


def test_a_release_without_a_wheel_for_a_python_is_refused() -> None:
    package = packages()["bcrypt"]
    package["wheels"] = [w for w in package["wheels"] if "cp314-cp314t" in w["url"]]
    with pytest.raises(BuildError) as caught:
        render([package])
    assert str(caught.value) == (
        "bcrypt==5.0.0 has no wheel for Python 3.11 on Linux x86-64; "
        "ask for another version in pyproject.toml"
    )
