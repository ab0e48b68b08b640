"""Files of launches in sequence that say what they may not: one sentence with the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelrig.emu.launch.file import read_launch
from kernelrig.emu.launch.sequence import read_sequence
from kernelrig.errors import ConfigError

LAUNCH: dict[str, Any] = {
    "module": "m", "entry": "p", "grid": [1, 1, 1], "block": [32, 1, 1],
    "args": [{"bytes": "00" * 16, "holds": [{"at": 8, "buffer": "x"}]}],
}  # fmt: skip
BUFFER: dict[str, Any] = {
    "address": "0x7f0000010000", "dtype": "f32", "shape": [8], "fill": {"kind": "zero"},
}  # fmt: skip
IM2COL: dict[str, Any] = {
    "buffer": "x", "dtype": "f32", "dims": [4, 2, 1], "strides_bytes": [16, 32],
    "lower_corner": [-1], "upper_corner": [-1], "channels_per_pixel": 4, "pixels_per_column": 8,
    "element_strides": [1, 1, 1],
}  # fmt: skip
TILES = {
    **{key: IM2COL[key] for key in ("buffer", "dtype", "dims", "strides_bytes")},
    "box": [4, 1, 1], "element_strides": [1, 1, 1],
}  # fmt: skip
WHOLE = {"schema": 2, "launches": [LAUNCH], "modules": {"m": {"path": "p.ptx"}},
         "buffers": {"x": BUFFER}}  # fmt: skip


def written(folder: Path, **changes: object) -> Path:
    path = folder / "launch.json"
    path.write_text(json.dumps({**WHOLE, **changes}))
    return path


def launch(**changes: object) -> dict[str, object]:
    return {"launches": [{**LAUNCH, **changes}]}


def buffer(**changes: object) -> dict[str, object]:
    return {"buffers": {"x": {**BUFFER, **changes}}}


def held(**changes: object) -> dict[str, object]:
    return launch(args=[{"bytes": "00" * 16, "holds": [changes]}])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"launches": []}, "'launches' is empty"),
        (launch(module="n"), "launch 1: names module 'n', which is not there"),
        (launch(grid=[3, 1, 1], cluster=[2, 1, 1]), "launch 1: grid [3, 1, 1] is no multiple"),
        (launch(grid=[5000, 1, 1], cooperative=True), "a cooperative launch has 4736 CTAs at most"),
        (launch(before={"y": []}), "'before' names buffer 'y', which is not there"),
        (launch(args=[{"bytes": "0"}]), "'bytes' are no pairs of hexadecimal digits"),
        (launch(args=[{"i32": 1 << 31}]), "2147483648 does not fit i32"),
        (held(at=9, buffer="x"), "'holds' at 9: 8 bytes do not fit the 16 of the argument"),
        (held(at=0, buffer="y"), "names buffer 'y', which is not there"),
        (held(at=0), "must have one of 'buffer' and 'tensor_map'"),
        (held(att=0), "missing key 'at' in item 1 of 'holds'; unknown key 'att'"),
        (buffer(address="nowhere"), "'address' 'nowhere' is no hexadecimal number"),
        (buffer(address="0x7f0000000100"), "'address' must be a multiple of 256 from 0x7f0000010"),
        (buffer(address="0x7fff00000000"), "bytes into device memory, and"),
        (buffer(shape=[0]), "'shape' must be 1 to 32 numbers from 1 on"),
        (buffer(contents=[{}]), "a content must have one of 'path' and 'zero_bytes'"),
        (buffer(contents=[{"zero_bytes": 1 << 33}]), "filled with 8589934624 bytes together"),
        (buffer(tensor_maps={"-1": "m"}), "'-1', which is no offset in bytes"),
        ({"im2col_maps": {"m": IM2COL}}, "'im2col_maps' need \"schema\": 3"),
        ({"schema": 3, "im2col_maps": {"m": IM2COL}, "tensor_maps": {"m": TILES}},
         "tensor map 'm' is in 'tensor_maps' and in 'im2col_maps'"),
        ({"schema": 3, "im2col_maps": {"m": {**IM2COL, "buffer": "y"}}},
         "tensor map 'm' names buffer 'y', which is not there"),
        ({"schema": 3, "im2col_maps": {"m": TILES}}, "missing key 'lower_corner' in 'm'"),
        (buffer(lives=[3, 1]), "'lives' must be two positions in 'launches'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_sequence(written(tmp_path, **changes))
    assert said in caught.value.message


def test_a_right_one_is_read_and_no_file_of_one_launch(tmp_path: Path) -> None:
    path = written(tmp_path)
    read = read_sequence(path)
    assert (read.buffers["x"].start, read.buffers["x"].size) == (1 << 16, 32)
    with pytest.raises(ConfigError, match="has a sequence of launches"):
        read_launch(path)


def test_maps_of_both_modes_share_their_names(tmp_path: Path) -> None:
    maps = {"im2col_maps": {"m": IM2COL}, "tensor_maps": {"n": TILES}}
    named = launch(args=[{"tensor_map": "m"}, {"tensor_map": "n"}])
    read = read_sequence(written(tmp_path, schema=3, **named, **maps))
    assert read.maps.keys() == {"m", "n"}
    assert read.im2col_maps["m"].lower_corner == (-1,)
