"""Write the locks anew from pyproject.toml: `python -m kernelrig.dev.lock [--upgrade]`.

uv resolves, for every Python of PYTHONS at once, and names each file of each release with its
hash. A lock keeps the wheels that pip may choose on Linux x86-64 there; it has no source
distributions, whose build would run code of packages that no lock names, and no address.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from kernelrig.build.toolchain.requirements import OWN_LOCKS, read_lock
from kernelrig.errors import BuildError, CiError
from kernelrig.files.rundir import write_atomic
from kernelrig.proc import run_process

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
"""Each has a wheel of every package that it needs. The tests run on the first three."""
TOOLS = ("cuda", "cublas", "cupti", "curand", "nvtx", "ncu", "charts", "sanitizer")
"""Extras that are complete as they are: a dependency of theirs is a part of another toolkit."""
NEWEST_GLIBC = 39
"""Of the wheels' platform tags, manylinux_2_N: what Ubuntu 24.04 has."""

_HEADER = "# Written by `python -m kernelrig.dev.lock` from pyproject.toml.\n"


def lock_all(root: Path, folder: Path = OWN_LOCKS, *, upgrade: bool = False) -> None:
    """Write a lock for the build backend, the dependencies and each extra; keep pins that fit.

    Raises CiError where uv is missing or finds no versions that fit together.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    base, dev = project["project"]["dependencies"], extras["dev"]
    of_dev = _resolve([*base, *dev], () if upgrade else _pins(folder, "base", "dev"))
    of_base = _resolve(base, of_dev)
    backend = _resolve(project["build-system"]["requires"], _pins(folder, "build"))
    write_atomic(folder / "build.txt", render(_files(backend)))
    write_atomic(folder / "base.txt", render(_files(of_base)))
    # Installed together with base.txt
    write_atomic(folder / "dev.txt", render(_files(sorted({*of_dev} - {*of_base}))))
    of_engines = _resolve([*base, *extras["engines"]], of_dev)
    write_atomic(folder / "engines.txt", render(_files(sorted({*of_engines} - {*of_base}))))
    for extra in TOOLS:
        write_atomic(folder / f"{extra}.txt", render(_files(extras[extra])))


def render(packages: Iterable[Mapping[str, Any]]) -> str:
    """Render the packages of a pylock.toml (PEP 751) as a requirements file of pip.

    Raises BuildError where a package has no wheel for one of PYTHONS.
    """
    parts = [_HEADER]
    for package in sorted(packages, key=lambda package: str(package["name"])):
        pythons = [python for python in PYTHONS if _is_needed(package.get("marker"), python)]
        if not pythons:
            continue
        name = f"{package['name']}=={package['version']}"
        hashes: set[str] = set()
        for python in pythons:
            fitting = _fitting(package.get("wheels", ()), python)
            if not fitting:
                raise BuildError(
                    f"{name} has no wheel for Python {python[0]}.{python[1]} on Linux x86-64",
                    "ask for another version in pyproject.toml",
                )
            hashes |= fitting
        everywhere = len(pythons) == len(PYTHONS)
        marker = "" if everywhere else f" ; {package['marker']}"
        lines = [f"{name}{marker}", *(f"    --hash=sha256:{h}" for h in sorted(hashes))]
        parts.append(" \\\n".join(lines) + "\n")
    return "".join(parts)


def _is_needed(marker: str | None, python: tuple[int, int]) -> bool:
    if not marker:
        return True
    return Marker(marker).evaluate(
        {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{python[0]}.{python[1]}.0",
            "python_version": f"{python[0]}.{python[1]}",
            "sys_platform": "linux",
        }
    )


def _fitting(wheels: Iterable[Mapping[str, Any]], python: tuple[int, int]) -> set[str]:
    """Return the hashes of the wheels that pip may install with this Python."""
    known = _tags(python)
    found = set()
    for wheel in wheels:
        file = wheel.get("name") or str(wheel["url"]).rpartition("/")[2]
        if parse_wheel_filename(file)[3] & known:
            found.add(str(wheel["hashes"]["sha256"]))
    return found


def _tags(python: tuple[int, int]) -> set[Tag]:
    old = ("manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64", "linux_x86_64")
    platforms = [*(f"manylinux_2_{n}_x86_64" for n in range(5, NEWEST_GLIBC + 1)), *old]
    interpreter = f"cp{python[0]}{python[1]}"
    return {
        *cpython_tags(python, platforms=platforms),
        *compatible_tags(python, interpreter, platforms),
    }


def _pins(folder: Path, *names: str) -> list[str]:
    """Return the pins of today; none where there is no lock yet."""
    paths = [folder / f"{name}.txt" for name in names]
    return [locked.pin for path in paths if path.is_file() for locked in read_lock(path)]


def _resolve(requirements: Sequence[str], preferred: Iterable[str]) -> list[str]:
    """Return the pins, NAME==VERSION[ ; MARKER], of all that `requirements` need.

    One version for all Pythons where there is one; `preferred` ones as far as they fit.
    """
    text = _uv(requirements, "requirements.txt", "\n".join(preferred))
    return [line for line in text.splitlines() if re.match(r"[A-Za-z0-9]", line)]


def _files(pins: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return each pin's package with all files of its release."""
    packages: list[Mapping[str, Any]]
    packages = tomllib.loads(_uv(pins, "pylock.toml", "", "--no-deps"))["packages"]
    missing = {canonicalize_name(re.split("[=<>~! ]", pin)[0]) for pin in pins}
    missing -= {package["name"] for package in packages}
    if missing:
        raise BuildError(f"uv names no files of {', '.join(sorted(missing))}")
    return packages


def _uv(requirements: Sequence[str], form: str, before: str, *flags: str) -> str:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if not uv:
        raise CiError("no uv on PATH, which resolves the locks", "install it with: pip install uv")
    with tempfile.TemporaryDirectory() as folder:
        wanted, output = Path(folder, "wanted.in"), Path(folder, form)
        wanted.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        if before:
            output.write_text(before + "\n", encoding="utf-8")
        oldest = ".".join(map(str, PYTHONS[0]))
        argv: list[str | Path] = [
            uv,
            "pip",
            "compile",
            wanted,
            "-o",
            output,
            "--format",
            form,
            "--quiet",
        ]
        argv += ["--universal", "--python-version", oldest, "--fork-strategy", "fewest"]
        argv += ["--only-binary", ":all:", "--no-annotate", "--no-header", "--no-config", *flags]
        done = run_process(argv, timeout_s=600)
        if done.exit_code:
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise CiError(f"uv found no versions that fit: {last.strip()}", "see pyproject.toml")
        return output.read_text(encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    """Lock the repository around the current folder; print a sentence and return the exit code."""
    try:
        lock_all(Path.cwd(), upgrade="--upgrade" in argv)
    except CiError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
