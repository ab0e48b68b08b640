"""Profile plans are right on every chip that they are for, or refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.config.load import OWN_PLANS, load_plan
from kernelrig.config.ncu_catalogue import CHIPS, load_catalogue
from kernelrig.config.profile_plans import load_profile_plans
from kernelrig.errors import ConfigError
from kernelrig.model import ProfilePlan

ROOT = Path(__file__).parents[2]
QUESTIONS = [
    *("barriers", "baseline", "global-loads", "memory", "predication"),
    *("source", "stalls", "stores", "tensor", "tmem"),
]
GOOD = """\
schema: 1
question: is it slow?
hypothesis: it is
sections: [WarpStateStats]
metrics: [smsp__inst_executed.sum, smsp__cycles_active.avg]
values:
  ipc: smsp__inst_executed.sum / smsp__cycles_active.avg
rules:
  - name: slow
    when: ipc < 1
    means: few instructions are issued
    do: issue more
"""


def project(folder: Path, text: str, name: str = "own") -> Path:
    (folder / "kernel").mkdir()
    (folder / f"kernel/profile-{name}.yaml").write_text(text)
    return folder


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_profile_plans(project(folder, text), ["own"], "gh100")
    return str(caught.value)


@pytest.mark.parametrize("chip", CHIPS.values())
def test_every_plan_is_right_on_both_chips(chip: str) -> None:
    plans = load_profile_plans(ROOT, (), chip)
    wanted = [name for name in QUESTIONS if name != "tmem" or chip == "gb100"]
    assert [plan.name for plan in plans] == wanted


@pytest.mark.parametrize("chip", CHIPS.values())
def test_the_names_of_every_plan_are_in_the_catalogue(chip: str) -> None:
    catalogue = load_catalogue(ROOT, chip)
    for plan in load_profile_plans(ROOT, (), chip):
        assert [w for m in plan.metrics_on(chip) if (w := catalogue.wrong_metric(m))] == []
        assert set(plan.sections) <= catalogue.sections
        for name, value in plan.options.items():
            assert catalogue.wrong_option(f"--{name}", str(value)) == ""


def test_a_plan_next_to_the_kernel_is_one_of_the_projects(tmp_path: Path) -> None:
    plans = {p.name: p for p in load_profile_plans(project(tmp_path, GOOD), (), "gh100")}
    assert isinstance(plans["own"], ProfilePlan)
    assert plans["own"].values == {"ipc": "smsp__inst_executed.sum / smsp__cycles_active.avg"}
    assert set(QUESTIONS) - {"tmem"} < set(plans)


def test_a_projects_plan_stands_before_the_packages_of_its_name(tmp_path: Path) -> None:
    (plan,) = load_profile_plans(project(tmp_path, GOOD, "stalls"), ["stalls"], "gh100")
    assert plan.question == "is it slow?"


def test_an_unknown_plan_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^unknown profile plan 'stals'; plans: .*'stalls'\?$"):
        load_profile_plans(tmp_path, ["stals"], "gh100")


def test_a_plan_of_another_chip_is_refused_where_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^plan tmem is for gb100, not gh100$"):
        load_profile_plans(tmp_path, ["tmem"], "gh100")


def test_a_profile_plan_is_no_plan_of_stages(tmp_path: Path) -> None:
    assert any(path.stem == "profile-stalls" for path in OWN_PLANS.glob("*.yaml"))
    with pytest.raises(ConfigError, match=r"^unknown plan 'profile-stalls'; plans: [^-]*; did"):
        load_plan(tmp_path, "profile-stalls")


METRIC = "metrics: [smsp__inst_executed.sum, smsp__cycles_active.avg]"
ERRATA_METRICS = {
    "sm__pipe_tensor_op_tcgen05_stalled_reason.avg": "smsp__warps_issue_stalled_",
    "smsp__sass_warp_efficiency.avg": "smsp__thread_inst_executed_pred_on.sum",
    "smsp__inst_executed_not_predicated_off.avg": "smsp__inst_executed.sum",
    "smsp__thread_inst_executed_not_predicated_off.sum": "smsp__thread_inst_executed_pred_on.sum",
    "l1tex__m_xbar2l1tex_write_bytes.sum": "l1tex__m_l1tex2xbar_write_bytes.sum",
}


@pytest.mark.parametrize(("wrong", "right"), ERRATA_METRICS.items())
def test_a_metric_that_never_was_is_refused_with_what_to_use(
    tmp_path: Path, wrong: str, right: str
) -> None:
    said = refusal(tmp_path, GOOD.replace(METRIC, f"{METRIC[:-1]}, {wrong}]"))
    base = wrong.partition(".")[0]
    for chip in ("gb100", "gh100"):
        assert f"kernel/profile-own.yaml:5: {chip} has no metric '{base}' (ncu 2025.3.1); " in said
    assert right in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("options: {set: source}", "no set 'source'; use --section SourceCounters --section Warp"),
        ("options: {source-level: all}", "no option --source-level; use --section SourceCounters"),
        ("sections: [WarpStateStatistics]", "no section 'WarpStateStatistics'; did you mean Warp"),
        (
            "options: {page: raw}",
            "'page' is no option of a plan: reports are read here; `ncu --imp",
        ),
        (
            "options: {csv: x}",
            "'csv' is no option of a plan: reports are read here; `ncu --import ",
        ),
    ],
)
def test_an_option_that_never_was_is_refused_with_what_to_use(
    tmp_path: Path, line: str, said: str
) -> None:
    text = GOOD.replace("sections: [WarpStateStats]", line)
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "executed.sum,",
            "executed.summ,",
            ":5: 'smsp__inst_executed.summ' has the suffix '.summ'",
        ),
        ("executed.sum,", "executed,", ":5: 'smsp__inst_executed' has no suffix, which no counter"),
        (
            "inst_executed.sum,",
            "inst_exectued.sum,",
            ":5: gb100 has no metric 'smsp__inst_exectued",
        ),
        ("ipc < 1", "ipv < 1", ":10: the plan has no value 'ipv'; did you mean 'ipc'?"),
        ("ipc < 1", "smsp__cycles_active.max < 1", ":10: the plan has no metric 'smsp__cycles_act"),
        ("ipc < 1", "ipc", ":10: 'ipc' is a number, not true or false; compare with something"),
        ("ipc: smsp", "ipc: smp", ":7: the plan has no metric 'smp__inst_executed.sum'"),
        ("do: issue more", "do: ' '", ":12: 'do' of rule 'slow' is empty"),
        ("- name: slow", "- name: Slow!", ":9: 'name' must be in kebab-case, not 'Slow!'"),
        ("question: is it slow?", "question: ''", ":2: 'question' is empty"),
        ("schema: 1", "schema: 1\nlaunch_skip: -1", ":2: 'launch_skip' must be from 0 to 1000"),
        ("schema: 1", "schema: 1\nlaunch_count: 0", ":2: 'launch_count' must be from 1 to 1000"),
        (
            "schema: 1",
            "schema: 1\nreplay: range",
            ":2: 'replay' must be one of kernel, application",
        ),
        ("schema: 1", "schema: 1\nkernel: '('", ":2: 'kernel' is not a regular expression: "),
        ("schema: 1", "schema: 1\nchips: [gb10]", ":2: unknown chip 'gb10'; chips: gb100, gh100; "),
        ("schema: 1", "schema: 1\nname: x", ":2: unknown key 'name'; known keys: caches, chips, "),
        (
            "schema: 1",
            "schema: 1\noptions: {export: x}",
            ":2: 'export' is no option of a plan: the",
        ),
        (
            "schema: 1",
            "schema: 1\noptions: {metrics: x}",
            ":2: 'metrics' is no option of a plan: t",
        ),
        (
            "schema: 1",
            "schema: 1\noptions: {import-source: maybe}",
            "takes no, off, on, yes, not 'maybe'",
        ),
        ("rules:", "  1x: '1'\nrules:", ":8: '1x' cannot be a value's name"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert said in refusal(tmp_path, GOOD.replace(old, new, 1))


def test_a_rule_is_not_for_a_chip_that_lacks_its_metrics(tmp_path: Path) -> None:
    text = GOOD.replace("rules:", "on_chip: {gb100: [sm__mem_tensor_reads_op_ldt.sum]}\nrules:")
    text = text.replace("ipc < 1", "sm__mem_tensor_reads_op_ldt.sum > 0")
    (tmp_path / "a").mkdir()
    assert refusal(tmp_path / "a", text).endswith("put it under metrics on gh100")
    (tmp_path / "b").mkdir()
    ruled = text.replace("  - name: slow", "  - name: slow\n    chips: [gb100]")
    (plan,) = load_profile_plans(project(tmp_path / "b", ruled), ["own"], "gh100")
    assert plan.rules_on("gh100") == ()


def test_all_mistakes_of_a_plan_are_in_one_error(tmp_path: Path) -> None:
    text = GOOD.replace("ipc < 1", "ipc").replace("WarpStateStats", "WarpState")
    assert len(refusal(tmp_path, text).splitlines()) == 2
