"""Every rule over PTX fails on a real compile that breaks it, and on no other; good ones pass."""

from __future__ import annotations

import re

import pytest
from kernelrig.model import Check, Outcome
from kernelrig.model.frame import Place
from kernelrig.ptx import Module, parse_ptx
from kernelrig.static.ptx import RULES, check_ptx

from tests.long_cases import mostly_long
from tests.ptx_fixture import CompilePtx, OwnPtx

PROBE = "tests/static/probes/ptx_rules.cu"
SOURCE = "ptx_rules.cu"

BROKEN = {
    "store_without_proxy_fence": "P001 store-without-proxy-fence",
    "remote_arrive_scope": "P003 remote-arrive-scope",
    "tensor_memory_leak": "P004 tensor-memory-leak",
    "leak_where_there_is_no_tile": "P004 tensor-memory-leak",
    "columns_differ": "P004 tensor-memory-leak",
    "mixed_bulk_groups": "P005 mixed-bulk-groups",
    "copy_not_committed": "P006 copy-not-committed",
    "load_not_waited": "P007 load-not-waited",
    "aligned_by_one_lane": "P008 aligned-by-one-lane",
    "bytes_never_expected": "P009 bytes-never-expected",
    "alloc_after_relinquish": "P010 alloc-after-relinquish",
    "peer_before_cluster_barrier": "P011 peer-before-cluster-barrier",
    "dealloc_without_the_peer": "P012 dealloc-without-the-peer",
    "copy_before_the_others": "P013 copy-before-the-others",
    "address_not_published": "P014 address-not-published",
}
WARNED = {"init_without_fence": "P002 init-without-fence"}
"""What the emulator only warns of."""
RIGHT = (
    "good",
    "read_before_the_wait",
    "left_pending",
    "freed_by_another_warp",
    "fenced_by_the_copying_lane",
    "counted_by_one_lane_of_a_number",
    "noted_aside",
    "pending_flag",
    "fenced_before_a_weak_arrive",
)


@pytest.fixture(scope="module")
def probe(compile_ptx: CompilePtx) -> Module:
    return parse_ptx(compile_ptx(PROBE, "sm_100a", "-lineinfo", "-Ikernel"), "probe.ptx")


def outcomes(checks: tuple[Check, ...], outcome: Outcome) -> list[str]:
    return [c.name for c in checks if c.verdict.outcome is outcome]


def test_every_rule_has_a_kernel_that_breaks_it() -> None:
    assert {r.rule.title for r in RULES} == {*BROKEN.values(), *WARNED.values()}
    assert [r.rule.code for r in RULES] == [f"P{n:03}" for n in range(1, len(RULES) + 1)]


def test_every_entry_of_the_probe_is_judged(probe: Module) -> None:
    assert {e.name for e in probe.entries} == {*BROKEN, *WARNED, *RIGHT}


@pytest.mark.parametrize(("entry", "rule"), BROKEN.items())
def test_a_broken_kernel_breaks_its_rule_alone(entry: str, rule: str, probe: Module) -> None:
    checks = check_ptx(probe, entry, SOURCE)
    assert outcomes(checks, Outcome.FAIL) == [rule]
    assert outcomes(checks, Outcome.ERROR) == []
    (check,) = (c for c in checks if c.name == rule)
    for finding in check.findings:
        assert finding.kind == rule.split(" ", 1)[1]
        assert finding.kernel == entry
        assert finding.file == PROBE
        assert finding.line > 0
        assert re.fullmatch(r"[^\n]+[^.\n]", finding.message)
    assert [line.split(":")[0] for line in check.verdict.evidence] == [
        "what",
        "why",
        "suggested fix",
    ]


@pytest.mark.parametrize(("entry", "rule"), WARNED.items())
def test_what_the_emulator_only_warns_of_is_a_pass_with_a_warning(
    entry: str, rule: str, probe: Module
) -> None:
    checks = check_ptx(probe, entry, SOURCE)
    assert outcomes(checks, Outcome.PASS) == [r.rule.title for r in RULES]
    (warned,) = (c for c in checks if c.warning)
    assert (warned.name, warned.findings) == (rule, ())
    assert "barrier.cluster.arrive.relaxed.aligned does not publish" in warned.warning
    assert warned.warning in warned.verdict.summary


@pytest.mark.parametrize("entry", RIGHT)
def test_a_right_kernel_passes_every_rule(entry: str, probe: Module) -> None:
    checks = check_ptx(probe, entry, SOURCE)
    assert outcomes(checks, Outcome.PASS) == [r.rule.title for r in RULES]


@pytest.mark.parametrize(
    "variant", mostly_long(["production", "timing", "debug", "guard"], "production", "guard")
)
def test_the_megakernel_passes_every_rule(variant: str, own_ptx: OwnPtx) -> None:
    module = parse_ptx(own_ptx("patch_embed", "sm_100a", variant), "megakernel.ptx")
    checks = check_ptx(module, "patch_embed_gemm", "kernel/sm100a_patch_embed_fp8.cu")
    assert outcomes(checks, Outcome.PASS) == [r.rule.title for r in RULES]


def test_a_pass_says_how_much_was_judged(probe: Module) -> None:
    checks = {c.name: c for c in check_ptx(probe, "good", SOURCE)}
    copies = checks["P001 store-without-proxy-fence"]
    assert copies.verdict.summary == "bulk copies out of shared memory: 1 judged"
    assert copies.facts == {"bulk copies out of shared memory": "1"}


def test_a_finding_names_both_ends_and_the_helpers(probe: Module) -> None:
    checks = check_ptx(probe, "store_without_proxy_fence", SOURCE)
    (finding,) = checks[0].findings
    assert re.sub(r":\d+", ":N", finding.message) == (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group may read what st.shared.v4.b32"
        " at ptx_rules.cu:N epilogue wrote, unfenced"
    )
    assert re.sub(r":\d+", ":N", Place(finding.frames).text) == (
        "ptx.cuh:N tma_store_2d, in ptx_rules.cu:N epilogue, in ptx_rules.cu:N body,"
        " in ptx_rules.cu:N store_without_proxy_fence"
    )


def test_what_is_not_there_is_not_asked_for(compile_ptx: CompilePtx) -> None:
    text = compile_ptx("tests/ptx/probes/language.cu", "sm_100a", "-lineinfo")
    checks = check_ptx(parse_ptx(text, "language.ptx"), "language", "language.cu")
    assert outcomes(checks, Outcome.PASS) == ["P008 aligned-by-one-lane"]
    assert len(outcomes(checks, Outcome.SKIP)) == len(RULES) - 1
    assert checks[0].verdict.summary == "no bulk copies out of shared memory in 'language'"


def test_an_entry_that_is_not_there_is_an_error_of_every_rule(probe: Module) -> None:
    checks = check_ptx(probe, "nobody", SOURCE)
    assert len(outcomes(checks, Outcome.ERROR)) == len(RULES)
    assert checks[0].verdict.summary.startswith("no code of 'nobody' in probe.ptx; entries: good, ")
