"""Builds the native core of the emulator into a wheel; all else is in pyproject.toml.

A wheel that was made where there is no g++ has none: the core is then compiled on first use.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "ci"))

from kernelrig.emu.native.core_build import NotBuilt, ship


class BuildWithCore(build_py):
    """Copies the package and compiles the core beside it; an editable install has only links."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            try:
                ship(Path(self.build_lib) / "kernelrig/emu/native/prebuilt")
            except NotBuilt as e:
                self.warn(f"the wheel has no native core: {e}")


class MachineDistribution(Distribution):
    """It has code of a machine, though no extension module of Python."""

    def has_ext_modules(self) -> bool:
        return True


class MachineWheel(bdist_wheel):
    """The core is called by ctypes: a wheel is for one machine, and for every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    distclass=MachineDistribution,
    cmdclass={"build_py": BuildWithCore, "bdist_wheel": MachineWheel},
)
