"""Every SASS rule of kernels.yaml holds for the megakernel, and fails where the code breaks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Check, Outcome, Role, SassRule, Toolchain
from kernelrig.static import Subject
from kernelrig.static.sass_rules import check_sass

from tests.long_cases import mostly_long
from tests.static.megakernel import SOURCE, Compiled, Edit, compile_kernel, kernel

TCGEN05 = "kernel/tcgen05.cuh"
PTX = "kernel/ptx.cuh"

BREAKS: dict[str, tuple[tuple[Edit, ...], str]] = {
    "S001": (
        ((TCGEN05, "tcgen05.mma.cta_group::2.kind::f8f6f4", "tcgen05.mma.cta_group::2.kind::f16"),),
        "no UTCQMMA.2CTA of role mma",
    ),
    "S002": (
        ((SOURCE, "k < Config::BLOCK_K; k += Config::MMA_K", "k < 96; k += Config::MMA_K"),),
        "18 UTCQMMA of role mma, not 24 (4 * K_LOOP_UNROLL)",
    ),
    "S003": (
        tuple(
            (
                TCGEN05,
                f'"cp.async.bulk.tensor.2d.cta_group::2{rest}',
                f'"cp.async.bulk.tensor.2d{rest}',
            )
            for rest in (
                '.shared::cluster.global.tile"\n               ".mbarrier::complete_tx::bytes [%0]',
                '.shared::cluster.global.tile"\n'
                '      ".mbarrier::complete_tx::bytes.L2::cache_hint',
            )
        ),
        "no UTMALDG.2D.2CTA of role load",
    ),
    "S004": (
        (
            (
                SOURCE,
                "tcgen05::load_columns(load.accumulators, from + number * TMEM_LOAD_WIDTH);",
                "for (uint32_t &word : load.accumulators) word = from + number;",
            ),
        ),
        "no LDTM of role epilogue",
    ),
    "S005": (
        (
            (
                PTX,
                '"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint',
                '"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group.L2::cache_hint',
            ),
        ),
        "no UTMASTG.2D of role epilogue",
    ),
    "S006": (
        (
            (
                TCGEN05,
                '               ".multicast::cluster.b64 [%0], %1;" ::"r"(barrier),\n'
                '               "h"(cta_mask)\n',
                '               ".b64 [%0];" ::"r"(barrier)\n',
            ),
        ),
        "no UTCBAR.2CTA.MULTICAST of role mma",
    ),
    "S007": (
        ((SOURCE, "    ptx::fence_proxy_async_shared();\n", ""),),
        "UTMASTG.2D is reached from the STS.128 at ",
    ),
    "S008": (
        (
            (
                SOURCE,
                "__launch_bounds__(Config::THREADS, 1)",
                "__launch_bounds__(Config::THREADS, 3)",
            ),
        ),
        "LDL in a loop",
    ),
    "S009": (
        ((PTX, "  return elected != 0;\n", "  return threadIdx.x % 32 == 0;\n"),),
        "BRA.U.ANY",
    ),
    "S010": (
        (
            (
                SOURCE,
                "      stagger();\n      __syncwarp();\n",
                "      stagger();\n      __syncthreads();\n",
            ),
        ),
        "BAR.SYNC.DEFER_BLOCKING in a loop",
    ),
}
"""What breaks each rule, and how the rule then begins to complain."""


def answers(compiled: Compiled, subject: Subject | None = None) -> dict[str, Check]:
    return {
        check.name.split()[0]: check
        for check in check_sass(subject or compiled.subject, [compiled.graph])
    }


@pytest.fixture(scope="module")
def good(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compile_kernel(tmp_path_factory.mktemp("good"), cuda_toolchain)


def test_the_megakernel_keeps_every_rule(good: Compiled) -> None:
    said = answers(good)
    assert sorted(said) == sorted(BREAKS)
    assert {check.verdict.outcome for check in said.values()} == {Outcome.PASS}
    assert said["S002"].facts == {"UTCQMMA": "24, wanted 24 (4 * K_LOOP_UNROLL)"}


@pytest.mark.parametrize("code", mostly_long(BREAKS, "S002", "S003", "S007"))
def test_a_rule_fails_on_the_compiled_kernel_that_breaks_it(
    code: str, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    edits, complaint = BREAKS[code]
    check = answers(compile_kernel(tmp_path / "broken", cuda_toolchain, edits))[code]
    assert check.verdict.outcome is Outcome.FAIL, check.verdict.summary
    assert check.verdict.summary.startswith(complaint)
    assert [line.split(":")[0] for line in check.verdict.evidence] == [
        "what",
        "why",
        "suggested fix",
    ]


def test_what_must_not_be_there_is_found_on_its_line(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    edits, _ = BREAKS["S010"]
    root = tmp_path / "broken"
    check = answers(compile_kernel(root, cuda_toolchain, edits))["S010"]
    lines = (root / SOURCE).read_text().splitlines()
    assert check.findings
    for finding in check.findings:
        assert (finding.tool, finding.kind) == ("check", "no-cta-barrier-in-loops")
        assert (finding.kernel, finding.file) == ("patch_embed_gemm", SOURCE)
        assert 0 < finding.line <= len(lines)


def test_the_count_follows_the_tunable(cuda_toolchain: Toolchain, tmp_path: Path) -> None:
    compiled = compile_kernel(tmp_path / "unrolled", cuda_toolchain, K_LOOP_UNROLL=3)
    assert answers(compiled)["S002"].verdict.outcome is Outcome.FAIL
    known = kernel()
    way = replace(known.variants["production"], defines={"K_LOOP_UNROLL": 3})
    told = replace(known, variants={"production": way})
    said = answers(compiled, Subject(told, "sm_100a", "production"))["S002"]
    assert said.facts == {"UTCQMMA": "12, wanted 12 (4 * K_LOOP_UNROLL)"}


def with_rule(subject: Subject, rule: SassRule) -> Subject:
    said = replace(subject.kernel.sass[subject.arch], rules=(rule,))
    return replace(subject, kernel=replace(subject.kernel, sass={subject.arch: said}))


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (
            SassRule("S900", "n", "a", "b", "c", function="no_such", must_have=("EXIT",)),
            "no function is called 'no_such'",
        ),
        (
            SassRule("S900", "n", "a", "b", "c", order=("MEMBAR", "UTMAPF")),
            "no UTMAPF to judge in patch_embed_gemm",
        ),
    ],
)
def test_a_rule_without_anything_to_judge_is_an_error(
    good: Compiled, rule: SassRule, reason: str
) -> None:
    (check,) = check_sass(with_rule(good.subject, rule), [good.graph])
    assert (check.verdict.outcome, check.verdict.summary) == (Outcome.ERROR, reason)


def test_a_rule_of_a_role_that_is_not_there_is_an_error(good: Compiled) -> None:
    rule = SassRule("S900", "n", "a", "b", "c", role="idler", must_not_have=("LDL",))
    subject = with_rule(good.subject, rule)
    said = replace(subject.kernel.sass["sm_100a"], roles={"idler": Role("idler", ("UTMAPF",))})
    subject = replace(subject, kernel=replace(subject.kernel, sass={"sm_100a": said}))
    compiled = replace(good, subject=subject)
    (check,) = check_sass(subject, [compiled.graph])
    assert check.verdict.outcome is Outcome.ERROR
    assert check.verdict.summary == "role idler was not found in patch_embed_gemm"


def test_a_rule_that_is_asked_of_other_variants_is_skipped(good: Compiled) -> None:
    said = answers(good, replace(good.subject, variant="guard"))["S009"]
    assert (said.verdict.outcome, said.verdict.summary) == (
        Outcome.SKIP,
        "asked of production, timing alone",
    )


def test_a_build_of_another_source_is_not_judged_by_the_rules(good: Compiled) -> None:
    """A stand-in may be built for an arch whose own kernel is worked on."""
    stand_in = replace(kernel(), sources={"sm_90a": "cuda_patch_embed_fp8.cu"})
    (check,) = check_sass(Subject(stand_in, "sm_90a", "production"), [good.graph])
    assert (check.name, check.verdict.outcome) == ("S000 sass-rules", Outcome.SKIP)
    assert check.verdict.summary == (
        "no SASS rules for cuda_patch_embed_fp8.cu; "
        "those for sm_90a are for sm90a_patch_embed_fp8.cu"
    )
