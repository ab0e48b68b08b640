"""The rules that wait for the Hopper kernel, tried on a small one: right, and broken each way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.check import Subject
from ci.check.role_graph import part_roles
from ci.check.sass_rules import check_sass
from ci.model import Check, Outcome
from tests.check.megakernel import kernel
from tests.sass_fixture import PROBES, Compile
from tests.toolchain_fixture import REPOSITORY

PROBE = REPOSITORY / PROBES / "roles_sm90a.cu"

BREAKS = {
    "S102": (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        '"\n               " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),\n'
        '               "l"(map), "r"(0), "r"(y), "r"(bar)\n',
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        '"\n               " [%0], [%1], 4096, [%2];" ::"r"(to),\n'
        '               "l"(map), "r"(bar)\n',
        "no UTMALDG.2D of role loader",
    ),
    "S103": (
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group",
        "no UTMASTG.2D of role product",
    ),
    "S104": (
        '"fence.proxy.async.shared::cta;\\n"\n',
        '""\n',
        "UTMASTG.2D is reached from the STS",
    ),
    "S105": (
        "  float d[4] = {};\n",
        "  float d[4] = {}; volatile float heap[64]; heap[tile % 64] = 1;\n",
        "STL",
    ),
}


def answers(compile_sass: Compile, source: Path, shape: str = "") -> dict[str, Check]:
    """Judge the probe by the rules for sm_90a as though it were the Hopper kernel."""
    known = kernel()
    said = replace(known.sass["sm_90a"], source=source.name)
    if shape:
        first = replace(said.rules[0], must_have=(shape,))
        said = replace(said, rules=(first, *said.rules[1:]))
    told = replace(
        known, kernel_regex="^right$", sources={"sm_90a": source.name}, sass={"sm_90a": said}
    )
    subject = Subject(told, "sm_90a", "production")
    flow = compile_sass(str(source), "sm_90a").flow("right")
    checks = check_sass(subject, [part_roles(flow, subject.roles)])
    return {check.name.split()[0]: check for check in checks}


def test_a_right_kernel_keeps_them_all(compile_sass: Compile) -> None:
    said = answers(compile_sass, PROBE, shape="QGMMA.64x8x32.F32.E4M3.E4M3")
    assert sorted(said) == ["S101", *sorted(BREAKS)]
    assert {check.verdict.outcome for check in said.values()} == {Outcome.PASS}


def test_a_narrower_product_is_not_the_one_that_is_meant(compile_sass: Compile) -> None:
    check = answers(compile_sass, PROBE)["S101"]
    assert check.verdict.outcome is Outcome.FAIL
    assert check.verdict.summary == "no QGMMA.64x256x32.F32.E4M3.E4M3 of role product"


@pytest.mark.parametrize("code", BREAKS)
def test_a_rule_fails_on_the_compiled_kernel_that_breaks_it(
    code: str, compile_sass: Compile, tmp_path: Path
) -> None:
    old, new, complaint = BREAKS[code]
    text = PROBE.read_text()
    assert text.count(old) == 1
    (tmp_path / "broken.cu").write_text(text.replace(old, new))
    check = answers(compile_sass, tmp_path / "broken.cu")[code]
    assert check.verdict.outcome is Outcome.FAIL, check.verdict.summary
    assert check.verdict.summary.startswith(complaint)
