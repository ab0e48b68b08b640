"""`trace`: one schedule of a launch file, as a file that Perfetto reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.run.analyses import measured_trace
from kernelrig.run.tracing import TraceRequest, trace

from tests.emu.harness import kernel_text
from tests.stages import bench

BARRIER = "bar.sync 0; ld.param.u64 %rd0, [c]; mov.u32 %r1, 1; st.global.u32 [%rd0], %r1;"


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    path = tmp_path / "launch.json"
    buffers = {"C": {"dtype": "u32", "shape": [1], "fill": {"kind": "zero"}}}
    text = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [1, 1, 1],
        "block": [64, 1, 1],
        "buffers": buffers,
        "args": [{"buffer": "C"}],
    }
    path.write_text(json.dumps(text))
    (tmp_path / "k.ptx").write_text(kernel_text(BARRIER, ["c"], "sm_100a"))
    return path


def test_a_launch_file_is_traced_and_its_schedule_named(launch: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    traced = trace(tmp_path, TraceRequest(launch=str(launch), schedule=3, seed=5), str(file))
    assert (traced.errors, traced.stopped) == (0, False)
    document = json.loads(file.read_text())
    assert document["otherData"]["title"] == "launch.json, emulated, schedule 3 of seed 5"
    names = [event["name"] for event in document["traceEvents"] if event["ph"] == "X"]
    assert names.count("wait for the cta barrier") == 2


def test_a_file_that_cannot_be_written_and_a_kernel_beside_a_launch_are_refused(
    launch: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"--output: .* cannot be written: Is a directory"):
        trace(tmp_path, TraceRequest(launch=str(launch)), str(tmp_path))
    with pytest.raises(ConfigError, match="it takes no --kernel"):
        trace(tmp_path, TraceRequest(launch=str(launch), kernel="k"), str(tmp_path / "t.json"))


def test_a_result_file_of_a_trace_build_is_written_as_measured(tmp_path: Path) -> None:
    record = {"row": 0, "first_phase": 0, "cta": 0, "sm": 9, "marked": 1, "start": 0}
    trace = {"phases": ["W0: issue"], "clocks": [record | {"marks": [[0, 32]]}]}
    bench.write(tmp_path, {"timing.json": bench.result("time", "random") | {"trace": trace}})
    file = tmp_path / "trace.json"
    measured_trace(tmp_path, str(tmp_path / "timing.json"), "", str(file))
    document = json.loads(file.read_text())
    assert "measured on NVIDIA H200" in document["otherData"]["title"]
    (shown,) = (event for event in document["traceEvents"] if event["ph"] == "X")
    assert (shown["name"], shown["ts"], shown["dur"]) == ("issue", 0, 32)
    bench.write(tmp_path, {"timing.json": bench.result("time", "random")})
    with pytest.raises(ProtocolError, match=r"timing\.json: the result has no trace"):
        measured_trace(tmp_path, str(tmp_path / "timing.json"), "", str(file))
