"""Kernels that share nothing with the project's, run from their PTX and a launch file alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.command_server import run_command
from tests.ptx_fixture import CompilePtx
from tests.toolchain_fixture import REPOSITORY

KERNELS = Path(__file__).parents[1] / "kernels"


def bf16(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Round to the nearest bf16, by adding half of what is cut off; no ties in random numbers."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)


def numbers(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def product() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(7)
    a, b = bf16(rng.standard_normal((256, 160))), bf16(rng.standard_normal((128, 160)))
    return {"a": a, "b": b, "c": bf16(np.einsum("mk,nk->mn", numbers(a), numbers(b)))}


def copies() -> dict[str, NDArray[Any]]:
    tensor = np.random.default_rng(8).integers(0, 1 << 30, (160, 32), dtype=np.uint32)
    out = np.empty((5, 4, 32, 32), np.uint32)
    for tile in range(5):
        for rank in range(4):
            out[tile, rank] = tensor[32 * tile : 32 * tile + 32] * np.uint32(rank + 1)
    return {"in": tensor, "out": out}


ARRAYS = {"bf16_product": product, "multicast": copies}
ARCH = {"bf16_product": "sm_100a", "multicast": "sm_90a"}


def written(name: str, folder: Path, compile_ptx: CompilePtx) -> Path:
    """Write the kernel's PTX, its launch file and all that this names."""
    source = (KERNELS / f"{name}.cu").relative_to(REPOSITORY)
    ptx = compile_ptx(str(source), ARCH[name], "-lineinfo")
    (folder / f"{name}.ptx").write_text(ptx, "utf-8")
    for file, array in ARRAYS[name]().items():
        np.save(folder / f"{file}.npy", array)
    return Path(shutil.copy(KERNELS / f"{name}.json", folder))


def emulated(launch: Path, schedules: int = 4) -> tuple[int, dict[str, Any], str]:
    """Run the command; return its exit code, its findings.json and what it said."""
    found = launch.with_name("findings.json")
    options = ["--json", str(found), "--schedules", str(schedules), "--jobs", "1"]
    done = run_command("run", launch, *options, program="kernelrig.emu")
    return done.exit_code, json.loads(found.read_text()), done.stdout + done.stderr


@pytest.mark.parametrize("name", ARRAYS)
def test_a_third_party_kernel_computes_what_numpy_computes(
    name: str, tmp_path: Path, compile_ptx: CompilePtx
) -> None:
    code, report, said = emulated(written(name, tmp_path, compile_ptx))
    assert report["findings"] == []
    assert code == 0
    assert "emulated: 4 schedules, 0 errors, 0 warnings" in said


@pytest.mark.long
@pytest.mark.parametrize("name", ARRAYS)
def test_it_is_clean_in_many_schedules(name: str, tmp_path: Path, compile_ptx: CompilePtx) -> None:
    code, report, _ = emulated(written(name, tmp_path, compile_ptx), 200)
    assert report["findings"] == []
    assert code == 0


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [
        ("bf16_product", '"swizzle": "64B"', '"swizzle": "128B"', "mismatch"),
        pytest.param(
            "bf16_product", '{"i32": 160}', '{"i32": 128}', "mismatch", marks=pytest.mark.long
        ),
        ("bf16_product", '"box": [32, 128]', '"box": [16, 128]', "deadlock"),
        pytest.param(
            "multicast", '"box": [32, 8]', '"box": [32, 4]', "deadlock", marks=pytest.mark.long
        ),
        ("multicast", '"grid": [4, 1, 1]', '"grid": [8, 1, 1]', "race"),
    ],
)
def test_what_is_wrong_with_the_launch_is_found(
    name: str, old: str, new: str, kind: str, tmp_path: Path, compile_ptx: CompilePtx
) -> None:
    launch = written(name, tmp_path, compile_ptx)
    text = launch.read_text("utf-8")
    assert old in text
    launch.write_text(text.replace(old, new), "utf-8")
    code, report, _ = emulated(launch, 1)
    assert code == 1
    errors = [f for f in report["findings"] if f["severity"] == "error"]
    assert kind in {f["kind"] for f in errors}
    assert any(f["source"].startswith(f"tests/kernels/{name}.cu:") for f in errors)
