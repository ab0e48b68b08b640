"""Numbers and lists of a launch file that no launch has are one sentence, and end at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.launch.file import read_launch
from kernelrig.errors import ConfigError

HUGE = 1 << 62
GOOD: dict[str, Any] = {
    "schema": 2,
    "entry": "k",
    "grid": [1, 1, 1],
    "block": [32, 1, 1],
    "buffers": {"A": {"dtype": "u8", "shape": [16], "fill": {"kind": "zero"}}},
    "args": [{"buffer": "A"}],
}
WORD = {"name": "w", "kind": "word", "offset_bytes": 0, "stride_bytes": 1}


def buffer(**changes: object) -> dict[str, Any]:
    return {"buffers": {"A": {**GOOD["buffers"]["A"], **changes}}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"args": [{"u8": 1}] * 4097}, "'args' has 4097 entries, at most 4096"),
        ({"buffers": {f"b{i}": GOOD["buffers"]["A"] for i in range(4097)}, "args": []},
         "'buffers' has 4097 entries, at most 4096"),
        ({"shared_layout": [WORD] * 4097}, "'shared_layout' has 4097 entries, at most 4096"),
        ({"dynamic_smem_bytes": HUGE, "shared_layout": [{**WORD, "count": HUGE}]},
         f"'dynamic_smem_bytes' must be from 0 to 232448, not {HUGE}"),
        ({"shared_layout": [{**WORD, "count": HUGE}]},
         f"'shared_layout': 'w' ends at byte {HUGE}, 'dynamic_smem_bytes' is 0"),
        ({"tensor_layout": [{"name": "t", "column": 0, "columns": HUGE, "count": HUGE}]},
         f"'tensor_layout': 't' ends at column {HUGE * HUGE}, beyond the 512 of tensor memory"),
        ({"grid": [HUGE, HUGE, HUGE]}, "a grid of more than 1048576 CTAs is not emulated"),
        ({"grid": [-HUGE, 1, 1]}, f"'grid' must be three numbers from 1 on, not [{-HUGE}, 1, 1]"),
        ({"block": [HUGE, 1, 1]}, f"a block has {HUGE} threads, at most 1024 are allowed"),
        (buffer(shape=[1] * 33), "buffer 'A' has 33 dimensions, at most 32"),
        (buffer(shape=[HUGE, HUGE]), f"shape [{HUGE}, {HUGE}] is over a GiB"),
        (buffer(shape=[0]), "shape [0] is empty"),
        (buffer(fill={"kind": "hash", "low": 0, "high": 1, "seed": -1}),
         "buffer 'A': a seed is a whole number from 0 on, not -1"),
        ({"args": [{"buffer": "A", "offset_bytes": HUGE}]},
         "argument 1: 'offset_bytes' is no number from 0 to 1073741824"),
        ({"args": [{"buffer": "A", "offset_bytes": -HUGE}]},
         "argument 1: 'offset_bytes' is no number from 0 to 1073741824"),
    ],
)  # fmt: skip
def test_what_no_launch_has_is_a_sentence(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(GOOD))
    assert read_launch(path).entry == "k"
    path.write_text(json.dumps({**GOOD, **changes}))
    with pytest.raises(ConfigError) as error:
        read_launch(path)
    assert said in str(error.value)


def test_a_launch_file_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(GOOD) + " " * (4 << 20))
    with pytest.raises(ConfigError) as error:
        read_launch(path)
    assert str(error.value).endswith("launch.json: it has more than 4194304 bytes")


@pytest.mark.parametrize("flag", ["--schedules", "--jobs"])
def test_a_number_of_schedules_or_processes_that_ends_no_machine(
    tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path / "none.json"), flag, str(HUGE)]) == 2
    said = "error: --schedules is at most 10000, --jobs 1024, not "
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("directive", "changes", "said"),
    [
        (".maxntid 16", {}, "'block' has 32 threads, and k takes at most 16 (.maxntid)"),
        (".reqntid 64", {}, "'block' is [32, 1, 1], and k takes [64, 1, 1] alone (.reqntid)"),
        (
            ".explicitcluster .reqnctapercluster 2, 1, 1",
            {},
            "'cluster' is [1, 1, 1], and k takes [2, 1, 1] alone (.reqnctapercluster)",
        ),
        (".reqntid 32, 1, 1", {}, ""),
        (".maxntid 8, 4 .minnctapersm 2", {}, ""),
        (".reqnctapercluster 2", {"grid": [2, 1, 1], "cluster": [2, 1, 1]}, ""),
    ],
)
def test_a_launch_keeps_to_the_kernels_directives(
    directive: str,
    changes: dict[str, Any],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "launch.json").write_text(json.dumps({**GOOD, **changes}))
    (tmp_path / "k.ptx").write_text(
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        f".visible .entry k(.param .u64 a) {directive} {{ ret; }}\n"
    )
    words = ["--module", str(tmp_path / "k.ptx"), "--jobs", "1", "--engine", "numpy"]
    assert main(["run", str(tmp_path / "launch.json"), *words]) == (2 if said else 0)
    assert said in capsys.readouterr().err
