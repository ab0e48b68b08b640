from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    CommandResult,
    EndedBy,
    Outcome,
    Stage,
    StageKind,
    StageRecord,
    Verdict,
)
from kernelrig.stages import Context, read_stage
from kernelrig.stages.timing.reader import nearest_rank

from tests.stages import bench, outputs

STAGE = Stage("timing", StageKind.TIMING, case="full", time_s=180.0, samples=4)
ELEMENTS = bench.IMAGES * outputs.ROWS_PER_IMAGE * outputs.N
CHECKED = {
    "smoke": bench.record("smoke", StageKind.CHECKSUM),
    "checksum": bench.record("checksum", StageKind.CHECKSUM),
}


def good(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    return bench.result("time", "random") | changes


def read(
    folder: Path,
    content: dict[str, Any] | str | None,
    end: int | CommandResult = 0,
    *,
    ctx: Context | None = None,
) -> StageRecord:
    ctx = ctx or bench.context(earlier=CHECKED)
    run = end if isinstance(end, CommandResult) else bench.exited("timing", end)
    bench.write(folder, {} if content is None else {"timing.json": content})
    return read_stage(STAGE, bench.job(STAGE, ctx), bench.ended(STAGE, run), folder, ctx)


def test_the_timed_run_is_one_command_on_random_data() -> None:
    (command,) = bench.job(STAGE, bench.context()).commands
    assert command.argv == (
        *("../../build/siglip_vision", "--mode", "time", "--case", "images=7,ctas=0"),
        *("--pattern", "random", "--seed", "0", "--warmup-s", "1", "--samples", "4"),
        *("--watchdog", "210", "--result", "timing.json"),
    )


def test_a_true_time_passes_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    record = read(tmp_path, good())
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == (
        "0.500 ms, 0.00 TFLOP/s, median of 4, steady after 1.0 s, random data, NVIDIA H200"
        " [stand-in on plain CUDA cores; its time is not the project's]"
    )
    facts = record.checks[0].facts
    assert facts["label"] == bench.LABEL
    assert facts["device"] == "gpu NVIDIA H200"
    assert [facts[n] for n in ("median", "p5", "p95", "least", "most", "samples")] == [
        "0.5000 ms",
        "0.2560 ms",
        "1.0000 ms",
        "0.2560 ms",
        "1.0000 ms",
        "4",
    ]
    assert facts["regime"] == "steady after 1.0 s"
    assert facts["SM clock"] == "1395 MHz"
    assert facts["throttle reasons"] == "power cap (0x4)"
    assert facts["speed of light at"] == "1980 MHz, figures of the host's driver"


def test_a_cache_that_no_such_gpu_has_makes_two_sets_of_inputs_no_more_than_enough(
    tmp_path: Path,
) -> None:
    """Where the host gives no figures, the program's own are held to its GPU's model."""
    sets, samples = 2, len(good()["samples_ms"])
    last = (samples - 1) % sets
    small = good(
        sets=sets,
        spot_checks=outputs.spot_checks(0, samples, sets, bench.IMAGES),
        verified_after_timing=bench.comparison("random", last, ELEMENTS),
        checksum=outputs.checksum("random", last, bench.IMAGES),
        sampled=outputs.sampled("random", last, bench.IMAGES),
    )
    named = {k: bench.HOST.gpu[k] for k in ("name", "uuid", "driver_version", "compute_cap")}
    ctx = bench.context(earlier=CHECKED, host=replace(bench.HOST, gpus=(named,)))
    record = read(tmp_path, bench.invalidated(small, "device.l2_bytes", 1), ctx=ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "the program reports l2_bytes 1, a NVIDIA H200 has 31457280 to 62914560; the times are not"
        " counted"
    )
    honest = read(tmp_path, small, ctx=ctx)
    assert honest.verdict.summary == "2 sets of inputs are no more than 3 L2 caches hold"


def test_every_statistic_is_a_sample_that_was_observed() -> None:
    samples = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert [nearest_rank(samples, p) for p in (0, 5, 50, 95, 100)] == [0.1, 0.1, 0.4, 3.2, 3.2]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((key, bench.DELETE) for key in sorted(good())),
        ("samples_ms", []),
        ("samples_ms", [0.25, 0.5, 0.75]),
        ("samples_ms", [0.25, 0.5, 0.75, 1.0, 1.25]),
        ("samples_ms", [0.25, 0.5, 0.75, None]),
        ("samples_ms", [0.25, 0.5, 0.75, float("nan")]),
        ("samples_ms", [0.25, 0.5, 0.75, float("inf")]),
        ("samples_ms", [0.25, 0.5, 0.75, 0.0]),
        ("samples_ms", [0.25, 0.5, 0.75, -1.0]),
        ("samples_ms", ["0.25", 0.5, 0.75, 1.0]),
        ("samples_ms", [1e-9, 0.5, 0.75, 1.0]),
        ("regime", None),
        ("regime", ""),
        ("pattern", "constant"),
        ("mode", "check"),
        ("case.images", 1),
        ("device.uuid", "GPU-another"),
        ("device.compute_capability", "8.9"),
        ("device.sm_count", 0),
        ("verified_after_timing", None),
        ("verified_after_timing.seed", 0),
        ("verified_after_timing.elements", 0),
        ("verified_after_timing.pattern", "constant"),
        ("verified_after_timing.mismatches", -1),
        ("verified_after_timing.mismatches", 3),
        ("verified_after_timing.accum_tol", 1.0),
        ("verified_after_timing.max_abs_error", None),
        ("sampled", []),
    ],
)
def test_a_time_with_anything_missing_or_strange_is_an_error_without_figures(
    tmp_path: Path, path: str, value: object
) -> None:
    record = read(tmp_path, bench.invalidated(good(), path, value))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.checks[0].facts == {}


def test_a_sample_that_beats_the_speed_of_light_is_refused(tmp_path: Path) -> None:
    record = read(tmp_path, good(samples_ms=[1e-9, 0.5, 0.752, 1.0]))
    assert record.verdict.outcome is Outcome.ERROR
    assert "beats the speed of light" in record.verdict.summary


def test_a_program_cannot_lower_the_speed_of_light(tmp_path: Path) -> None:
    """Its own SM count, memory and clocks made a kernel of 1 ns pass."""
    fast = good(samples_ms=[1e-6, 2e-6, 3e-6, 4e-6])
    for key, value in (
        ("sm_count", 10**9),
        ("l2_bytes", 1 << 40),
        ("memory_bus_width_bits", 10**9),
        ("memory_clock_khz", 10**12),
        ("max_sm_clock_khz", 10**12),
    ):
        lie = bench.invalidated(fast, f"device.{key}", value)
        record = read(tmp_path, lie)
        assert record.verdict.outcome is Outcome.ERROR
        assert f"the program reports {key} {value}, the host's driver" in record.verdict.summary


CLOCKS = ("clocks.before", "clocks.after", "clocks.during")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sm_mhz", 1981, "an SM clock of 1981 MHz was sampled, the GPU has at most 1980"),
        ("sm_mhz", 0, "an SM clock of 0 MHz"),
        ("sm_mhz", -5, "an SM clock of -5 MHz"),
        ("memory_mhz", 0, "a memory clock of 0 MHz"),
        ("memory_mhz", 99999, "a memory clock of 99999 MHz"),
        ("power_w", 0.0, "a power of 0.0 W"),
        ("power_w", 1e9, "a power of 1000000000.0 W"),
        ("power_limit_w", 0.0, "a power limit of 0.0 W"),
        ("temperature_c", 0, "a temperature of 0 C"),
        ("temperature_c", 900, "a temperature of 900 C"),
        ("throttle_reasons", "", "'' is no set of throttle reasons"),
        ("throttle_reasons", "::error::none", "'::error::none' is no set of throttle reasons"),
    ],
)
def test_a_clock_that_no_gpu_has_is_an_error_wherever_it_was_sampled(
    tmp_path: Path, field: str, value: object, said: str
) -> None:
    for path in CLOCKS:
        odd: Any = bench.CLOCK | {field: value}
        record = read(tmp_path, bench.invalidated(good(), path, [odd] if "during" in path else odd))
        assert record.verdict.outcome is Outcome.ERROR
        assert said in record.verdict.summary
        assert record.checks[0].facts == {}


@pytest.mark.parametrize("during", [[], [None, None]])
def test_a_time_without_a_clock_under_load_is_an_error(
    tmp_path: Path, during: list[object]
) -> None:
    record = read(tmp_path, bench.invalidated(good(), "clocks.during", during))
    assert record.verdict.outcome is Outcome.ERROR
    assert "no clock was sampled while it was timed" in record.verdict.summary


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([0.5] * 4, "all 4 samples are 0.5 ms to the last bit"),
        ([5e-324, 0.5, 0.752, 1.0], "sample 0 is no time: 5e-324"),
        ([1e300, 0.5, 0.752, 1.0], "the samples add up to 1e+297 s"),
        ([600.0, 600.5, 600.25, 600.125], "the samples add up to 2.401 s, the process"),
        ([0.5, 0.752, 1.0, 0.25001], "sample 3 is 0.25001 ms: the GPU's event clock counts by 32"),
    ],
)
def test_samples_that_nothing_can_have_measured_are_an_error(
    tmp_path: Path, samples: list[float], said: str
) -> None:
    record = read(tmp_path, good(samples_ms=samples))
    assert record.verdict.outcome is Outcome.ERROR
    assert said in record.verdict.summary
    assert record.checks[0].facts == {}


def test_another_drivers_event_clock_is_not_known(tmp_path: Path) -> None:
    gpu = bench.HOST.gpus[0] | {"driver_version": "590.10"}
    ctx = bench.context(earlier=CHECKED, host=replace(bench.HOST, gpus=(gpu,)))
    record = read(tmp_path, good(samples_ms=[0.25001, 0.5, 0.752, 1.0]), ctx=ctx)
    assert record.verdict.outcome is Outcome.PASS


@pytest.mark.parametrize("regime", ["burst", "steady after 2.0 s", "steady after 1.0 s [fused]"])
def test_a_regime_that_was_not_asked_for_is_an_error(tmp_path: Path, regime: str) -> None:
    record = read(tmp_path, good(regime=regime))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        f"the regime is '{regime}', asked for was 'steady after 1.0 s'"
    )


@pytest.mark.parametrize("name", ["NVIDIA L40S", "a GPU \x1b[31m" + "x" * 1000])
def test_an_unknown_gpu_is_an_error_of_the_timing_alone(tmp_path: Path, name: str) -> None:
    gpu = bench.HOST.gpus[0] | {"name": name}
    ctx = bench.context(earlier=CHECKED, host=replace(bench.HOST, gpus=(gpu,)))
    record = read(tmp_path, bench.invalidated(good(), "device.name", name), ctx=ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith("no speed of light is known for '")
    assert len(record.verdict.summary) < 200


def test_a_time_whose_checksum_was_skipped_is_an_error(tmp_path: Path) -> None:
    skipped = {
        n: replace(r, verdict=Verdict(Outcome.SKIP, "no patterns")) for n, r in CHECKED.items()
    }
    record = read(tmp_path, good(), ctx=bench.context(earlier=skipped))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == "not counted: smoke was skipped: no patterns"


def test_a_wrong_output_after_timing_fails_and_names_the_element(tmp_path: Path) -> None:
    first = {
        "row": 3,
        "column": 17,
        "got": -8.0,
        "wanted": 5.0,
        "got_bits": 49408,
        "wanted_bits": 16544,
    }
    verified = bench.comparison("random", 3, ELEMENTS) | {"mismatches": 5, "first_mismatch": first}
    verified["wrong"] = {"tile_rows": 64, "tile_columns": 64, "counts": [[5]]}
    record = read(tmp_path, good(exit_code=71, verified_after_timing=verified), 71)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("in the last timed launch: row 3, column 17: got -8.0")


def test_outputs_after_timing_are_recomputed_here_too(tmp_path: Path) -> None:
    wrong = good()
    wrong["sampled"][1000][2] ^= 0x4000
    assert read(tmp_path, wrong).verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.ERROR])
def test_a_time_does_not_count_with_a_checksum_that_did_not_pass(
    tmp_path: Path, outcome: Outcome
) -> None:
    earlier = CHECKED | {"checksum": bench.record("checksum", StageKind.CHECKSUM, outcome)}
    record = read(tmp_path, good(), ctx=bench.context(earlier=earlier))
    assert record.verdict.outcome is Outcome.SKIP
    assert record.verdict.summary == "not counted: checksum stage checksum did not pass"
    assert record.checks[0].facts == {}


def test_a_time_does_not_count_without_any_checksum(tmp_path: Path) -> None:
    earlier = {"memcheck": bench.record("memcheck", StageKind.SANITIZER)}
    record = read(tmp_path, good(), ctx=bench.context(earlier=earlier))
    assert record.verdict.outcome is Outcome.ERROR
    assert "no checksum stage of variant production is in this run" in record.verdict.summary


@pytest.mark.parametrize(("code", "outcome"), [(70, Outcome.ERROR), (73, Outcome.FAIL)])
def test_a_timed_run_that_died_is_judged_by_its_exit_code(
    tmp_path: Path, code: int, outcome: Outcome
) -> None:
    assert read(tmp_path, None, code).verdict.outcome is outcome


def test_a_timed_run_at_its_limit_fails(tmp_path: Path) -> None:
    end = CommandResult("timing", EndedBy.TIME_LIMIT)
    assert read(tmp_path, good(), end).verdict.outcome is Outcome.FAIL


def test_a_timed_run_that_the_journal_does_not_know_is_an_error(tmp_path: Path) -> None:
    ctx = bench.context(earlier=CHECKED)
    bench.write(tmp_path, {"timing.json": good()})
    record = read_stage(STAGE, bench.job(STAGE, ctx), bench.ended(STAGE), tmp_path, ctx)
    assert record.verdict.outcome is Outcome.ERROR


def test_a_label_is_that_of_the_arch_that_was_timed(tmp_path: Path) -> None:
    for label, wanted in (({"sm_90a": "a stand-in"}, "a stand-in"), ({"sm_100a": "not it"}, None)):
        ctx = bench.context(earlier=CHECKED, kernel=replace(bench.KERNEL, label=label))
        record = read(tmp_path, good(label=""), ctx=ctx)
        assert record.checks[0].facts.get("label") == wanted


def test_a_label_comes_from_kernels_yaml_alone(tmp_path: Path) -> None:
    record = read(tmp_path, good(label="the fastest kernel of all" + "!" * 999))
    facts = record.checks[0].facts
    assert facts["label"] == bench.LABEL
    assert "fastest" not in record.verdict.summary
    assert facts["program's note"] == ("the fastest kernel of all" + "!" * 999)[:200]


def test_a_kernel_without_a_label_has_none(tmp_path: Path) -> None:
    ctx = bench.context(earlier=CHECKED, kernel=replace(bench.KERNEL, label=""))
    record = read(tmp_path, good(label=""), ctx=ctx)
    assert record.verdict.outcome is Outcome.PASS
    assert "label" not in record.checks[0].facts
    assert "[" not in record.verdict.summary
