"""What a task imports before it does anything: the packages that it does not use stay unread."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import kernelrig
import pytest

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
