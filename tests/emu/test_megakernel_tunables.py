"""The megakernel in the emulator under sets of its tunables, spread over all that are tried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kernelrig import build, config
from kernelrig.build import Request, build_all, compile_described
from kernelrig.config.covering_array import Values, tried_sets
from kernelrig.engines import LocalEngine
from kernelrig.model import Build, Check, Outcome, Toolchain, TriedSet
from kernelrig.ptx import parse_ptx
from kernelrig.run.emulation import prepare_emulation
from kernelrig.run.fault import broken_tree, read_fault
from kernelrig.run.requests import EmulateRequest
from kernelrig.run.tunable_emulation import emulate_sets

from tests.kernel.bad_kernels import REPOSITORY

WANTED = 48
"""Sets; about one in ten is rejected by a static assert, and 40 are to run."""
KERNEL = config.load_kernels(REPOSITORY)["patch_embed"]


def spread(count: int) -> list[Values]:
    """Return so many of the sets that are tried, evenly over their order."""
    sets = tried_sets(KERNEL.tunables["sm_100a"])
    return [sets[i * len(sets) // count] for i in range(count)]


def emulated(
    root: Path, sets: Sequence[Values], tools: Toolchain
) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    request = EmulateRequest("patch_embed", "sm_100a", tunables=True, schedules=2)
    spec = prepare_emulation(REPOSITORY, request)
    stage = spec.plan.stages[0]
    how = (root, spec.kernel, stage, spec.arch, sets, tools, spec.emulation)
    with LocalEngine() as engine:
        return emulate_sets(*how, on=engine, inputs={})


@pytest.mark.long
def test_sets_of_tunables_are_right_in_the_emulator(cuda_toolchain: Toolchain) -> None:
    checks, summary = emulated(REPOSITORY, spread(WANTED), cuda_toolchain)
    assert [c for c in checks if c.verdict.outcome is not Outcome.PASS] == []
    ran = [c for c in checks if c.verdict.summary == "all elements right in 2 schedules"]
    assert len(ran) >= 40
    assert summary[0].startswith(f"{WANTED} sets of tunables: {len(ran)} emulated, 0 of them not ")


@pytest.mark.long
def test_a_set_of_a_broken_kernel_is_not_right(cuda_toolchain: Toolchain) -> None:
    _, patch = read_fault(REPOSITORY, "missing-proxy-fence", "sm_100a")
    with broken_tree(REPOSITORY, patch) as tree:
        (check,), summary = emulated(tree, spread(WANTED)[:1], cuda_toolchain)
    assert check.verdict.outcome is Outcome.FAIL
    assert "proxy-fence" in check.verdict.summary
    assert summary[0].startswith("1 sets of tunables: 1 emulated, 1 of them not right")


@pytest.mark.long
def test_what_is_compiled_of_a_set_is_the_kernel_of_the_whole_build(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    request = Request(KERNEL, "sm_100a", "production")
    (whole,) = build_all(REPOSITORY, [request], cuda_toolchain)
    part = compile_described(REPOSITORY, request, {}, cuda_toolchain, tmp_path)
    assert isinstance(part, Build)
    one, other = ((made.folder / f"{made.program}.ptx").read_text() for made in (whole, part))
    assert code_of(one) == code_of(other) != []


def code_of(ptx: str) -> list[str]:
    """Return the instructions of the kernel, without the lines of its file."""
    module = parse_ptx(ptx, "k.ptx")
    (entry,) = (f for f in module.entries if f.name == "patch_embed_gemm")
    lines = ptx.splitlines()
    return [lines[i.line - 1].strip() for i in entry.instructions]


def test_where_no_set_can_be_emulated_nothing_is_established(
    cuda_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = TriedSet({}, refused=("too wide",))
    for made, outcome, said in (
        (refused, Outcome.PASS, "refused: too wide"),
        (TriedSet({}, complaint="a.cu:1: error"), Outcome.FAIL, "a compiler error that is not"),
    ):
        monkeypatch.setattr(build, "compile_described", lambda *_, made=made: made)
        (first, last), summary = emulated(REPOSITORY, spread(1), cuda_toolchain)
        assert first.verdict.outcome is outcome
        assert first.verdict.summary.startswith(said)
        assert (last.verdict.outcome, last.verdict.summary) == (
            Outcome.ERROR,
            "no set of tunables could be emulated",
        )
    assert summary[0] == (
        "1 sets of tunables: 0 emulated, 0 of them not right, 0 refused by a static assert,"
        " 1 do not compile"
    )
