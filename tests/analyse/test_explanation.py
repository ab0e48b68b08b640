"""What a profile means: causes and their estimates, on reports of an H200 and numbers made here."""

from __future__ import annotations

import ast
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.analyse.explain import explain_launch, join_launches
from kernelrig.analyse.explain.estimated_cost import estimated, interval
from kernelrig.analyse.profile_report import read_report
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Explanation,
    Metric,
    PowerUse,
    ProfiledLaunch,
    SharedPiece,
)
from kernelrig.report import render_explain_file, render_explanation

from tests.analyse.evidence import names
from tests.command_server import run_command

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "tests/data/ncu/2025.3.1-reports"
PLANTED = "KERNELRIG_PLANTED_REPORTS"
MOST_CHARACTERS = 6000
"""Of an answer as JSON: less than 2,000 tokens, which have three characters each."""


def test_a_launch_with_nothing_to_gain_has_no_cause() -> None:
    assert names(("STG.E [R2], R4", 1000, 32, {"lg": 5})) == []


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("fences", ("ERRBAR", 1000, 32, {"membar": 200})),
        ("lanes-off", ("@P0 STG.E [R2], R4", 1000, 4, {"lg": 200})),
        ("atomics", ("RED.E.ADD.STRONG.GPU [R2], R4", 1000, 32, {"lg": 200})),
    ],
)
def test_a_cause_of_instructions_is_named_where_they_cost(
    cause: str, line: tuple[str, int, int, dict[str, int]]
) -> None:
    assert names(line)[0] == cause
    sass, executed, _, _ = line
    assert cause not in names((sass, executed, 32, {"selected": 1}))


def test_every_cause_is_documented_and_no_other() -> None:
    named: set[str] = set()
    for file in (ROOT / "ci/kernelrig/analyse/explain").glob("*_causes.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            called = (
                node.func.id
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                else ""
            )
            if called in ("estimated", "_partly_used"):
                assert isinstance(node, ast.Call)
                words = ast.walk(node.args[called == "_partly_used"])
                named |= {
                    w.value
                    for w in words
                    if isinstance(w, ast.Constant) and isinstance(w.value, str)
                }
    _, _, rest = (ROOT / "ci/docs/profiles.md").read_text().partition("| cause |")
    assert named == set(re.findall(r"`([a-z0-9-]+)`", rest.partition("\n\n")[0]))


@pytest.mark.parametrize("estimate", [0.01, 0.2, 0.414, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("most", [1.0, 0.6, 0.1])
def test_no_interval_is_wider_than_a_factor_of_two(estimate: float, most: float) -> None:
    low, high = interval(estimate, most)
    assert 0 < low <= high <= most
    assert high / low <= 2.001
    assert (1 - low) / (1 - high) <= 2.001, "in times as fast"
    if most == 1.0:
        assert low < estimate < high


def test_a_launch_of_which_all_may_be_saved_has_a_finite_speedup() -> None:
    (cause,) = estimated("idle-sms", "one CTA", "launch more", estimate=1.0, most=1.0)
    assert (cause.least_percent, cause.most_percent) == (99.9, 99.9)
    none = dict[str, float]()
    x = Explanation(
        "k", "H200", "latency", none, none, 0.0, 0.0, None, none, none, none, none, None, None,
        (cause,), (cause.name,), (),
    )  # fmt: skip
    assert "to 99.9% of the time" in render_explanation(x)


def explained(report: str, library: Path) -> Explanation:
    (launch,) = read_report(REPORTS / f"{report}.ncu-rep", library)
    return explain_launch(launch)


def test_what_a_profile_did_not_measure_has_no_figure(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    assert explain_launch(launch).memory["dram_read_bytes"] > 0
    metrics = {n: m for n, m in launch.metrics.items() if not n.startswith("dram__bytes_read")}
    without = explain_launch(replace(launch, metrics=metrics, instructions=()))
    assert "l2_hit_percent" in without.memory
    assert not {"dram_read_bytes", "excess_sectors", "bank_conflict_waves"} & set(without.memory)


def test_bank_conflicts_of_a_transpose_come_first_with_their_line(ncu_report: Path) -> None:
    x = explained("slow", ncu_report)
    assert x.suggestions[0] == x.causes[0].name == "bank-conflicts"
    assert "uncoalesced" in {c.name for c in x.causes}
    assert x.bound.startswith("l1")
    assert x.causes[0].figures["conflict_percent"] > 90
    source = (REPORTS / "two_kernels.cu").read_text().splitlines()
    name, _, line = x.causes[0].at[0].partition(":")
    assert name == "two_kernels.cu"
    assert "[" in source[int(line) - 1]
    assert x.shared is not None
    assert [(p.name, p.size_bytes) for p in x.shared.pieces] == [("driver", 1024), ("static", 4096)]


def test_a_copy_gets_no_advice(ncu_report: Path) -> None:
    x = explained("good", ncu_report)
    assert x.suggestions == ()
    assert "nothing to gain" in render_explanation(x)


def test_no_time_under_ncu_is_shown(ncu_report: Path) -> None:
    text = render_explanation(explained("slow", ncu_report))
    assert " ms" not in text
    assert "estimated" in text


def test_power_is_of_nvml_and_names_joules(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    power = PowerUse("r1", 0.9, 698.0, 700.0, 0.6282, 1320.0)
    x = explain_launch(launch, power=power, pieces=[SharedPiece("a|b\x1b[0m", 0, 64)])
    assert x.bound.startswith("power, with l1 busy")
    assert "0.628 J a launch at 698 of 700 W" in render_explanation(x)
    shown = render_explain_file(x)
    assert "0.628 J" in shown
    assert "\x1b" not in shown + render_explanation(x)


def test_a_low_clock_is_no_power_limit_where_nvml_saw_none(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    rate = "gpc__cycles_elapsed.avg.per_second"
    cold = replace(launch, metrics=launch.metrics | {rate: Metric(rate, 1.5e9)})
    x = explain_launch(cold)
    assert x.bound == (
        "l1, busy 97% of the cycles; the SM clock is 76% of its highest: power may limit it"
    )
    assert "power" in {c.name for c in x.causes}
    cool = PowerUse("r1", 0.9, 350.0, 700.0, 0.3, 1980.0)
    x = explain_launch(cold, power=cool)
    assert x.bound == "l1, busy 97% of the cycles"
    assert "power" not in {c.name for c in x.causes}
    hot = PowerUse("r1", 0.9, 699.0, 700.0, 0.6, 1400.0)
    (cause,) = (c for c in explain_launch(launch, power=hot).causes if c.name == "power")
    assert cause.figures["sm_mhz"] == 1400


def test_parts_of_a_launch_are_joined_and_two_kernels_are_not() -> None:
    one = ProfiledLaunch("k", "k()", {"a": Metric("a", 1.0)})
    two = replace(one, metrics={"b": Metric("b", 2.0)})
    assert join_launches([one, two]).values() == {"a": 1.0, "b": 2.0}
    with pytest.raises(ProtocolError, match="2 kernels were profiled: k, other"):
        join_launches([one, replace(two, kernel="other")])
    with pytest.raises(ProtocolError, match="no throughput of a unit"):
        explain_launch(one)


def test_explain_of_a_report_is_short_as_json(tmp_path: Path, ncu_report: Path) -> None:
    del ncu_report
    page = tmp_path / "explain.md"
    words = ["explain", str(REPORTS / "slow.ncu-rep"), "--json", "--markdown", str(page)]
    done = run_command(*words)
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout) < MOST_CHARACTERS
    found = json.loads(done.stdout)["explanation"]
    assert found["suggestions"][0] == "bank-conflicts"
    assert page.read_text().startswith("# slow_transpose")


CAUSES = {
    "bank-conflicts": "bank-conflicts",
    "uncoalesced-table": "uncoalesced",
    "ring-of-two": "short-ring",
    "serialising-barrier": "serial-section",
    "predicated-stores": "lanes-off",
    "low-occupancy": "low-occupancy",
    "spills": "local-memory",
    "idle-warpgroup": "idle-warps",
    "l2-thrashing": "reads-again",
    "power": "power",
    "needless-fences": "fences",
    "extra-syncthreads": "many-barriers",
}
"""What explain calls the causes of tests/slow."""


@pytest.mark.long
def test_planted_causes_are_explained_by_reports_of_an_h200(ncu_report: Path) -> None:
    folder = os.environ.get(PLANTED)
    if not folder:
        pytest.skip(f"{PLANTED} does not name the folder of the planted reports")
    planted = json.loads((ROOT / "tests/slow/causes.json").read_text())["slow"]
    found = {
        path.stem: explain_launch(read_report(path, ncu_report)[0])
        for path in sorted(Path(folder).glob("??.ncu-rep"))
    }
    assert set(planted) < set(found)
    first = [
        found[n].causes[0] for n in planted if CAUSES[planted[n]["name"]] == found[n].causes[0].name
    ]
    assert len(first) >= 10
    saved = {n: 100 * (1 - 1 / row["gain"]) for n, row in planted.items()}
    own = {n: found[n].causes[0] for n in planted}
    assert sum(c.least_percent <= saved[n] <= c.most_percent for n, c in own.items()) >= 9
    assert not any(x.suggestions for n, x in found.items() if n not in planted)
