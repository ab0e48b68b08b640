"""What a plain program prints: patterns that must and must not match, and its metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import Outcome, PrintedMetric
from kernelrig.stages.plain import pattern_search
from kernelrig.stages.plain.metrics import printed_times_ms, printed_values
from kernelrig.stages.plain.pattern_search import find_patterns
from kernelrig.stages.plain.reader import judge_exit_status, judge_patterns

from tests.stages import bench

PLAIN = replace(bench.KERNEL, level=0, cases={}, shape=None, accum_tol={})


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    (tmp_path / "program.stdout.log").write_text("run 1: avg 1.5 ms\nrun 2: avg 2.5 ms\nok\n")
    (tmp_path / "program.stderr.log").write_text("warning: 3.25 GB/s\n")
    return tmp_path


def test_both_streams_are_searched_line_by_line(printed: Path) -> None:
    outputs = [printed / f"program.{stream}.log" for stream in ("stdout", "stderr")]
    wanted = {"times": "avg ([0-9.]+) ms", "whole": "^ok$", "rate": r"([0-9.]+) GB/s", "no": "x{3}"}
    assert find_patterns(wanted, outputs) == {
        "times": ("1.5", "2.5"),
        "whole": ("ok",),
        "rate": ("3.25",),
        "no": (),
    }


def test_a_pattern_that_takes_too_long_is_named_and_decides_nothing(
    printed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_search, "CPU_S", 0)  # rounded up to a second
    log = printed / "program.stdout.log"
    log.write_text("a" * 60 + "b")
    with pytest.raises(ProtocolError, match="'slow' cannot be looked for in 61 bytes of output"):
        find_patterns({"quick": "a", "slow": "(a+)+$"}, [log])


def test_an_output_longer_than_what_is_searched_decides_nothing(
    printed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_search, "MOST_BYTES", 10)
    with pytest.raises(ProtocolError, match="the output has more than 10 bytes"):
        find_patterns({"any": "a"}, [printed / "program.stdout.log"])


@pytest.mark.parametrize(
    ("must", "must_not", "outcome", "said"),
    [
        ("^ok$", "nan", Outcome.PASS, "as must_print and must_not_print say"),
        ("^fine$", "", Outcome.FAIL, "nothing that it printed matches must_print: ^fine$"),
        ("", "warn.*", Outcome.FAIL, "it printed 'warning: 3.25 GB/s', which must_not_print"),
    ],
)
def test_patterns_judge_the_output(
    printed: Path, must: str, must_not: str, outcome: Outcome, said: str
) -> None:
    kernel = replace(PLAIN, must_print=must, must_not_print=must_not)
    verdict = judge_patterns(printed, "program", bench.context(kernel=kernel))
    assert verdict is not None
    assert (verdict.outcome, said in verdict.summary) == (outcome, True)


def test_an_output_that_did_not_come_back_is_no_pass(printed: Path) -> None:
    (printed / "program.stderr.log").unlink()
    kernel = replace(PLAIN, must_not_print="nan")
    verdict = judge_patterns(printed, "program", bench.context(kernel=kernel))
    assert verdict is not None
    assert verdict.outcome is Outcome.ERROR


def test_a_library_that_the_host_lacks_is_no_fault_of_the_program(printed: Path) -> None:
    said = "./p: error while loading shared libraries: libcurand.so.10: cannot open shared object"
    (printed / "program.stderr.log").write_text(f"{said} file: No such file or directory\n")
    verdict = judge_exit_status(127, printed, "program", bench.context(kernel=PLAIN))
    assert verdict.outcome is Outcome.ERROR
    assert verdict.summary == "the host has no libcurand.so.10, which the program links"
    other = judge_exit_status(126, printed, "program", bench.context(kernel=PLAIN))
    assert other.outcome is Outcome.FAIL


def metric(regex: str, unit: str = "ms") -> PrintedMetric:
    return PrintedMetric("time_ms", regex, unit, "lower")


def test_times_are_scaled_to_milliseconds(printed: Path) -> None:
    kernel = replace(PLAIN, metrics={"rate": replace(metric(r"([0-9.]+) GB/s", "GB/s"), name="r")})
    assert printed_times_ms(kernel, printed, "program", 9.0) == ()
    kernel = replace(kernel, metrics={**kernel.metrics, "t": metric("avg ([0-9.]+) ms", "us")})
    assert printed_times_ms(kernel, printed, "program", 9.0) == (0.0015, 0.0025)


@pytest.mark.parametrize(
    ("of", "wall_s", "said"),
    [
        (metric("took ([0-9.]+)"), 1.0, "no line has the metric time_ms"),
        (metric("(avg)"), 1.0, "the metric time_ms is 'avg', which is no number"),
        (metric("avg ([0-9.]+)"), 0.0004, "the process that printed it ran 0.000 s"),
        (metric("run ([0-9.]+)", "s"), 1.5, "the process that printed it ran 1.500 s"),
        (metric("avg [0-9](.)5"), 1.0, "the metric time_ms is '.', which is no number"),
    ],
)
def test_what_is_no_metric_is_an_error(
    printed: Path, of: PrintedMetric, wall_s: float, said: str
) -> None:
    kernel = replace(PLAIN, metrics={of.name: of})
    with pytest.raises(ProtocolError) as caught:
        printed_values(kernel, printed, "program", wall_s)
    assert said in str(caught.value)
