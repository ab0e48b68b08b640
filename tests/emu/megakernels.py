"""The megakernel, good and broken, in the emulator: the fault's PTX in the good build's launch."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelrig import config
from kernelrig.build import Request
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate
from kernelrig.emu.launch.loader import Loaded, load
from kernelrig.emu.machine.findings import Finding
from kernelrig.model import Builds, Case, Pattern, Toolchain
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch

from tests.compilations import build_to_describe, copy_kernel_folder
from tests.kernel.bad_kernels import REPOSITORY, compile_megakernel, make_bad_project, read_head

Sizes = tuple[int, int]
"""Images and CTAs."""

SMALL: dict[str, Sizes] = {"sm_100a": (2, 2), "sm_90a": (1, 4)}
"""What one cluster, or group of CTAs, does alone; its rings wrap all the same."""

MORE_SHARED = {"sm100a/staging-off-by-128": 128}
"""Bytes of shared memory that a fault's own host code asks for beyond the good kernel's."""


@dataclass(frozen=True, slots=True)
class Catch:
    """The first finding of a kind that the fault's patch names, and where it came."""

    finding: Finding
    sizes: Sizes
    others: tuple[Finding, ...]

    def __str__(self) -> str:
        f = self.finding
        where = f.source or f"PTX line {f.ptx_line}"
        return f"{f.kind} | {where} | {f.schedule} | images={self.sizes[0]},ctas={self.sizes[1]}"


class Megakernels:
    """Launches of the builds in the store, described once each, and PTX of broken kernels."""

    def __init__(self, folder: Path, tools: Toolchain) -> None:
        self._folder, self._tools = folder, tools
        self.described = cache(self._described)

    def good(self, arch: str, variant: str, sizes: Sizes) -> Loaded:
        return load(self.described(arch, variant, sizes))

    def sizes_of(self, fault: str) -> Sizes:
        """Return the case that the patch names, where not every one shows the fault."""
        named = re.fullmatch(r"images=(\d+),ctas=(\d+)", read_head(fault).get("case", ""))
        return (int(named[1]), int(named[2])) if named else SMALL[way_of(fault)[0]]

    def broken(self, fault: str, sizes: Sizes) -> Loaded:
        arch, variant = way_of(fault)
        launch = self.described(arch, variant, sizes)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            root = make_bad_project(fault, Path(folder))
            module = Path(folder) / "fault.ptx"
            module.write_text(compile_megakernel(root, self._tools, arch, variant).text)
            if fault in MORE_SHARED:
                described = json.loads(launch.read_text())
                described["dynamic_smem_bytes"] += MORE_SHARED[fault]
                launch = launch.with_name("more.json")
                launch.write_text(json.dumps(described))
            return load(launch, module)

    def caught(
        self, fault: str, sizes: Sizes, schedules: Iterable[int], kinds: Iterable[str] = ()
    ) -> Catch | None:
        """Return what the first schedule to show the fault shows, of `kinds`: the patch's own."""
        named = tuple(kinds) or tuple(read_head(fault)["shows as"].split(", "))
        loaded = self.broken(fault, sizes)
        for number in schedules:
            found = emulate(loaded, (Schedule(number),), jobs=1).findings
            for kind in named:
                for finding in found:
                    if finding.kind == kind:
                        return Catch(finding, sizes, found)
        return None

    def _described(self, arch: str, variant: str, sizes: Sizes) -> Path:
        kernel = config.load_kernels(REPOSITORY)["patch_embed"]
        request = Request(kernel, arch, variant)
        project = self._folder / "project"
        if not project.exists():
            copy_kernel_folder(project)
        built = build_to_describe(project, request, self._tools)
        launch = Launch("", Case("", *sizes), Pattern.INTEGER, 0)
        root = self._folder / f"{arch}-{variant}"
        prepare_launches(root, [launch], kernel, Builds(built))
        path = root / launch.file
        described = json.loads(path.read_text())
        described["module"] = str(built.folder / f"{built.program}.ptx")
        path.write_text(json.dumps(described))
        return path


def way_of(fault: str) -> tuple[str, str]:
    arch = {"sm100a": "sm_100a", "sm90a": "sm_90a"}[Path(fault).parent.name]
    return arch, read_head(fault).get("variant", "production")
