"""Programs of other authors run unchanged: their own checks pass, and each error was judged."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.run.program import ProgramRequest, emulate_program

from tests.emu.cudart.others import (
    CUB,
    CURAND,
    CUTLASS,
    PROGRAMS,
    THRUST,
    Package,
    Program,
)

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "ci/docs/programs.md"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Fetch each package by its ordinary client, checked by its hash, and unpack it."""
    folder = tmp_path_factory.mktemp("packages")
    found = {}
    for package in (CUTLASS, CURAND, THRUST, CUB):
        _fetch(package, folder)
        file = folder / package.file
        assert hashlib.sha256(file.read_bytes()).hexdigest() == package.sha256
        place = folder / package.name
        if package.kind == "pip":
            zipfile.ZipFile(file).extractall(place)
        else:
            subprocess.run(["dpkg-deb", "-x", file, place], check=True)
        found[package.name] = place / package.root
    header = found[CUB.name].with_name("test") / "test_util.h"
    header.parent.mkdir()
    shutil.copy(Path(__file__).with_name("cub_test_util.h"), header)
    return found


def _fetch(package: Package, folder: Path) -> None:
    pinned = f"{package.name}=={package.version}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", ".", pinned]
    apt = ["apt-get", "-o", "APT::Sandbox::User=root", "download"]
    argv = pip if package.kind == "pip" else [*apt, f"{package.name}={package.version}"]
    subprocess.run(argv, cwd=folder, check=True)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.source)
def test_a_program_runs_to_its_own_check_and_has_no_other_error_than_was_judged(
    program: Program,
    packages: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    roots = [packages[CUTLASS.name] / part for part in ("include", "tools/util/include")]
    roots += [packages[CUTLASS.name] / "examples/common", packages[CURAND.name]]
    if program.package in (THRUST, CUB):
        roots = [packages[program.package.name]]
    request = ProgramRequest(
        (packages[program.package.name] / program.source,),
        tuple(shlex.split(program.arguments)),
        program.arch,
        ("--expt-relaxed-constexpr", *(f"-I{root}" for root in roots)),
        schedules=program.schedules,
        kernel=program.kernel,
        launches=(program.launch,) if program.launch else (),
    )
    with tempfile.TemporaryFile() as stdout:
        if program.refused:
            with pytest.raises(ConfigError, match=re.escape(program.refused)):
                emulate_program(REPOSITORY, request, stdout)
            return
        report = emulate_program(REPOSITORY, request, stdout)
        stdout.seek(0)
        printed = stdout.read().decode()
    assert re.search(program.says, printed)
    assert report.program.exit_code == 0
    found = [f for launch in report.program.launches for f in launch.findings]
    errors = {f.finding.kind for f in found if f.severity == "error"}
    assert errors == program.errors, report.text
    assert report.exit_code == (1 if errors else 0)


def test_the_page_has_a_line_for_each_program() -> None:
    lines = PAGE.read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| \S+\.cu \|", line)]
    assert rows == [program.row for program in PROGRAMS]
    assert len(PROGRAMS) >= 25
    assert sum(program.checks and not program.refused for program in PROGRAMS) >= 15
