"""Mistakes in budgets, tunables and SASS rules come back with file, line and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.tuned_defaults import with_defaults
from kernelrig.errors import ConfigError
from kernelrig.model import Budget, Role, SassRule, Tunable

from tests.config.projects import Project, mistakes

KERNEL = """\
schema: 1
kernels:
  gemm:
    level: 0
    sources: {sm_100a: gemm.cu}
    variants:
      production: {program: gemm, defines: {DEPTH: 5, KERNELRIG_TIMING: 1}}
    budgets: {sm_100a: {production: {registers: 236}}}
    tunables:
      sm_100a:
        DEPTH: {default: 4, values: [3, 4, 5], structural: true}
        UNROLL: {default: 6, values: [1, 2, 3, 6]}
    sass:
      sm_100a:
        source: gemm.cu
        roles:
          mma: {issues: [UTCQMMA]}
        rules:
          - {code: S001, name: mma-is-there, what: a, why: b, fix: c, must_have: [UTCQMMA.2CTA]}
          - {code: S002, name: mma-count, what: a, why: b, fix: c, role: mma,
             count: {UTCQMMA: 4 * UNROLL}}
          - {code: S003, name: fence-first, what: a, why: b, fix: c,
             order: [FENCE, UTMASTG], since: STS}
"""


def load(project: Project, old: str = "", new: str = "") -> Path:
    assert old in KERNEL
    project("kernel/gemm.cu", "")
    return project("kernel/kernels.yaml", KERNEL.replace(old, new) if old else KERNEL)


def test_what_a_kernel_is_held_to_is_read_whole(project: Project) -> None:
    kernel = config.load_kernels(load(project))["gemm"]
    assert kernel.budgets == {"sm_100a": {"production": Budget(registers=236)}}
    assert kernel.tunables["sm_100a"]["DEPTH"] == Tunable(4, (3, 4, 5), structural=True)
    said = kernel.sass["sm_100a"]
    assert said.roles == {"mma": Role("mma", ("UTCQMMA",))}
    assert said.rules[1] == SassRule(
        "S002", "mma-count", "a", "b", "c", role="mma", count={"UTCQMMA": "4 * UNROLL"}
    )


FLAG = "UNROLL: {default: 6, values: [1, 2, 3, 6]"


def test_a_tunable_is_a_flag_from_schema_4_on(project: Project) -> None:
    root = load(project, FLAG, f"{FLAG}, flag: '--maxrregcount={{}}', without: 6")
    said = [
        "kernel/kernels.yaml:12: 'flag' of a tunable needs a file of schema 4",
        "kernel/kernels.yaml:12: 'without' of a tunable needs a file of schema 4",
    ]
    assert mistakes(lambda: config.load_kernels(root)) == said
    path = root / "kernel/kernels.yaml"
    path.write_text(path.read_text().replace("schema: 1", "schema: 4"))
    unroll = config.load_kernels(root)["gemm"].tunables["sm_100a"]["UNROLL"]
    assert unroll == Tunable(6, (1, 2, 3, 6), flag="--maxrregcount={}", without=6)


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        ("flag: '-x {}'", "'flag' of 'UNROLL' is '-x {}'; it must be one word that begins with"),
        ("flag: '-x$(id){}'", "'flag' of 'UNROLL' is '-x$(id){}'; it must be one word that begins"),
        ("flag: -x", "'flag' of 'UNROLL' is '-x'; it must be one word that begins with"),
        ("without: 6", "'without' of 'UNROLL' is the value at which its 'flag' is left out"),
        ("flag: '-x={}', without: 7", "'without' of 'UNROLL' is 7, which is not among its values"),
    ],
)
def test_a_flag_that_cannot_be_is_named(project: Project, said: str, mistake: str) -> None:
    root = load(project, FLAG, f"{FLAG}, {said}")
    path = root / "kernel/kernels.yaml"
    path.write_text(path.read_text().replace("schema: 1", "schema: 4"))
    (first,) = mistakes(lambda: config.load_kernels(root))
    assert first.startswith(f"kernel/kernels.yaml:12: {mistake}")


def test_other_defaults_are_an_edit_of_the_text_alone(project: Project) -> None:
    root = load(project)
    old, new = with_defaults(root, "gemm", "sm_100a", {"DEPTH": 5, "UNROLL": 1})
    assert old == KERNEL
    assert new == KERNEL.replace("default: 4", "default: 5").replace("default: 6", "default: 1")
    odd = load(project, "default: 4", "default: 0x4")
    with pytest.raises(ConfigError, match="cannot be edited"):
        with_defaults(odd, "gemm", "sm_100a", {"DEPTH": 5})


def test_a_variant_changes_a_tunable_and_leaves_the_others(project: Project) -> None:
    kernel = config.load_kernels(load(project))["gemm"]
    assert kernel.tuned("sm_100a", "production") == {"DEPTH": 5, "UNROLL": 6}


def test_a_variant_beside_production_may_have_a_value_that_is_not_listed(project: Project) -> None:
    """What a sweep found beyond the list, or a bench is to try."""
    more = "      deep: {program: gemm_deep, defines: {DEPTH: 9}}"
    mark = "    variants:"
    kernel = config.load_kernels(load(project, mark, f"{mark}\n{more}"))["gemm"]
    assert kernel.tuned("sm_100a", "deep")["DEPTH"] == 9


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        (
            "{production: {registers",
            "{producton: {registers",
            "8: 'producton' is not a variant of 'gemm'; variants: production; "
            "did you mean 'production'?",
        ),
        ("DEPTH: 5", "DEPTH: 7", "7: 'DEPTH' must be one of 3, 4, 5, not 7"),
        ("DEPTH: 5", "DEPTH: '5'", "7: 'DEPTH' must be a whole number, not '5'"),
        (
            "DEPTH: 5",
            "DEPT: 5",
            "7: 'DEPT' is not a tunable of 'gemm'; did you mean 'DEPTH'?; tunables: DEPTH, UNROLL",
        ),
        (
            "default: 4",
            "default: 6",
            "11: 'default' of 'DEPTH' is 6, which is not among its values: 3, 4, 5",
        ),
        ("[3, 4, 5]", "[3, 4, 5, 3]", "11: 'values' of 'DEPTH' has a value twice"),
        (
            "      sm_100a:\n        DEPTH",
            "      sm_80:\n        DEPTH",
            "10: 'tunables' names 'sm_80', which has no source; sources: sm_100a",
        ),
        (
            "        UNROLL",
            "        KERNELRIG_X",
            "12: 'KERNELRIG_X' cannot be a tunable; use letters, digits and '_', and not "
            "the harness's KERNELRIG_*",
        ),
        (
            "      sm_100a:\n        source",
            "      sm_80:\n        source",
            "14: 'sass' names 'sm_80', which has no source; sources: sm_100a",
        ),
        (
            "mma: {issues: [UTCQMMA]}",
            "mma: {issues: []}",
            "17: role 'mma' has an empty 'issues'; name an instruction that only it issues",
        ),
        ("S001", "R001", "19: 'code' must be S and three digits, not 'R001'"),
        ("S003", "S001", "19: 'S001' occurs 2 times"),
        ("mma-is-there", "Mma_is", "19: 'name' must be in kebab-case, not 'Mma_is'"),
        (
            ", must_have: [UTCQMMA.2CTA]",
            "",
            "19: 'S001' must have exactly one of must_have, must_not_have, count, order, not none",
        ),
        ("role: mma,", "role: load,", "20: 'load' is not a role; roles: mma"),
        ("4 * UNROLL", "4 * ROLL", "21: no tunable is called 'ROLL'; tunables: DEPTH, UNROLL"),
        ("[FENCE, UTMASTG]", "[UTMASTG]", "23: 'order' needs two patterns or more"),
        (
            "must_have: [UTCQMMA.2CTA]",
            "must_have: [UTCQMMA.2CTA], since: STS",
            "19: 'since' belongs to an 'order'",
        ),
        (
            "since: STS",
            "since: STS, within: loops",
            "23: an 'order' is judged over the whole function",
        ),
        (
            "must_have: [UTCQMMA.2CTA]",
            'must_have: [UTCQMMA.2CTA], function: "gemm("',
            "19: 'function' is not a regular expression: "
            "missing ), unterminated subpattern at position 4",
        ),
        ("fix: c, must", "must", "19: missing key 'fix' in item 1 of 'rules'"),
    ],
)
def test_a_mistake_is_named(project: Project, old: str, new: str, mistake: str) -> None:
    root = load(project, old, new)
    first = mistakes(lambda: config.load_kernels(root))[0]
    assert first == f"kernel/kernels.yaml:{mistake}"
