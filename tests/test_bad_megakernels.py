"""The broken megakernels are still made from the good one, compile, and are not the good one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from ci import config
from ci.build.pool import run_jobs
from ci.build.resources import parse_ptxas_log
from ci.check.ptx import check_ptx
from ci.check.role_graph import part_roles
from ci.check.roles import check_roles
from ci.check.sass_rules import check_sass
from ci.check.subject import Subject
from ci.model import Outcome, Toolchain
from ci.ptx import parse_ptx
from ci.sass import control_flow, parse_sass
from tests.bad_kernels import (
    MEGAKERNEL_FAULTS,
    REPOSITORY,
    DeviceCode,
    compile_megakernel,
    make_bad_project,
    read_head,
)

ASKED_FOR = (
    "accumulator-off-by-128",
    "inverted-parity",
    "k-step-of-16-bytes",
    "missing-barrier-before-dealloc",
    "missing-load-wait",
    "missing-proxy-fence",
    "position-in-tile",
    "second-to-last-tile-skipped",
    "staging-off-by-128",
    "swapped-bf16-halves",
    "unstaged-columns",
    "wrong-commit-mask",
    "wrong-expect-bytes",
    "wrong-swizzle-code",
)

SAME_SASS = {
    "sm100a/missing-barrier-init-fence": "fence.mbarrier_init is no instruction: the async view is"
    " fenced with the inits themselves",
    "sm100a/relaxed-input-wait": "a try_wait that acquires in the CTA is the TRYWAIT of a relaxed"
    " one; only .acquire.cluster adds to it",
}
"""Faults that are none in the machine code of ptxas 13.0.88: PTX forbids them all the same."""

KINDS = frozenset(
    {
        "barrier-misuse",
        "deadlock",
        "descriptor",
        "leak",
        "mismatch",
        "proxy-fence",
        "race",
        "tmem",
        "uninitialised",
    }
)
"""The emulator's kinds of findings that some fault shows as; at least one of its own must come."""

ENTRY = "patch_embed_gemm"


@pytest.fixture(scope="module")
def codes(
    tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain
) -> dict[str, Future[DeviceCode]]:
    """Compile every fault, and under "" the good kernel, a line further down."""
    folder = tmp_path_factory.mktemp("faults")

    def compile_fault(fault: str) -> DeviceCode:
        root = make_bad_project(fault, folder / Path(fault).name)
        return compile_megakernel(root, cuda_toolchain)

    def compile_moved() -> DeviceCode:
        root = folder / "moved"
        shutil.copytree(REPOSITORY / "kernel", root / "kernel")
        source = root / "kernel/sm100a_patch_embed_fp8.cu"
        source.write_text(f"// one line more\n{source.read_text()}")
        return compile_megakernel(root, cuda_toolchain)

    jobs: list[Callable[[], DeviceCode]] = [compile_moved]
    jobs += (partial(compile_fault, fault) for fault in MEGAKERNEL_FAULTS)
    return dict(zip(("", *MEGAKERNEL_FAULTS), run_jobs(jobs), strict=True))


@pytest.fixture(scope="module")
def good(cuda_toolchain: Toolchain) -> DeviceCode:
    return compile_megakernel(REPOSITORY, cuda_toolchain)


def test_those_that_were_asked_for_are_there() -> None:
    assert set(ASKED_FOR) <= {Path(fault).name for fault in MEGAKERNEL_FAULTS}


@pytest.mark.parametrize("fault", MEGAKERNEL_FAULTS)
def test_a_patch_says_what_it_breaks_why_that_is_wrong_and_who_must_see_it(fault: str) -> None:
    head = read_head(fault)
    assert list(head) == ["broken", "wrong by", "shows as", "constant data", "without a GPU"]
    assert set(head["shows as"].split(", ")) <= KINDS
    assert head["constant data"].startswith(("sees it", "cannot see it"))


@pytest.mark.parametrize("fault", MEGAKERNEL_FAULTS)
def test_a_fault_changes_the_code(
    fault: str, codes: dict[str, Future[DeviceCode]], good: DeviceCode
) -> None:
    bad = codes[fault].result()
    (kernel,) = parse_ptxas_log(bad.log)
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)
    assert bad.ptx != good.ptx
    assert (bad.words == good.words) == (fault in SAME_SASS)


def test_a_moved_line_changes_no_code(
    codes: dict[str, Future[DeviceCode]], good: DeviceCode
) -> None:
    """Or the test above would find a change in every patch."""
    moved = codes[""].result()
    assert ENTRY in good.ptx
    assert "UTCQMMA.2CTA" in good.sass
    assert good.words
    assert (moved.ptx, moved.words) == (good.ptx, good.words)


def caught_by(code: DeviceCode) -> list[str]:
    """Return the rules of `invoke check` that the code breaks, over PTX, SASS and warp roles."""
    kernel = config.load_kernels(REPOSITORY)["patch_embed"]
    subject = Subject(kernel, "sm_100a", "production")
    graph = part_roles(control_flow(parse_sass(code.sass), ENTRY), subject.roles)
    checks = [
        *check_ptx(parse_ptx(code.ptx, "the PTX"), ENTRY),
        *check_sass(subject, [graph]),
        *check_roles(graph, subject.source, tunables=subject.tunables),
    ]
    return [check.name for check in checks if check.verdict.outcome is Outcome.FAIL]


def named_rules(fault: str) -> list[str]:
    said = read_head(fault).get("without a GPU", "nothing")
    return [] if said == "nothing" else said.split(", ")


def test_no_rule_catches_the_good_kernel(good: DeviceCode) -> None:
    assert caught_by(good) == []


@pytest.mark.parametrize("fault", [f for f in MEGAKERNEL_FAULTS if named_rules(f)])
def test_a_fault_is_caught_by_the_rules_that_its_patch_names(
    fault: str, codes: dict[str, Future[DeviceCode]]
) -> None:
    assert caught_by(codes[fault].result()) == named_rules(fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [f for f in MEGAKERNEL_FAULTS if not named_rules(f)])
def test_a_fault_that_no_rule_is_said_to_catch_waits_for_the_emulator(
    fault: str, codes: dict[str, Future[DeviceCode]]
) -> None:
    """One that fails here has become visible without a GPU: say so in its patch."""
    assert caught_by(codes[fault].result()) == []
