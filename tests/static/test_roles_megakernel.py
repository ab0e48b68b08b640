"""The megakernel's own SASS: its roles hold in every variant, and break where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Outcome, Toolchain
from kernelrig.sass import breaches, natural_loops
from kernelrig.static.role_graph import part_roles
from kernelrig.static.role_rules import check_roles

from tests.sass_fixture import Compile
from tests.static.megakernel import ARCH, ENTRY, SOURCE, Edit, compile_kernel, kernel

THREADS = 192


@pytest.mark.parametrize(
    "variant",
    [
        "production",
        *(pytest.param(v, marks=pytest.mark.long) for v in ("guard", "timing", "debug")),
    ],
)
def test_roles_hold_in_every_variant(variant: str, compile_sass: Compile) -> None:
    known = kernel()
    way = known.variants[variant]
    tunables = known.tuned(ARCH, variant)
    defines = [f"-D{name}={value}" for name, value in (*tunables.items(), *way.defines.items())]
    flags = ("-DKERNELRIG_DEVICE_ONLY", *dict.fromkeys(defines), *way.nvcc_flags)
    flow = compile_sass(SOURCE, ARCH, *flags).flow(ENTRY)
    graph = part_roles(flow, known.sass[ARCH].roles)
    checks = check_roles(graph, SOURCE, THREADS, tunables)
    assert {c.name: c.verdict.outcome for c in checks} == {c.name: Outcome.PASS for c in checks}
    assert checks[4].facts == {"load": "warp 0", "mma": "warp 1", "epilogue": "warps 2 to 5"}
    assert graph.shared == {}
    assert len(graph.dispatch) == 2
    assert all(loop.entries == 1 for loop in natural_loops(flow))
    unfenced = breaches(
        flow,
        lambda i: i.matches("UTMASTG"),
        lambda i: i.matches("FENCE.VIEW.ASYNC"),
        since=lambda i: i.root == "STS",
    )
    assert unfenced == ()


@pytest.mark.parametrize(
    ("edit", "rule", "message"),
    [
        (
            (
                SOURCE,
                "  } else {\n    run_epilogue<",
                "  }\n  if (warp != Config::LOAD_WARP) {\n    run_epilogue<",
            ),
            "W003 roles-disjoint",
            "warps of mma and epilogue run the same code",
        ),
        (
            (SOURCE, "__shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0)", "threadIdx.x / 16"),
            "W005 role-by-warp",
            "lanes of warp 0 part: load and mma",
        ),
        (
            (
                SOURCE,
                "      load_inputs(cta, a_map, b_map);",
                "      load_inputs(cta, a_map, b_map);\n    __syncthreads();",
            ),
            "W004 role-apart",
            "load holds BAR.SYNC.DEFER_BLOCKING, at which other roles never arrive",
        ),
    ],
)
def test_a_broken_dispatch_is_found(
    edit: Edit, rule: str, message: str, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    broken = compile_kernel(tmp_path, cuda_toolchain, [edit])
    tunables = broken.subject.tunables
    failed = [
        c
        for c in check_roles(broken.graph, broken.subject.source, THREADS, tunables)
        if c.verdict.outcome is Outcome.FAIL
    ]
    assert [c.name for c in failed] == [rule]
    findings = failed[0].findings
    assert [f for f in findings if f.message.startswith(message)]
    assert {f.file for f in findings} == {SOURCE}
    assert all(f.line > 0 for f in findings)
