"""Kernels that Triton makes for Hopper and Blackwell run to the right results on a host program.

Triton orders what its threads store in and load from tensor memory by barriers alone, where PTX
wants tcgen05.fence::before_thread_sync and after_thread_sync (9.7.16.6.4): warnings, and right.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from kernelrig.run.program import ProgramRequest, emulate_program

REPOSITORY = Path(__file__).parents[3]
FOLDER = Path(__file__).with_name("triton")
WHEEL = "triton==3.9.0"
KERNELS = (
    "softmax", "layernorm", "dropout", "splitk", "gemm_desc", "gemm_desc_ws", "gemm_fp8",
    "attention", "scan_sort", "persistent",
)  # fmt: skip
PRODUCTS = frozenset(KERNELS) - {"softmax", "layernorm", "dropout", "scan_sort"}
"""Those that use tensor cores: on Blackwell through tensor memory."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triton")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), WHEEL]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("triton-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for part in packed.infolist():
            made = Path(packed.extract(part, folder / "site"))
            if mode := part.external_attr >> 16 & 0o777:
                made.chmod(mode)
    kernels = folder / "kernels"
    kernels.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "site"),
        "TRITON_CACHE_DIR": str(folder / "cache"),
    }
    build = [sys.executable, str(FOLDER / "build.py"), str(kernels)]
    subprocess.run(build, check=True, env=environment)
    return kernels


@pytest.mark.long
@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_of_triton_computes_what_numpy_does(
    kernel: str, capability: int, compiled: Path
) -> None:
    request = ProgramRequest(
        (FOLDER / "host.cu",),
        (str(compiled / f"{kernel}_{capability}"),),
        f"sm_{capability}a",
        (),
        schedules=2,
    )
    with tempfile.TemporaryFile() as stdout:
        report = emulate_program(REPOSITORY, request, stdout)
        stdout.seek(0)
        printed = stdout.read().decode()
    right, _, whole, *_ = printed.split()
    assert right == whole, printed
    assert report.program.exit_code == 0
    found = [f for launch in report.program.launches for f in launch.findings]
    through_tensor_memory = capability == 100 and kernel in PRODUCTS
    rules = {f.finding.rule for f in found}
    assert ("tensor-wait-without-fence" in rules) == through_tensor_memory, report.text
    assert not [f for f in found if f.severity == "error"], report.text
