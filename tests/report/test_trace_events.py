"""A timeline as a file of the Trace Event format: what its readers require of each event."""

from __future__ import annotations

import json
from typing import Any

from kernelrig.model import Flow, Slice, Timeline, Track
from kernelrig.report import render_timeline

TIMELINE = Timeline(
    "gemm, emulated",
    "half an event: order, not time",
    (Track("CTA 0", "warp 0"), Track("CTA 1", "warp 0"), Track("CTA 0", "operations in flight")),
    (Slice(0, "issue copy", 2, 3), Slice(2, "copy", 3, 9), Slice(1, "wait", 0, 11)),
    (Flow("issue copy", 0, 2, 2, 3), Flow("wait", 2, 8, 1, 10)),
    left_out=3,
)


def read(timeline: Timeline) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = json.loads(render_timeline(timeline))
    return document, document["traceEvents"]


def test_each_slice_is_complete_and_on_the_thread_of_its_track() -> None:
    _, events = read(TIMELINE)
    slices = [e for e in events if e["ph"] == "X"]
    shown = [(e["name"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in slices]
    assert shown == [("wait", 1, 1, 0, 11), ("issue copy", 0, 0, 2, 1), ("copy", 0, 2, 3, 6)]
    times = [e["ts"] for e in events if e["ph"] != "M"]
    assert times == sorted(times)


def test_a_flow_starts_and_ends_inside_slices_under_one_id() -> None:
    _, events = read(TIMELINE)
    for number, flow in enumerate(TIMELINE.flows):
        start, end = (e for e in events if e.get("id") == number)
        assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
        assert (start["cat"], start["name"]) == (end["cat"], end["name"]) == ("order", flow.name)
        for event in (start, end):
            assert [
                e
                for e in events
                if e["ph"] == "X"
                and (e["pid"], e["tid"]) == (event["pid"], event["tid"])
                and e["ts"] <= event["ts"] < e["ts"] + e["dur"]
            ]


def test_every_process_and_thread_has_a_name_that_says_it_is_no_time() -> None:
    document, events = read(TIMELINE)
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert named == {(0, 0): "warp 0", (1, 1): "warp 0", (0, 2): "operations in flight"}
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert len(processes) == 2
    assert all("emulated" in name and "order, not time" in name for name in processes)
    assert document["otherData"]["left out"].startswith("3 events")


def test_what_a_kernel_calls_its_barriers_is_escaped_and_cut() -> None:
    hostile = "\x1b[2J::error::" + "x" * 10_000 + "\ud800"
    timeline = Timeline(hostile, "ns", (Track(hostile, hostile),), (Slice(0, hostile, 0, 1),), ())
    document, events = read(timeline)
    texts = [e["args"].get("name", "") for e in events if e["ph"] == "M"]
    texts += [e["name"] for e in events]
    assert "\x1b" not in json.dumps(document, ensure_ascii=False)
    assert max(map(len, texts)) <= 200
