"""The patches of the megakernels apply, the result compiles, and differs from the good kernel."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.model import Kernel, Outcome, Toolchain
from kernelrig.proc import run_jobs
from kernelrig.ptx import parse_ptx
from kernelrig.sass import control_flow, parse_sass
from kernelrig.static.ptx import check_ptx
from kernelrig.static.role_graph import part_roles
from kernelrig.static.role_rules import check_roles
from kernelrig.static.sass_rules import check_sass
from kernelrig.static.subject import Subject

from tests.kernel.bad_kernels import (
    ENTRY,
    HOPPER_FAULTS,
    MEGAKERNEL_FAULTS,
    REPOSITORY,
    DeviceCode,
    compile_megakernel,
    make_bad_project,
    read_head,
)
from tests.long_cases import mostly_long

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

ASKED_FOR_ON_HOPPER = (
    "missing-expect-tx",
    "missing-proxy-fence",
    "stage-reused-early",
    "wrong-parity",
    "wrong-swizzle",
)

FAULTS = MEGAKERNEL_FAULTS + HOPPER_FAULTS

Way = tuple[str, str]
"""The arch and the variant of a broken kernel."""

Jobs = dict[object, Callable[[], DeviceCode]]

SAME_SASS = {
    "sm100a/missing-barrier-init-fence": "fence.mbarrier_init is no instruction: the async view is"
    " fenced with the inits themselves",
    "sm100a/relaxed-input-wait": "a try_wait that acquires in the CTA is the TRYWAIT of a relaxed"
    " one; only .acquire.cluster adds to it",
    "sm90a/missing-barrier-init-fence": "as for sm_100a",
    "sm90a/missing-wgmma-fence": "where wgmma.fence is left out, ptxas puts the warpgroup's"
    " arrival in before the first product by itself",
}
"""Faults that PTX forbids but that do not change the machine code of ptxas 13.0.88."""

KINDS = frozenset(
    {
        "barrier-misuse",
        "deadlock",
        "descriptor",
        "leak",
        "mismatch",
        "out-of-bounds",
        "proxy-fence",
        "race",
        "tmem",
        "uninitialised",
    }
)
"""The emulator's kinds of findings that detect a fault; each fault names at least one."""

PRODUCTS = {"sm_100a": "UTCQMMA.2CTA", "sm_90a": "QGMMA.64x"}


def way_of(fault: str) -> Way:
    arch = {"sm100a": "sm_100a", "sm90a": "sm_90a"}[Path(fault).parent.name]
    return arch, read_head(fault).get("variant", "production")


def named_rules(fault: str) -> list[str]:
    said = read_head(fault).get("without a GPU", "nothing")
    return [] if said == "nothing" else said.split(", ")


WAYS = tuple(sorted({way_of(fault) for fault in FAULTS}))
CAUGHT = tuple(fault for fault in FAULTS if named_rules(fault))
OTHERS = tuple(fault for fault in FAULTS if not named_rules(fault))
"""What only shows where it runs, emulated or on a GPU: to compile all of them takes a minute."""

BY_DEFAULT = (
    "sm100a/diverged-cluster-barrier",
    "sm100a/missing-dealloc",
    "sm100a/missing-proxy-fence",
    "sm90a/dropped-k-step",
)
"""One of those that a rule over PTX, over SASS, or over warp roles catches."""
WAY_CASES = [
    way
    if any(way_of(fault) == way for fault in BY_DEFAULT)
    else pytest.param(way, marks=pytest.mark.long)
    for way in WAYS
]


class Codes:
    """Device code of every broken kernel and of the good one, as it is and moved by a line.

    When the first of BY_DEFAULT of an arch is asked for, all of these are compiled, side by side,
    and so are the rest of CAUGHT, and OTHERS.
    """

    def __init__(self, folder: Path, tools: Toolchain) -> None:
        self._folder, self._tools = folder, tools
        self._made: dict[object, Future[DeviceCode]] = {}

    def bad(self, fault: str) -> DeviceCode:
        arch = way_of(fault)[0]
        groups = (BY_DEFAULT, tuple(f for f in CAUGHT if f not in BY_DEFAULT), OTHERS)
        group = next(g for g in groups if fault in g)
        return self._answer(fault, lambda: self._broken(arch, group))

    def good(self, way: Way) -> DeviceCode:
        return self._answer(way, lambda: self._right(way))

    def moved(self, way: Way) -> DeviceCode:
        return self._answer(("moved", way), lambda: self._right(way))

    def _answer(self, name: object, jobs_of: Callable[[], Jobs]) -> DeviceCode:
        if name not in self._made:
            jobs = jobs_of()
            self._made |= zip(jobs, run_jobs(list(jobs.values())), strict=True)
        return self._made[name].result()

    def _right(self, way: Way) -> Jobs:
        return {
            way: partial(compile_megakernel, REPOSITORY, self._tools, *way),
            ("moved", way): partial(self._compile_moved, *way),
        }

    def _broken(self, arch: str, faults: Sequence[str]) -> Jobs:
        return {f: partial(self._compile_fault, f) for f in faults if way_of(f)[0] == arch}

    def _compile_fault(self, fault: str) -> DeviceCode:
        root = make_bad_project(fault, self._folder / fault.replace("/", "-"))
        return compile_megakernel(root, self._tools, *way_of(fault))

    def _compile_moved(self, arch: str, variant: str) -> DeviceCode:
        root = self._folder / f"moved-{arch}-{variant}"
        shutil.copytree(REPOSITORY / "kernel", root / "kernel")
        source = root / "kernel" / kernel().sources[arch]
        source.write_text(f"// one line more\n{source.read_text()}")
        return compile_megakernel(root, self._tools, arch, variant)


def kernel() -> Kernel:
    return config.load_kernels(REPOSITORY)["patch_embed"]


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Codes:
    return Codes(tmp_path_factory.mktemp("faults"), cuda_toolchain)


def test_those_that_were_asked_for_are_there() -> None:
    assert set(ASKED_FOR) <= {Path(fault).name for fault in MEGAKERNEL_FAULTS}
    assert set(ASKED_FOR_ON_HOPPER) <= {Path(fault).name for fault in HOPPER_FAULTS}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_patch_says_what_it_breaks_why_that_is_wrong_and_who_must_see_it(fault: str) -> None:
    head = read_head(fault)
    assert list(head)[:5] == ["broken", "wrong by", "shows as", "constant data", "without a GPU"]
    assert set(head) - {"variant", "case"} == set(list(head)[:5])
    assert set(head["shows as"].split(", ")) <= KINDS
    assert head["constant data"].startswith(("sees ", "cannot see it"))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in BY_DEFAULT])
def test_a_patch_applies(fault: str, tmp_path: Path) -> None:
    """Those of BY_DEFAULT are compiled in every run."""
    make_bad_project(fault, tmp_path)


@pytest.mark.parametrize("fault", mostly_long(FAULTS, *BY_DEFAULT))
def test_a_fault_changes_the_code(fault: str, codes: Codes) -> None:
    bad, good = codes.bad(fault), codes.good(way_of(fault))
    (resources,) = parse_ptxas_log(bad.log)
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)
    assert bad.ptx != good.ptx
    assert (bad.words == good.words) == (fault in SAME_SASS)


@pytest.mark.parametrize("way", WAY_CASES, ids="-".join)
def test_a_moved_line_changes_no_code(way: Way, codes: Codes) -> None:
    """Otherwise the test above would find a change in every patch."""
    moved, good = codes.moved(way), codes.good(way)
    assert ENTRY in good.ptx
    assert PRODUCTS[way[0]] in good.sass
    assert good.words
    assert (moved.ptx, moved.words) == (good.ptx, good.words)


def caught_by(code: DeviceCode, way: Way) -> list[str]:
    """Return the rules of `invoke check` that the code breaks, over PTX, SASS and warp roles."""
    subject = Subject(kernel(), *way)
    graph = part_roles(control_flow(parse_sass(code.sass), ENTRY), subject.roles)
    checks = [
        *check_ptx(parse_ptx(code.ptx, "the PTX"), ENTRY),
        *check_sass(subject, [graph]),
        *check_roles(graph, subject.source, tunables=subject.tunables),
    ]
    return [check.name for check in checks if check.verdict.outcome is Outcome.FAIL]


@pytest.mark.parametrize("way", WAY_CASES, ids="-".join)
def test_no_rule_catches_the_good_kernel(way: Way, codes: Codes) -> None:
    assert caught_by(codes.good(way), way) == []


@pytest.mark.parametrize("fault", mostly_long(CAUGHT, *BY_DEFAULT))
def test_a_fault_is_caught_by_the_rules_that_its_patch_names(fault: str, codes: Codes) -> None:
    assert caught_by(codes.bad(fault), way_of(fault)) == named_rules(fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", OTHERS)
def test_a_fault_that_no_rule_is_said_to_catch_is_left_to_what_runs_it(
    fault: str, codes: Codes
) -> None:
    """A failure means that a rule now catches the fault: name the rule in its patch."""
    assert caught_by(codes.bad(fault), way_of(fault)) == []
