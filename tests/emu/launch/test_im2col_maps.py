"""A launch file of one launch with a map of im2col."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import load
from kernelrig.errors import ConfigError

from tests.emu.im2col_trials import HALO
from tests.emu.tile_copies import TILE

TRIAL = replace(HALO, corner=(0, -1, -1, 0), pixels=16)


def written(folder: Path, schema: int = 3, **changes: object) -> Path:
    """Write a launch that loads a column of ones, of whose pixels the first row is outside."""
    (folder / "k.ptx").write_text(TRIAL.text)
    column: dict[str, Any] = {
        "buffer": "a", "dtype": "u8", "dims": TRIAL.dims, "strides_bytes": TRIAL.strides,
        "lower_corner": TRIAL.lower, "upper_corner": TRIAL.upper, "channels_per_pixel": 32,
        "pixels_per_column": TRIAL.pixels, "element_strides": (1, 1, 1, 1), **changes,
    }  # fmt: skip
    ones = {"kind": "constant", "value": 1}
    launch = {
        "schema": schema, "module": "k.ptx", "entry": "k", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {
            "a": {"dtype": "u8", "shape": [TILE], "fill": ones},
            "out": {"dtype": "u8", "shape": [TILE], "fill": {"kind": "undefined"}},
        },
        "im2col_maps": {"m": column},
        "args": [{"tensor_map": "m"}, {"buffer": "a"}, {"buffer": "out"}],
    }  # fmt: skip
    path = folder / "launch.json"
    path.write_text(json.dumps(launch))
    return path


def test_it_is_run(tmp_path: Path) -> None:
    loaded = load(written(tmp_path))
    outcome = emulate(loaded, schedules_of(Schedule(), 1), dump=("out",), jobs=1)
    assert outcome.findings == ()
    column = np.asarray(outcome.buffers["out"])[: 32 * TRIAL.pixels].reshape(-1, 32)
    assert column.any(axis=1).tolist() == [False] * 8 + [True] * 6 + [False, True]


@pytest.mark.parametrize(
    ("schema", "changes", "said"),
    [
        (2, {}, "'im2col_maps' need \"schema\": 3"),
        (3, {"pixels_per_column": 0}, "tensor map 'm': pixels_per_column is 0: 1 to 1024"),
        (3, {"offset_bytes": -1}, "tensor map 'm': 'offset_bytes' is no number"),
    ],
)
def test_what_is_wrong_is_said(
    schema: int, changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, schema, **changes))
    assert said in caught.value.message
