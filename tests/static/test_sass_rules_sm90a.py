"""Every SASS rule for the Hopper kernel holds for it, and fails where the code breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Check, Outcome, Toolchain
from kernelrig.static.sass_rules import check_sass

from tests.long_cases import mostly_long
from tests.static.megakernel import Compiled, Edit, compile_kernel

ARCH = "sm_90a"
SOURCE = "kernel/sm90a_patch_embed_fp8.cu"
PTX = "kernel/ptx.cuh"
WGMMA = "kernel/wgmma.cuh"

BREAKS: dict[str, tuple[tuple[Edit, ...], str]] = {
    "S101": (
        ((WGMMA, "m64n192k32.f32.e4m3.e4m3", "m64n192k32.f32.e5m2.e4m3"),),
        "0 QGMMA.64x192x32.F32.E4M3.E4M3 of role mma, not 24 (24 if SLICE_COLUMNS == 192 else 0)",
    ),
    "S102": (
        ((SOURCE, "k < Config::BLOCK_K; k += Config::MMA_K", "k < 96; k += Config::MMA_K"),),
        "18 QGMMA of role mma, not 24 (24)",
    ),
    "S103": (
        (
            (
                PTX,
                '"cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier'
                '::complete_tx::bytes "'
                '\n               "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),\n'
                '               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)',
                '"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier'
                '::complete_tx::bytes "'
                '\n               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),\n'
                '               "l"(map), "r"(x), "r"(y + z), "r"(barrier)',
            ),
        ),
        "no UTMALDG.3D of role load",
    ),
    "S104": (
        ((SOURCE, "ptx::store_global(to + 32 * block, words);", "*to = words[0];"),),
        "0 STG.E.NA.128 of role mma, not 12 (SLICE_COLUMNS // 16 if STAGED_BOXES == 0 else 0)",
    ),
    "S105": (
        (
            (
                SOURCE,
                "    for (int i = 0; i < own.count; ++i) {\n",
                "    volatile float heap[64];\n"
                "    for (int i = 0; i < own.count; ++i) {\n      heap[i % 64] = 1;\n",
            ),
        ),
        "STL",
    ),
}
"""What breaks each rule, and how the rule then begins to complain."""


def answers(compiled: Compiled) -> dict[str, Check]:
    checks = check_sass(compiled.subject, [compiled.graph])
    return {check.name.split()[0]: check for check in checks}


def test_the_hopper_kernel_keeps_every_rule(cuda_toolchain: Toolchain, tmp_path: Path) -> None:
    said = answers(compile_kernel(tmp_path / "good", cuda_toolchain, arch=ARCH))
    assert sorted(said) == sorted(BREAKS)
    assert {check.verdict.outcome for check in said.values()} == {Outcome.PASS}


@pytest.mark.parametrize("code", mostly_long(BREAKS, "S102"))
def test_a_rule_fails_on_the_compiled_kernel_that_breaks_it(
    code: str, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    edits, complaint = BREAKS[code]
    compiled = compile_kernel(tmp_path / "broken", cuda_toolchain, edits, arch=ARCH)
    check = answers(compiled)[code]
    assert check.verdict.outcome is Outcome.FAIL, check.verdict.summary
    assert check.verdict.summary.startswith(complaint)
