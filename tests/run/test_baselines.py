"""A time compared with its baseline: faster, slower, inconclusive, or not compared and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import serialization
from kernelrig.files.manifest import write_manifest
from kernelrig.model import (
    Bench,
    Check,
    DeviceKind,
    Outcome,
    Plan,
    Provenance,
    Run,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    Verdict,
    passed,
)
from kernelrig.run import accepted_times, baselines, engine, recorded
from kernelrig.run.store import RunDirectory

from tests.stages import bench

STAGE = Stage("timing", StageKind.TIMING, case="full", samples=4)
FILE = "artifacts/baselines/nvidia-h200-700w-580.json"
ALL = accepted_times.Overrides(dirty=True, unchecked=True)
ENTRY = "patch_embed-sm_90a-production images=7,ctas=0"


def record(**changes: Any) -> StageRecord:  # noqa: ANN401 - any field
    verdict = passed("1.000 ms")
    whole = StageRecord(
        "timing",
        StageKind.TIMING,
        DeviceKind.GPU,
        "NVIDIA H200",
        verdict,
        (Check("time", verdict, facts={"median": "1.0000 ms"}),),
        variant="production",
        build="4ff5e3f3dbb79999",
    )
    return replace(whole, **changes)


def put(
    root: Path,
    number: int,
    ms: float,
    *,
    timing: StageRecord | None = None,
    spoil: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401 - any field of a run
) -> tuple[Path, Run]:
    """Leave a run on file whose one timing stage took `ms`, as if it had been judged."""
    name = f"20261121T12{number:02d}00Z-patch_embed-h200-00{number:02d}"
    run = Run(
        id=name,
        kernel=bench.KERNEL,
        variant="production",
        arch="sm_90a",
        remote=bench.H200,
        plan=Plan("default", (STAGE,)),
        provenance=Provenance("c0ffee0123456789", "", "0.1.0", "", "", {}, ""),
        started_utc=f"2026-11-21T12:{number:02d}:00Z",
        state="finished",
        jobs=(StageJob("timing", StageKind.TIMING, ()),),
        host=bench.HOST,
        stages=(timing or record(),),
    )
    run = replace(run, **changes)
    result = bench.result("time", "random") | {"samples_ms": [ms * 0.99, ms, ms, ms * 1.01]}
    for path, value in (spoil or {}).items():
        result = bench.invalidated(result, path, value)
    folder = root / "artifacts/runs" / name
    bench.write(folder / "stages/01-timing", {"timing.json": result})
    (folder / "run.json").write_text(serialization.to_json(run))
    write_manifest(folder)
    return folder, run


def beside(root: Path, ms: float, number: int = 50, **changes: Any) -> Check:  # noqa: ANN401 - as above
    folder, run = put(root, number, ms, **changes)
    directory = RunDirectory(root, folder, run)
    judged = engine.with_comparison(directory, run.stages[0], run.stages)
    return {c.name: c for c in judged.checks}["baseline"]


def accept(root: Path, times: tuple[float, ...], **changes: Any) -> str:  # noqa: ANN401 - as above
    said = ""
    for number, ms in enumerate(times):
        folder, _ = put(root, number, ms, **changes)
        said = accepted_times.accept(root, str(folder), ALL)
    return said


def refused(root: Path, folder: Path, overrides: accepted_times.Overrides = ALL) -> str:
    before = sorted(root.glob("artifacts/baselines/*"))
    with pytest.raises(ConfigError) as caught:
        accepted_times.accept(root, str(folder), overrides)
    assert sorted(root.glob("artifacts/baselines/*")) == before
    return str(caught.value).replace(folder.name, "RUN")


def test_without_a_file_the_class_is_named(tmp_path: Path) -> None:
    check = beside(tmp_path, 1.0)
    assert check.verdict == Verdict(Outcome.SKIP, "no baseline for NVIDIA H200, 700 W, driver 580")


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (1.05, "slower compared with the baseline, +4.97% (+3.14 to +6.82)"),
        (0.95, "faster compared with the baseline, -5.03% (-6.68 to -3.36)"),
        (1.005, "inconclusive compared with the baseline, +0.47% (-1.28 to +2.24)"),
    ],
)
def test_a_run_is_judged_by_the_spread_of_the_runs_on_its_card(
    tmp_path: Path, ms: float, said: str
) -> None:
    accept(tmp_path, (1.0, 1.002, 0.999))
    check = beside(tmp_path, ms)
    assert check.verdict.summary == f"{said}: the same build, 3 runs on this card"
    assert check.verdict.outcome is Outcome.PASS
    facts = check.facts
    assert facts["result"] == said.split()[0]
    assert facts["host class"] == "NVIDIA H200, 700 W, driver 580"
    assert facts["baseline build"] == "4ff5e3f3dbb79999"
    assert facts["baseline commits"] == "c0ffee012345"
    assert facts["baseline SM clock"] == "1395 MHz"
    assert facts["regime"] == "steady after 1.0 s, random data"
    assert facts["baseline checks"].startswith("outdated: ")


def test_runs_that_agree_by_accident_do_not_make_a_tenth_of_a_percent_a_difference(
    tmp_path: Path,
) -> None:
    accept(tmp_path, (1.0, 1.0, 1.0))
    assert beside(tmp_path, 1.01).facts["result"] == "inconclusive"
    assert beside(tmp_path, 1.02).facts["result"] == "slower"


def test_a_run_that_was_accepted_is_not_compared_with_itself(tmp_path: Path) -> None:
    accept(tmp_path, (1.0,))
    assert beside(tmp_path, 1.0, number=0).verdict.summary == (
        f"no baseline of {ENTRY} for NVIDIA H200, 700 W, driver 580"
    )
    accept(tmp_path, (1.0, 1.0))
    assert beside(tmp_path, 1.0, number=0).facts["basis"] == "1 of 3 runs on this card"


@pytest.mark.parametrize("times", [(1.0,), (1.0, 1.001)])
def test_with_fewer_than_three_runs_the_result_is_inconclusive(
    tmp_path: Path, times: tuple[float, ...]
) -> None:
    accept(tmp_path, times)
    check = beside(tmp_path, 3.0)
    assert check.facts["result"] == "inconclusive"
    assert "interval" not in check.facts
    assert check.verdict.summary.endswith(
        f"the same build, {len(times)} of 3 runs on this card;"
        " a comparison needs 3 runs on one card, or 3 cards"
    )


def test_another_card_of_the_class_is_compared_by_how_cards_differ(tmp_path: Path) -> None:
    accept(tmp_path, (1.0, 1.001, 0.999))
    for number, ms, basis in ((1, 1.01, "none on this card"), (2, 0.99, "none on this card")):
        card = {"device.uuid": f"GPU-{number}"}
        seen = beside(tmp_path, 1.5, spoil=card)
        assert seen.facts["result"] == "inconclusive"
        assert seen.facts["basis"].endswith(basis)
        folder, _ = put(tmp_path, 10 + number, ms, spoil=card)
        accepted_times.accept(tmp_path, str(folder), ALL)
    told = beside(tmp_path, 1.5, spoil={"device.uuid": "GPU-3"})
    assert (told.facts["basis"], told.facts["result"]) == ("3 cards", "slower")
    # 1% is what its own runs tell apart, and what cards differ by.
    assert beside(tmp_path, 1.03, spoil={"device.uuid": "GPU-3"}).facts["result"] == "inconclusive"
    assert beside(tmp_path, 1.03).facts["result"] == "slower"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            {"regime": "steady after 0.3 s"},
            "not compared with the baseline: it is of 'steady after 1.0 s, random data', this of"
            " 'steady after 0.3 s, random data'",
        ),
        (
            {"clocks.during": [bench.CLOCK | {"throttle_reasons": "0x0000000000000006"}]},
            "not compared with the baseline: it is of 'steady after 1.0 s, random data', this of"
            " 'steady after 1.0 s, random data, application clocks'",
        ),
        (
            {"clocks.during": [bench.CLOCK | {"throttle_reasons": "who knows"}]},
            "not compared with the baseline: it is of 'steady after 1.0 s, random data', this of"
            " 'steady after 1.0 s, random data, throttle reasons 'who knows''",
        ),
        (
            {"clocks": {"during": [bench.CLOCK | {"power_limit_w": 600.0}]}},
            f"no baseline of {ENTRY} for NVIDIA H200, 600 W, driver 580;"
            " there is one for NVIDIA H200, 700 W, driver 580",
        ),
        (
            {"device.driver": "590.1"},
            f"no baseline of {ENTRY} for NVIDIA H200, 700 W, driver 590;"
            " there is one for NVIDIA H200, 700 W, driver 580",
        ),
        (
            {"device.name": "NVIDIA H100"},
            f"no baseline of {ENTRY} for NVIDIA H100, 700 W, driver 580;"
            " there is one for NVIDIA H200, 700 W, driver 580",
        ),
        (
            {"case.ctas": 8},
            "no baseline of patch_embed-sm_90a-production images=7,ctas=8"
            " for NVIDIA H200, 700 W, driver 580",
        ),
        (
            {"clocks": {"during": [bench.CLOCK, bench.CLOCK | {"power_limit_w": 500.0}]}},
            "no baseline: it has no host class: its power limit is 500 W and 700 W",
        ),
        (
            {"clocks": {"during": []}},
            "no baseline: it has no host class: its power limit is not known",
        ),
    ],
)
def test_times_of_different_conditions_are_never_compared(
    tmp_path: Path, spoil: dict[str, Any], said: str
) -> None:
    accept(tmp_path, (1.0, 1.0, 1.0))
    assert beside(tmp_path, 2.0, spoil=spoil).verdict == Verdict(Outcome.SKIP, said)
    gated = beside(tmp_path, 2.0, spoil=spoil, gate_percent=2.0).verdict
    assert gated == Verdict(Outcome.ERROR, f"the gate of 2% cannot be judged: {said}")


def test_a_cpu_and_an_emulator_have_no_baseline(tmp_path: Path) -> None:
    for device in (DeviceKind.CPU, DeviceKind.EMULATOR):
        timing = record(device=device)
        said = beside(tmp_path, 1.0, timing=timing).verdict.summary
        assert said == (
            f"no baseline: it ran on {device}: only a time of a GPU is kept as a baseline"
        )


@pytest.mark.parametrize(
    ("ms", "gate", "outcome", "end"),
    [
        (1.05, 2.0, Outcome.FAIL, "; more than the gate of 2%"),
        (1.05, 6.0, Outcome.PASS, "; within the gate of 6%, as far as it is known"),
        (1.005, 0.0, Outcome.PASS, "; within the gate of 0%, as far as it is known"),
        (0.5, 0.0, Outcome.PASS, "; within the gate of 0%, as far as it is known"),
    ],
)
def test_a_gate_fails_what_is_slower_by_more(
    tmp_path: Path, ms: float, gate: float, outcome: Outcome, end: str
) -> None:
    accept(tmp_path, (1.0, 1.002, 0.999))
    verdict = beside(tmp_path, ms, gate_percent=gate).verdict
    assert verdict.outcome is outcome
    assert verdict.summary.endswith(end)


def test_a_gate_that_cannot_be_judged_is_an_error(tmp_path: Path) -> None:
    accept(tmp_path, (1.0, 1.0))
    verdict = beside(tmp_path, 1.5, gate_percent=2.0).verdict
    assert verdict.outcome is Outcome.ERROR
    assert verdict.summary.startswith("the gate of 2% cannot be judged: inconclusive compared with")


def test_a_file_that_cannot_be_read_is_an_error_of_the_stage_and_loses_no_time(
    tmp_path: Path,
) -> None:
    accept(tmp_path, (1.0,))
    text = (tmp_path / FILE).read_text()
    for bad in (text[:-20], text.replace("700", "600", 1), text.replace("images=7", "images=8", 1)):
        (tmp_path / FILE).write_text(bad)
        assert beside(tmp_path, 1.0).verdict.outcome is Outcome.ERROR
        with pytest.raises(ProtocolError):
            accepted_times.listing(tmp_path)


def test_another_build_replaces_the_one_before_and_both_are_named(tmp_path: Path) -> None:
    accept(tmp_path, (1.0, 1.002))
    assert beside(tmp_path, 1.0, timing=record(build="aaaa")).facts["baseline build"] == (
        "4ff5e3f3dbb79999"
    )
    folder, _ = put(tmp_path, 9, 0.9, timing=record(build="bbbb"))
    said = accepted_times.accept(tmp_path, str(folder), ALL)
    assert ": 1.0010 -> 0.9000 ms (-10.09%), build 4ff5e3f3dbb7 -> bbbb, its first run;" in said


def test_the_order_of_acceptance_leaves_the_file_the_same(tmp_path: Path) -> None:
    texts = []
    for order in ((0, 1, 2), (2, 0, 1)):
        for path in tmp_path.glob(FILE):
            path.unlink()
        for number in order:
            folder, _ = put(tmp_path, number, 1.0 + number / 1000)
            accepted_times.accept(tmp_path, str(folder), ALL)
        texts.append((tmp_path / FILE).read_text())
    assert texts[0] == texts[1]
    value = json.loads(texts[0])
    assert value["host_class"] == {
        "gpu": "NVIDIA H200",
        "power_limit_w": 700,
        "driver_branch": "580",
    }
    assert list(value["baselines"]) == [ENTRY]
    assert [r["run"][-4:] for r in value["baselines"][ENTRY]["runs"]] == ["0000", "0001", "0002"]
    assert value["baselines"][ENTRY]["runs"][2] | {"run": "", "started_utc": ""} == {
        "run": "",
        "started_utc": "",
        "commit": "c0ffee0123456789",
        "dirty_sha256": "",
        "card": bench.UUID,
        "driver": "580.159.04",
        "median_ms": 1.002,
        "p5_ms": 0.99198,
        "p95_ms": 1.01202,
        "least_ms": 0.99198,
        "most_ms": 1.01202,
        "samples": 4,
        "sm_mhz": [1395, 1395],
        "power_w": [698.5, 698.5],
        "temperature_c": [61, 61],
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "launched"}, "RUN is launched; first `invoke collect RUN`"),
        ({"stages": ()}, "RUN has no timing stage"),
        (
            {"stages": (record(verdict=Verdict(Outcome.SKIP, "not counted"), checks=()),)},
            "RUN: timing did not pass: not counted",
        ),
        (
            {
                "stages": (
                    bench.record("racecheck", StageKind.SANITIZER, Outcome.FAIL),
                    record(),
                )
            },
            "RUN: racecheck did not pass: racecheck said so",
        ),
        (
            {"stages": (record(device=DeviceKind.CPU),)},
            "RUN makes no baseline: it ran on cpu: only a time of a GPU is kept as a baseline",
        ),
        (
            {"stages": (record(build=""),)},
            "RUN makes no baseline: its record names no build",
        ),
    ],
)
def test_a_run_without_a_time_that_counts_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    folder, _ = put(tmp_path, 1, 1.0, **changes)
    assert refused(tmp_path, folder) == said


def test_a_time_of_a_dirty_or_unchecked_build_is_rejected_without_its_flag(
    tmp_path: Path,
) -> None:
    clean = Provenance("c0ffee0123456789", "", "0.1.0", "", "", {}, "")
    folder, _ = put(tmp_path, 1, 1.0, provenance=replace(clean, dirty_sha256="d1"))
    assert refused(tmp_path, folder, accepted_times.Overrides(unchecked=True)) == (
        "RUN has changes on top of its commit: its build cannot be made again; or pass --dirty"
    )
    named = replace(clean, dirty_sha256="d1", not_in_commit=("a.h", "b.h", "c.h", "d.h"))
    folder, _ = put(tmp_path, 1, 1.0, provenance=named)
    assert "commit (a.h, b.h, c.h, ...): its build" in refused(
        tmp_path, folder, accepted_times.Overrides(unchecked=True)
    )
    folder, _ = put(tmp_path, 1, 1.0, provenance=replace(clean, commit=""))
    assert refused(tmp_path, folder, accepted_times.Overrides(unchecked=True)) == (
        "RUN has no commit: its build cannot be made again; or pass --dirty"
    )
    folder, _ = put(tmp_path, 1, 1.0)
    assert refused(tmp_path, folder, accepted_times.Overrides()).startswith("RUN is outdated: ")


def test_times_of_two_regimes_are_not_mixed(tmp_path: Path) -> None:
    accept(tmp_path, (1.0, 1.0))
    folder, run = put(tmp_path, 7, 1.0, spoil={"regime": "steady after 0.3 s"})
    assert refused(tmp_path, folder) == (
        f"the baseline of {ENTRY} is of 'steady after 1.0 s, random data', RUN of"
        " 'steady after 0.3 s, random data'; times of two regimes are not mixed; --replace starts"
        " it anew"
    )
    accepted_times.accept(tmp_path, str(folder), replace(ALL, replace=True))
    (held,) = baselines.load_baselines(tmp_path)
    assert [r.run for r in held.baselines[ENTRY].runs] == [run.id]


def test_two_classes_that_are_called_alike_do_not_share_a_file(tmp_path: Path) -> None:
    accept(tmp_path, (1.0,))
    folder, _ = put(tmp_path, 7, 1.0, spoil={"device.name": "NVIDIA-H200"})
    assert refused(tmp_path, folder) == (
        f"{FILE} holds another host class than NVIDIA-H200, 700 W, driver 580"
    )


def test_the_listing_says_what_is_there(tmp_path: Path) -> None:
    assert accepted_times.listing(tmp_path) == (
        "no baselines in artifacts/baselines; `invoke baseline-accept RUN` writes one"
    )
    accept(tmp_path, (1.0, 1.002))
    head, row = accepted_times.listing(tmp_path).splitlines()
    assert head.split()[:2] == ["host", "class"]
    assert row.startswith(f"NVIDIA H200, 700 W, driver 580  {ENTRY}  1.0010 ms  0.9900 to 1.0120")
    assert "2 on 1  4ff5e3f3dbb7  steady after 1.0 s, random data  outdated: " in row


def told(root: Path, *numbers: int, force: bool = False) -> str:
    names = [f"20261121T12{n:02d}00Z" for n in numbers]
    return (
        recorded.compare(root, names, force=force).splitlines()[-1].replace("00Z-patch_embed", "")
    )


def test_two_runs_are_compared_by_the_spread_of_the_baselines_runs(tmp_path: Path) -> None:
    put(tmp_path, 20, 1.0)
    put(tmp_path, 21, 1.05)
    assert told(tmp_path, 20, 21) == (
        "20261121T1221-h200-0021: inconclusive compared with 20261121T1220-h200-0020, +5.00%: the"
        " baseline of NVIDIA H200, 700 W, driver 580 has no run;"
        " `invoke bench` of builds detects more"
    )
    accept(tmp_path, (1.0, 1.002, 0.999))
    assert told(tmp_path, 20, 21) == (
        "20261121T1221-h200-0021: slower compared with 20261121T1220-h200-0020, +5.00%"
        " (+2.77 to +7.27),"
        " from 3 runs on this card"
    )
    assert ": faster compared with " in told(tmp_path, 21, 20)
    assert ": inconclusive compared with 20261121T1220-h200-0020, +0.00% (" in told(
        tmp_path, 20, 20
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"spoil": {"device.uuid": "GPU-9"}},
            f"GPU UUID GPU-9 and {bench.UUID}",
        ),
        ({"spoil": {"device.driver": "580.1"}}, "driver 580.1 and 580.159.04"),
        (
            {"spoil": {"regime": "steady after 0.3 s"}},
            "regime steady after 0.3 s, random data and steady after 1.0 s, random data",
        ),
        (
            {"spoil": {"clocks.during": [bench.CLOCK | {"throttle_reasons": "0x40"}]}},
            "regime steady after 1.0 s, random data and steady after 1.0 s, random data,"
            " thermal slowdown by hardware",
        ),
        ({"spoil": {"case.ctas": 8}}, "case images=7,ctas=0 and images=7,ctas=8"),
        ({"host": replace(bench.HOST, hostname="host-18")}, "host host-17 and host-18"),
    ],
)
def test_runs_of_different_conditions_are_compared_with_force_only_and_are_inconclusive(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    accept(tmp_path, (1.0, 1.002, 0.999))
    put(tmp_path, 20, 1.0)
    put(tmp_path, 21, 1.5, **changes)
    with pytest.raises(ConfigError) as caught:
        told(tmp_path, 20, 21)
    assert str(caught.value).endswith(
        f" are not compared: they differ in {what}; --force compares them all the same"
    )
    assert told(tmp_path, 20, 21, force=True) == (
        "20261121T1221-h200-0021: inconclusive compared with 20261121T1220-h200-0020, +50.00%:"
        f" compared by --force, though they differ in {what}"
    )


def test_a_bench_is_no_run_of_one_process(tmp_path: Path) -> None:
    asked = Bench((), rounds=2, settle_s=1.0)
    folder, run = put(tmp_path, 1, 1.0, bench=asked)
    said = "RUN is a bench; this takes runs of remote-test, of one process each"
    assert refused(tmp_path, folder) == said
    with pytest.raises(ConfigError, match=r"is a bench; this takes runs of remote-test"):
        recorded.compare(tmp_path, (run.id, run.id), force=True)


def test_runs_and_builds_are_not_mixed() -> None:
    run = "20261121T120000Z-patch_embed-h200-0000"
    assert recorded.name_runs((run, run))
    assert not recorded.name_runs(("patch_embed", "patch_embed:timing"))
    for words in ((run, "patch_embed"), (run, run, run)):
        with pytest.raises(ConfigError, match="bench compares builds, or two recorded runs"):
            recorded.name_runs(words)
