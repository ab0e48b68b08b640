"""The layouts of a launch file, schema 2: names for messages, read strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelrig.emu.launch.file import read_launch
from kernelrig.emu.launch.layout import shared_regions, tensor_regions
from kernelrig.emu.machine.region_names import RegionNames, SharedRegion
from kernelrig.errors import ConfigError

RING = {"name": "A", "kind": "buffer", "offset_bytes": 0, "stride_bytes": 4096, "count": 2}
BARRIERS = {
    "name": "inputs_arrived",
    "kind": "mbarrier",
    "offset_bytes": 8192,
    "stride_bytes": 8,
    "count": 2,
}
ACCUMULATOR = {"name": "accumulator", "column": 0, "columns": 256, "count": 2}


def write(folder: Path, **more: Any) -> Path:  # noqa: ANN401 - JSON
    launch = {
        "schema": 2,
        "entry": "k",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "dynamic_smem_bytes": 16384,
        "buffers": {},
        "args": [],
        "shared_layout": [RING, BARRIERS],
        "tensor_layout": [ACCUMULATOR],
    }
    path = folder / "launch.json"
    path.write_text(json.dumps({**launch, **more}))
    return path


def test_elements_are_named_by_their_region_and_index(tmp_path: Path) -> None:
    launch = read_launch(write(tmp_path))
    names = RegionNames(
        shared_regions(launch.shared_layout, 0x400), tensor_regions(launch.tensor_layout)
    )
    assert names.of_shared(0x400 + 4096 + 0x40) == "A[1] + 0x40"
    assert names.of_mbarrier(0x400 + 8192 + 8) == "inputs_arrived[1]"
    assert names.of_shared(0x400 + 8192 + 16) == ""
    assert names.of_tensor(300) == "accumulator[1]"


def test_rings_may_be_interleaved(tmp_path: Path) -> None:
    rings: list[dict[str, object]] = [
        {**RING, "stride_bytes": 6144, "size_bytes": 4096},
        {**RING, "name": "B", "offset_bytes": 4096, "stride_bytes": 6144, "size_bytes": 2048},
    ]
    names = RegionNames(
        shared_regions(read_launch(write(tmp_path, shared_layout=rings)).shared_layout, 0)
    )
    assert [names.of_shared(at) for at in (4095, 4096, 6144)] == ["A[0] + 0xfff", "B[0]", "A[1]"]


def test_a_static_variable_of_the_ptx_is_named_demangled() -> None:
    names = RegionNames((SharedRegion("_ZZ4gemmvE8arrivals", 0x400, 16),))
    assert names.of_mbarrier(0x408) == "arrivals[1]"


def test_schema_1_has_no_layouts_and_is_still_read(tmp_path: Path) -> None:
    path = write(tmp_path, schema=1, shared_layout=[], tensor_layout=[])
    assert read_launch(path).shared_layout == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": 1}, "'shared_layout' and 'tensor_layout' need \"schema\": 2"),
        (
            {"shared_layout": [{**RING, "count": 0}]},
            "'shared_layout': 'A': count and stride_bytes start at 1, offset_bytes at 0",
        ),
        (
            {"shared_layout": [{**RING, "count": 5}]},
            "'shared_layout': 'A' ends at byte 20480, 'dynamic_smem_bytes' is 16384",
        ),
        (
            {"shared_layout": [RING, {**BARRIERS, "offset_bytes": 8184}]},
            "'shared_layout': 'A' and 'inputs_arrived' overlap at byte 8184",
        ),
        (
            {"shared_layout": [{**BARRIERS, "stride_bytes": 16}]},
            "'shared_layout': 'inputs_arrived': an mbarrier has 8 bytes, not 16",
        ),
        (
            {"shared_layout": [{**RING, "size_bytes": 8192}]},
            "'shared_layout': 'A': size_bytes must be from 1 to the stride of 4096",
        ),
        (
            {"tensor_layout": [{**ACCUMULATOR, "count": 3}]},
            "'tensor_layout': 'accumulator' ends at column 768, beyond the 512 of tensor memory",
        ),
        (
            {"tensor_layout": [ACCUMULATOR, {**ACCUMULATOR, "name": "D", "count": 1}]},
            "'tensor_layout': 'D' and 'accumulator' overlap at column 0",
        ),
        (
            {"shared_layout": [{**RING, "kind": "ring"}]},
            "'kind' must be one of mbarrier, buffer, word, not 'ring'",
        ),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_be_is_a_sentence(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_launch(write(tmp_path, **change))
    assert caught.value.message == f"launch.json: {sentence}"
