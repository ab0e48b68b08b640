"""Names of what lies in shared and tensor memory: declared by the kernel, written by describe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.compilations import build_to_describe, copy_kernel_folder
from tests.kernel.host_program import KERNEL, compile_for_host

SOURCE = Path(__file__).parents[1] / "data/kernel/print_overlap.cpp"
DESCRIBED = {
    ("patch_embed", "sm_100a"): [
        "A buffer 0 + 4 x 32768, 16384",
        "B buffer 16384 + 4 x 32768, 16384",
        "C_staging buffer 131072 + 16 x 4096, 4096",
        "inputs_arrived mbarrier 196608 + 4 x 8, 8",
        "inputs_released mbarrier 196640 + 4 x 8, 8",
        "accum_ready mbarrier 196672 + 2 x 8, 8",
        "accum_released mbarrier 196688 + 2 x 8, 8",
        "tmem_address word 196704 + 1 x 4, 4",
        "accumulator 0 + 2 x 256",
    ],
    ("patch_embed", "sm_90a"): [
        "B buffer 0 + 6 x 24576, 24576",
        "A buffer 147456 + 8 x 8192, 8192",
        "weights_arrived mbarrier 212992 + 1 x 8, 8",
        "inputs_arrived mbarrier 213000 + 8 x 8, 8",
        "inputs_released mbarrier 213064 + 8 x 8, 8",
        "turn mbarrier 213128 + 2 x 8, 8",
    ],
    ("patch_embed_cuda", "sm_90a"): [
        "A buffer 0 + 2 x 32768, 16384",
        "B buffer 16384 + 2 x 32768, 16384",
    ],
}
"""name kind offset + count x stride, size; of tensor memory: name column + count x columns."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("layout") / "print_overlap")


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ("0,512,1 512,512,1", "apart"),
        ("0,128,4,256 128,128,4,256", "apart"),  # the As and Bs of a ring of four stages
        ("0,128,4,256 120,128,4,256", "overlap"),
        ("0,128,4,64 512,8,1", "overlap"),  # the elements of one region among themselves
        ("0,512,1 504,8,4", "overlap"),
        ("0,512,2 1016,16,1", "overlap"),
        ("0,512,1 1016,16,1", "overlap"),  # past the end
        ("0,512,1 512,512,0", "apart"),  # none in this build
        ("columns 0,128,2 256,256,1", "apart"),
        ("columns 0,256,2 256,256,1", "overlap"),
        ("columns 0,256,2 512,1,1", "overlap"),  # past the end
    ],
)
def test_two_regions_lie_apart_if_no_element_shares_a_byte(
    regions: str, said: str, program: Path
) -> None:
    done = run_process([program, *regions.split()])
    assert (done.exit_code, done.stdout) == (0, f"{said}\n")


@pytest.mark.parametrize(
    ("kernel", "arch"),
    [pytest.param(*of, marks=pytest.mark.long if of[1] != "sm_100a" else ()) for of in DESCRIBED],
)
def test_describe_writes_what_the_kernel_declares(
    kernel: str, arch: str, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    request = Request(config.load_kernels(KERNEL.parent)[kernel], arch, "production")
    project = copy_kernel_folder(tmp_path / "kernels")
    built = build_to_describe(project, request, cuda_toolchain)
    done = run_process([built.binary, "--mode", "describe", "--out", tmp_path], timeout_s=60)
    assert (done.exit_code, done.stderr) == (0, "")
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert launch["schema"] == 2
    assert [
        "{name} {kind} {offset_bytes} + {count} x {stride_bytes}, {size}".format(
            **r, size=r.get("size_bytes", r["stride_bytes"])
        )
        for r in launch["shared_layout"]
    ] + [
        "{name} {column} + {count} x {columns}".format(**r) for r in launch["tensor_layout"]
    ] == DESCRIBED[kernel, arch]


@pytest.mark.parametrize("source", ["sm100a_patch_embed_fp8.cu", "sm90a_patch_embed_fp8.cu"])
def test_a_barrier_has_one_name_in_the_layout_and_in_every_wait(source: str) -> None:
    text = (KERNEL / source).read_text()
    declared = re.findall(r'SharedRegion::mbarriers\("(\w+)", (\w+),', text)
    waited = re.findall(
        r'\bwait(?:_relaxed|_in_cluster)?\([^;]*?Config::(\w+)[^;]*?"(\w+)"\)', text
    )
    initialised = re.findall(r"mbarrier_init\([^;]*?Config::(\w+)", text)
    assert [name.upper() for name, _ in declared] == [constant for _, constant in declared]
    assert {(name, constant) for constant, name in waited} <= set(declared)
    assert {constant for constant, _ in waited} == {constant for _, constant in declared}
    assert sorted(initialised) == sorted(constant for _, constant in declared)
