"""What a trace build recorded, as a timeline; a record that no launch can have made is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import Slice, Timeline, Track
from kernelrig.stages import load_result, phase_timeline

from tests.stages import bench

PHASES = ["W0: ring wait", "W0: issue", "WG1: MMAs", "WG1: store"]


def clock(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    marks = [[0, 64], [1, 96], [0, 96]]
    own = {"row": 0, "first_phase": 0, "cta": 3, "sm": 17, "marked": 5, "start": 32, "marks": marks}
    return own | changed


def read(folder: Path, *clocks: dict[str, Any]) -> Timeline:
    trace = {"phases": PHASES, "clocks": clocks}
    bench.write(folder, {"timing.json": bench.result("time", "random") | {"trace": trace}})
    return phase_timeline(load_result(folder / "timing.json"))


def test_a_role_of_a_cta_is_a_track_and_its_rows_follow_each_other(tmp_path: Path) -> None:
    first = clock(row=4, marked=1, start=0, marks=[[1, 32]])
    consumer = clock(first_phase=2, marked=2, marks=[[0, 40], [1, 128]])
    timeline = read(tmp_path, clock(row=5), consumer, first)
    assert timeline.tracks == (Track("CTA 3 on SM 17", "W0"), Track("CTA 3 on SM 17", "WG1"))
    shown = [(s.track, s.name, s.start, s.end, s.details[0][1]) for s in timeline.slices]
    assert shown == [
        (0, "issue", 0, 32, "4"),
        (0, "ring wait", 32, 64, "5"),
        (1, "MMAs", 32, 40, "0"),
        (1, "store", 40, 128, "0"),
        (0, "issue", 64, 96, "5"),
        (0, "ring wait", 96, 96, "5"),
    ]
    assert all(isinstance(s, Slice) for s in timeline.slices)
    assert (timeline.unit, timeline.left_out, timeline.flows) == ("1 ns", 2, ())
    assert "measured on NVIDIA H200" in timeline.title
    assert timeline.title.endswith("SMs aligned by globaltimer, smallest step seen 8 ns")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"marks": [[0, 96], [1, 64]]}, "its times go back"),
        ({"marks": [[0, 31]]}, "its times go back"),
        ({"marks": [[2, 64]]}, "W0 has no phase 2"),
        ({"marks": [[-1, 64]]}, "W0 has no phase -1"),
        ({"marks": [[9, 64]]}, "W0 has no phase 9"),
        ({"first_phase": 4}, "its role starts at phase 4 of 4"),
        ({"marked": 2}, "3 phases are kept of 2"),
        ({"marks": [[0, 10**13]]}, "longer than any launch"),
        ({"marks": [[0, 2**64 - 1]]}, "'trace.clocks.marks' is 18446744073709551615, no number"),
        ({"start": 2**64 - 32}, "'trace.clocks.start' is 18446744073709551584, no number"),
    ],
)
def test_a_record_that_no_launch_can_have_made_is_named(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ProtocolError, match=said) as raised:
        read(tmp_path, clock(**changed))
    assert raised.value.exit_code == 5


def test_records_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="on SM 18, but its CTA runs on SM 17"):
        read(tmp_path, clock(), clock(first_phase=2, sm=18, marks=[]))
    with pytest.raises(ProtocolError, match="row 1, is none: starts before the record before it"):
        read(tmp_path, clock(), clock(row=1, start=64))


def test_a_result_without_a_trace_is_none(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="the kernel recorded no phase"):
        read(tmp_path)
    bench.write(tmp_path, {"timing.json": bench.result("time", "random")})
    with pytest.raises(ProtocolError, match="it is not of a trace build"):
        phase_timeline(load_result(tmp_path / "timing.json"))
