"""A timeline in the Trace Event format, which Perfetto and Chrome's about:tracing show.

The format: "Trace Event Format", document 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU of the
Chromium project. Its times are microseconds; a unit of the timeline is shown as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kernelrig.model import Timeline
from kernelrig.terminal.text import one_line

MOST_TEXT = 200
"""Characters of a name: names come from the kernel's own source."""


def render_timeline(timeline: Timeline) -> str:
    """Return the JSON object of the format: one process for each group, one thread a track."""
    told = {"title": one_line(timeline.title), "unit": f"1 us shown is {timeline.unit}"}
    if timeline.left_out:
        told["left out"] = f"{timeline.left_out} events after the last one shown"
    document = {
        "traceEvents": list(_events(timeline)),
        "displayTimeUnit": "ms",
        "otherData": told,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    groups = {name: pid for pid, name in enumerate(dict.fromkeys(t.group for t in timeline.tracks))}
    for name, pid in groups.items():
        label = f"{name} ({timeline.title}; unit: {timeline.unit})"
        yield _metadata("process_name", pid, 0, {"name": _text(label)})
        yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for tid, track in enumerate(timeline.tracks):
        pid = groups[track.group]
        yield _metadata("thread_name", pid, tid, {"name": _text(track.name)})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})

    def place(track: int) -> dict[str, int]:
        return {"pid": groups[timeline.tracks[track].group], "tid": track}

    timed: list[dict[str, Any]] = [
        {
            "name": _text(one.name),
            "ph": "X",
            **place(one.track),
            "ts": one.start,
            "dur": one.end - one.start,
            "args": {key: _text(value) for key, value in one.details},
        }
        for one in timeline.slices
    ]
    for number, flow in enumerate(timeline.flows):
        same = {"name": _text(flow.name), "cat": "order", "id": number}
        timed.append({**same, "ph": "s", **place(flow.from_track), "ts": flow.from_at})
        end = {**same, "ph": "f", "bp": "e"}  # it ends in the slice around it, not in the next one
        timed.append({**end, **place(flow.to_track), "ts": flow.to_at})
    yield from sorted(timed, key=lambda event: (event["ts"], event["ph"] != "X"))


def _metadata(name: str, pid: int, tid: int, value: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": value}


def _text(text: str) -> str:
    return one_line(text)[:MOST_TEXT]
