"""An expected output that the grid does not cover, found through a launch file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import load

from tests.emu.harness import kernel_text
from tests.emu.places import places


def test_elements_never_written_are_named_in_the_buffers_shape(tmp_path: Path) -> None:
    body = places(c=4) + "setp.ne.u32 %p1, %r190, 10; @%p1 st.global.u32 [%rd1], %r190;"
    (tmp_path / "k.ptx").write_text(kernel_text(body, ["c"], "sm_100a"))
    np.save(tmp_path / "c.npy", np.arange(32, dtype=np.uint32).reshape(4, 8))
    launch = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "cluster": [1, 1, 1],
        "dynamic_smem_bytes": 0,
        "buffers": {"C": {"dtype": "u32", "shape": [4, 8], "fill": {"kind": "undefined"}}},
        "tensor_maps": {},
        "args": [{"buffer": "C"}],
        "expect": {"C": {"path": "c.npy", "max_abs": 0.0, "max_rel": 0.0}},
    }
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    loaded = load(tmp_path / "launch.json")
    outcome = emulate(loaded, schedules_of(Schedule(), 1), jobs=1)
    assert [f.kind for f in outcome.findings] == ["uninitialised", "mismatch"]
    assert outcome.findings[0].message == (
        "4 of the 128 bytes of C were never written, C[1, 2] (C + 0x28) first: the grid does not"
        " cover its output"
    )
