"""What a task imports before it does anything: the packages that it does not use stay unread."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import kernelrig
import pytest
from kernelrig.proc import run_process

from tests.cpu_project import make_cpu_project

LAZY = sorted(
    module.name
    for module in pkgutil.walk_packages(kernelrig.__path__, "kernelrig.")
    if module.ispkg and "__getattr__" in vars(import_module(module.name))
)


@pytest.mark.parametrize("name", LAZY)
def test_every_export_of_a_lazy_package_is_found_and_hidden_by_no_submodule(name: str) -> None:
    package = import_module(name)
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert submodules.isdisjoint(package.__all__)
    for export in package.__all__:
        assert getattr(package, export) is not None
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - reading it is the test


def test_the_lazy_packages_are_those_that_every_task_reads() -> None:
    assert {"kernelrig.build", "kernelrig.model", "kernelrig.stages"} <= set(LAZY)


def imported(root: Path, *words: str) -> set[str]:
    """Return the packages that a task has imported when it has ended with exit code 0."""
    program = "KernelrigProgram('0', ns, name='kernelrig')"
    code = (
        "import sys; from kernelrig.cli import ns; from kernelrig.cli.program import"
        f" KernelrigProgram; code = {program}.exit_code(['kernelrig', *sys.argv[1:]]);"
        " print('imported', *sys.modules); sys.exit(code)"
    )
    done = run_process([sys.executable, "-c", code, "--root", root, *words])
    assert done.exit_code == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("imported ")]
    return set(line.split()[1:])


HEAVY = {"asyncssh", "fabric", "networkx", "numpy", "paramiko", "pydantic", "rich", "scipy"}


def test_listing_the_tasks_imports_nothing_that_a_task_needs(tmp_path: Path) -> None:
    found = imported(tmp_path, "--list")
    assert found.isdisjoint(HEAVY | {"kernelrig.model", "kernelrig.run"})
    assert found.isdisjoint({"yaml", "invoke.vendor.yaml.loader"})


def test_what_invoke_reads_of_its_yaml_is_read(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("user: [a, b]\n")
    code = (
        "import sys, kernelrig.cli; from invoke import Config;"
        " config = Config(runtime_path=sys.argv[1], lazy=True); config.load_runtime();"
        " config.merge(); print(config.user)"
    )
    done = run_process([sys.executable, "-c", code, tmp_path / "fabric.yaml"])
    assert (done.exit_code, done.stdout) == (0, "['a', 'b']\n"), done.stderr


def test_a_run_without_a_disassembly_to_read_imports_no_graphs(tmp_path: Path) -> None:
    make_cpu_project(tmp_path)
    words = ("--kernel", "passes", "--remote", "local", "--plan", "quick", "--dry-run")
    found = imported(tmp_path, "remote-test", *words)
    assert found.isdisjoint({"asyncssh", "networkx", "scipy"})


def test_an_unchanged_build_imports_no_library_but_yaml(tmp_path: Path) -> None:
    make_cpu_project(tmp_path)
    assert "yaml" in imported(tmp_path, "build", "--kernel", "passes", "--arch", "sm_90a")
    found = imported(tmp_path, "build", "--kernel", "passes", "--arch", "sm_90a")
    assert found.isdisjoint(HEAVY)
    assert found.isdisjoint({"kernelrig.emu", "kernelrig.remote", "kernelrig.static"})
