"""Numbers that no host has, in facts, figures, the journal and the cache: an error, or not read."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.model import DeviceKind, Host, Outcome, Plan
from kernelrig.remote.journal import read_journal
from kernelrig.remote.transfer import Missing
from kernelrig.report.follow import progress_line
from kernelrig.stages import judge_preflight
from kernelrig.stages.timing.gpus import GpuFigures, figures_of

from tests.remote.hostile_agent import hostile_python, script_of
from tests.remote.local_host import Event, LocalHost, job, shell
from tests.stages import bench

LONG = "9" * 5000
"""More digits than Python reads as a number."""
WORDS = (str(1 << 62), str(-1 << 62), str(1 << 64), "-1", "1e300", "1e999", "NaN", LONG)
"""What stands in place of a number; `true` is one too where Python counts."""

UTC = "2026-11-21T12:58:10Z"
JOBS = (job("smoke", shell("first", ":"), shell("second", ":")),)
END = {"stage": "smoke", "utc": UTC, "t": 1.5, "started_utc": UTC, "detail": "", "reused_from": ""}
EVENTS: tuple[Event, ...] = (
    {"event": "run_started", "utc": UTC, "t": 0.0, "run": "run-1", "pid": 7, "start": 9},
    {"event": "stage_started", "utc": UTC, "t": 0.0, "stage": "smoke", "index": 1},
    {
        **END,
        "event": "command_ended",
        "command": "first",
        "ok": True,
        "ended_by": "exit",
        "exit": 0,
        "signal": None,
        "seconds": 1.4,
        "strays": 0,
        "looks": 1,
        "disturbed": False,
    },
    {
        **END,
        "event": "command_ended",
        "command": "second",
        "ok": False,
        "ended_by": "signal",
        "exit": None,
        "signal": 9,
        "seconds": 0.4,
    },
    {"event": "health", "utc": UTC, "t": 2.0, "stage": "smoke", "healthy": True, "seconds": 0.2},
    {"event": "stage_ended", "utc": UTC, "t": 2.1, "stage": "smoke", "ok": False},
    {"event": "finished", "utc": UTC, "t": 2.2, "reason": "all stages were run"},
)
READ = {
    *("stage_started.index", "health.healthy"),
    *(f"command_ended.{key}" for key in ("ok", "exit", "signal", "seconds", "looks", "disturbed")),
}
"""What a verdict rests on; the others are for people."""


def with_word(record: dict[str, Any], key: str, word: str) -> str:
    """Return the record as JSON text with the word in place of a value."""
    return json.dumps({**record, key: "@"}).replace('"@"', word)


def changed_events() -> Iterator[tuple[str, str, str]]:
    """Yield name, changed line and journal for each number or truth of each event."""
    lines = [json.dumps(event) for event in EVENTS]
    for i, event in enumerate(EVENTS):
        for key, value in event.items():
            if isinstance(value, int | float):
                others = ("1", "0") if isinstance(value, bool) else ("true",)
                for word in (*WORDS, *others):
                    line = with_word(event, key, word)
                    journal = "".join(f"{text}\n" for text in [*lines[:i], line, *lines[i + 1 :]])
                    yield f"{event['event']}.{key}", line, journal


def test_no_number_of_a_journal_may_be_what_none_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
    good = read_journal(path, JOBS, "run-1")
    assert [c.signal for c in good[0].commands] == [None, 9]
    believed, refused = set(), set()
    for name, _, journal in changed_events():
        path.write_text(journal)
        try:
            assert read_journal(path, JOBS, "run-1") == good, name
            believed.add(name)
        except ProtocolError:
            refused.add(name)
    assert refused - believed == READ


def test_progress_is_shown_whatever_the_numbers_are() -> None:
    """The events are told while the run goes on, before its journal is read as a whole."""
    shown = 0
    for _, line, _ in changed_events():
        try:
            event = strict_json.loads(line)
        except ValueError:
            continue
        shown += len(progress_line(event)) <= 2000
    assert shown > 50


FACTS = {"hostname": "h", "python": "3.11.2", "glibc": "2.39", "free_bytes": 64 << 30}


def preflight(host: Host) -> Outcome:
    builds = (bench.build(), bench.SELFTEST)
    record = judge_preflight(bench.KERNEL, builds, host, bench.H200, Plan("p", ()))
    assert record.device is DeviceKind.GPU
    return record.verdict.outcome


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("free_bytes", ("true", *WORDS[1:])),  # 1 << 62 bytes may be free
        ("gpu_index", ("true", LONG)),
        ("admin", ("1",)),
        ("gpu_counters_admin_only", ("0",)),
        ("driver", ("580", "580.1")),
    ],
)
def test_no_fact_of_a_host_may_be_what_none_is(
    host: LocalHost, key: str, words: tuple[str, ...]
) -> None:
    good = {**FACTS, "driver": "580.159.04", "gpus": list(bench.HOST.gpus)}
    for number, word in enumerate(words):
        answer = f"{with_word(good, key, word)}\n".encode()
        script = script_of(facts=answer)
        host.python = hostile_python(host.folder / f"{key}-{number}", script)
        try:
            facts = host.link().facts
        except ProtocolError:
            continue
        assert preflight(facts) is not Outcome.PASS, word


def test_no_version_of_a_host_may_be_what_none_is() -> None:
    assert preflight(bench.HOST) is Outcome.PASS
    for key in ("driver", "python", "glibc"):
        for word in WORDS:
            changes: dict[str, Any] = {key: word}
            assert preflight(replace(bench.HOST, **changes)) is Outcome.ERROR, (key, word[:20])


def test_no_figure_of_a_gpu_moves_its_speed_of_light_beyond_its_model() -> None:
    model = figures_of({"name": "NVIDIA H200"})
    assert isinstance(model, GpuFigures)
    for key in (*model.bounds, "clocks.max.sm", "compute_cap"):
        for word in (*WORDS, "true", ""):
            found = figures_of({**bench.HOST.gpu, key: word})
            if isinstance(found, GpuFigures):  # what is no number at all says nothing
                assert (found.flop_per_s, found.bytes_per_s) == (
                    model.flop_per_s,
                    model.bytes_per_s,
                )
                assert key == "clocks.max.sm"


# what programs on the host print

SMI = """
case "$1" in
*,compute_cap,*) while read uuid; do
  echo "NVIDIA H200, $uuid, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0"
done < "$SAID.uuids" ;;
--version) echo "NVIDIA-SMI version  : 580.1" ;;
esac
"""
DRIVER = """
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
extern "C" int cuInit(unsigned) {
  char text[1 << 16];
  std::FILE *file = std::fopen(std::getenv("SAID"), "r");
  const size_t size = std::fread(text, 1, sizeof text, file);
  _exit(write(1, text, size) < 0);
}
"""


@pytest.fixture
def said(host: LocalHost) -> Path:
    """The file whose text a driver prints, in place of what was asked of it."""
    source = host.file("driver/cuda.cpp", DRIVER)
    library = source.with_name("libcuda.so.1")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    text = host.file("said", "")
    host.file("said.uuids", "GPU-0\n")
    host.on_path("nvidia-smi", SMI)
    host.opener.before = f"export SAID={text} LD_LIBRARY_PATH={library.parent}; "
    return text


def test_a_figure_that_no_gpu_has_costs_the_figures_of_that_gpu(
    host: LocalHost, said: Path
) -> None:
    words = ("true", *(w for w in WORDS if w != LONG), '"132"', "null", "132.0", "[]")
    gpus = [{"uuid": f"GPU-{i}", "sm_count": 132} for i in range(len(words) + 1)]
    odd = [with_word(gpu, "sm_count", w) for gpu, w in zip(gpus[1:], words, strict=True)]
    said.write_text(f"[{', '.join((json.dumps(gpus[0]), *odd))}]\n")
    said.with_suffix(".uuids").write_text("".join(f"{gpu['uuid']}\n" for gpu in gpus))
    first, *others = host.link().facts.gpus
    assert (first["sm_count"], "no figures" in first) == ("132", False)
    assert len(others) == len(words)
    for gpu in others:
        assert "sm_count" not in gpu
        assert gpu["no figures"].startswith("the CUDA driver gives sm_count ")


def test_what_is_no_answer_of_the_driver_gives_no_figures(host: LocalHost, said: Path) -> None:
    for text in (LONG, "[" * 50_000, "5", "[5]", "[{}]", '{"uuid": 1}', "NaN", ""):
        said.write_text(f"{text}\n")
        facts = host.link().facts
        assert ["no figures" in gpu for gpu in facts.gpus] == [True], text[:20]
        assert facts.problems == ()


def test_what_is_no_answer_of_the_health_check_is_no_health(host: LocalHost, said: Path) -> None:
    link = host.link()
    halves = ('{"healthy": 1, "detail": ""}', '{"healthy": true}', '{"healthy": null, "detail": 5}')
    for text in ("5", "[]", "{}", LONG, "[" * 50_000, *halves):
        said.write_text(f"{text}\n")
        assert link.health() == (False, "the probe exited with 0"), text[:20]


def test_a_cached_result_that_no_agent_has_written_is_not_reused(host: LocalHost) -> None:
    """It may be left by a run that was ended before its cache was compared."""
    odd = [
        *(("exit", word) for word in ("true", '"0"', "null", "5", "1e999")),
        *(("seconds", word) for word in ("true", '"1"', "null")),
        *(("detail", "5"), ("utc", "null"), ("files", "[]")),
    ]
    for number, (key, word) in enumerate(odd):
        name = hashlib.sha256(f"tool {number}".encode()).hexdigest()[:32]
        kept = host.workdir / "result_cache" / name
        kept.mkdir(parents=True)
        record = {"files": {}, "exit": 0, "seconds": 1.0, "detail": "", "utc": UTC}
        (kept / "result.json").write_text(with_word(record, key, word))
    tools = (shell(f"t{i}", "exit 0", cache_key=f"tool {i}") for i in range(len(odd)))
    (result,), _ = host.run([job("self", *tools)])
    assert [(c.exit_code, c.reused_from) for c in result.commands] == [(0, "")] * len(odd)


def test_a_record_of_the_agent_that_it_has_not_written_names_no_agent(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", ":"))]
    host.run(jobs)
    record = host.workdir / "runs/run-1/agent.json"
    for word in ("1e999", "-1", LONG, "[" * 50_000):
        record.write_text(with_word({"start": 1, "pid": 0}, "pid", word))
        assert host.link().bring_back("run-1", host.back, jobs, lambda _: None) == Missing()
