"""CUDA programs of other authors: where they come from, how they are run, and what is to be seen.

`errors` are kinds of findings. Each was judged by the text of the PTX ISA; `judgement` says how.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A package, locked by its hash; `root` is the folder in it that holds the programs."""

    kind: str  # pip or apt
    name: str
    version: str
    file: str
    sha256: str
    root: str

    @property
    def title(self) -> str:
        return f"{self.name} {self.version} ({'PyPI' if self.kind == 'pip' else 'Debian'})"


CUTLASS = Package(
    "pip",
    "nvidia-cutlass",
    "4.2.0.0",
    "nvidia_cutlass-4.2.0.0-py3-none-any.whl",
    "f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6",
    "cutlass_library/source",
)
CURAND = Package(
    "pip",
    "nvidia-curand",
    "10.4.5.25",
    "nvidia_curand-10.4.5.25-py3-none-manylinux_2_27_x86_64.whl",
    "22bb226a857e5888fe6b54ae465fc4371296bcff13a35f79e19691bcf454f529",
    "nvidia/cu13/include",
)
"""For curand_kernel.h, which headers of CUTLASS's examples include."""
THRUST = Package(
    "apt",
    "libthrust-dev",
    "1.17.2-2",
    "libthrust-dev_1.17.2-2_all.deb",
    "6dfec6791b9e7de6fa556555c9295ccab79efbf02793f78330c818cd84c260ff",
    "usr/share/doc/libthrust-dev/examples",
)
"""Its examples, compiled against the Thrust of CUDA 13."""
CUB = Package(
    "apt",
    "libcub-dev",
    "1.17.2-2",
    "libcub-dev_1.17.2-2_all.deb",
    "4a45bb1201d1cb96606574a3175d7bbed8a18f502e5ec679a0684835b74239a0",
    "usr/share/doc/libcub-dev/examples",
)
"""Its examples, compiled against the CUB of CUDA 13. They include a header of CUB's tests that the
package lacks: cub_test_util.h is in its place."""


@dataclass(frozen=True)
class Program:
    """`says` is a regular expression of its output: its own check's words, if `checks`.

    `seconds` of CPU were measured with the compilation, on a machine of 2 cores under load.
    """

    package: Package
    source: str
    says: str
    seconds: int
    checks: bool = True
    arguments: str = ""
    arch: str = "sm_100a"
    schedules: int = 1
    launch: int = 0
    kernel: str = ""
    errors: frozenset[str] = frozenset()
    judgement: str = ""
    refused: str = ""

    @property
    def row(self) -> str:
        """The line of ci/docs/programs.md."""
        name = self.source.rpartition("/")[2]
        flags = [f"`--arch {self.arch}`"] if self.arch != "sm_100a" else []
        flags += [f"`--launch {self.launch}`"] if self.launch else []
        flags += [f"`--kernel {self.kernel}`"] if self.kernel else []
        flags += [f"`-- {self.arguments}`"] if self.arguments else []
        check = "refused" if self.refused else "passed" if self.checks else "has none"
        errors = ", ".join(sorted(self.errors))
        found = f"{errors}: {self.judgement}" if errors else self.refused or "no error"
        cells = (name, self.package.name, " ".join(flags), check, found, str(self.seconds))
        return f"| {' | '.join(cells)} |"


def _example(
    source: str,
    says: str,
    seconds: int,
    arguments: str = "",
    arch: str = "sm_100a",
    schedules: int = 1,
    checks: bool = True,
    launch: int = 0,
    kernel: str = "",
    error: str = "",
    judgement: str = "",
    refused: str = "",
) -> Program:
    return Program(
        CUTLASS, f"examples/{source}", says, seconds, checks, arguments, arch, schedules, launch,
        kernel, frozenset(error.split()), judgement, refused,
    )  # fmt: skip


def _thrust(source: str, says: str, seconds: int, error: str = "", judgement: str = "") -> Program:
    errors = frozenset(error.split())
    return Program(THRUST, source, says, seconds, checks=False, errors=errors, judgement=judgement)


def _cub(source: str, seconds: int, says: str = "PASS", arguments: str = "--n=3000") -> Program:
    return Program(CUB, f"{source}.cu", says, seconds, arguments=arguments, schedules=2)


_HOPPER, _SUCCESS = "sm_90a", "Execution is successful"
_TUTORIAL, _PLAIN = "cute/tutorial", "CUTE_GEMM:"
_ONE = "--i=1 --grid-size=1"

PROGRAMS = (
    _example(
        f"{_TUTORIAL}/blackwell/01_mma_sm100.cu", _SUCCESS, 28, "256 512 128", schedules=4,
        error="proxy-fence",
        judgement="right: threads store A and B to shared memory, and tcgen05.mma reads them with"
        " no fence.proxy.async between (9.7.13.4)",
    ),
    _example(f"{_TUTORIAL}/blackwell/02_mma_tma_sm100.cu", _SUCCESS, 29, "256 512 128",
             schedules=4),
    _example(f"{_TUTORIAL}/blackwell/03_mma_tma_multicast_sm100.cu", _SUCCESS, 34,
             "512 1024 128", schedules=4),
    _example(f"{_TUTORIAL}/blackwell/04_mma_tma_2sm_sm100.cu", _SUCCESS, 36, "512 1024 128",
             schedules=4),
    _example(f"{_TUTORIAL}/blackwell/05_mma_tma_epi_sm100.cu", _SUCCESS, 40, "512 1024 128",
             schedules=4),
    _example(
        f"{_TUTORIAL}/hopper/wgmma_sm90.cu", _PLAIN, 38, "128 128 64", _HOPPER, checks=False,
        error="out-of-bounds race",
        judgement="right: it fetches two tiles ahead where K has one; wgmma reads what other"
        " threads' cp.async bring, with no barrier behind their waits (9.7.9.25.3)",
    ),
    _example(f"{_TUTORIAL}/hopper/wgmma_tma_sm90.cu", _PLAIN, 29, "256 128 192", _HOPPER,
             checks=False, launch=1),
    _example(f"{_TUTORIAL}/sgemm_1.cu", _PLAIN, 27, "128 128 32", checks=False),
    _example(f"{_TUTORIAL}/sgemm_2.cu", _PLAIN, 22, "128 128 32", checks=False, launch=1),
    _example(f"{_TUTORIAL}/tiled_copy.cu", "Success", 16),
    _example("00_basic_gemm/basic_gemm.cu", "Passed", 9, "128 128 32", schedules=4),
    _example("01_cutlass_utilities/cutlass_utilities.cu", "Passed", 46, schedules=4),
    _example("02_dump_reg_shmem/dump_reg_shmem.cu", "2040 2032 2024", 9, schedules=4, checks=False),
    _example("04_tile_iterator/tile_iterator.cu", "Passed", 6, schedules=4),
    _example("14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu", "Passed", 9,
             "--m=128 --n=128 --k=64 --iterations=1"),
    _example("15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm.cu", "Passed", 37),
    _example("19_tensorop_canonical/tensorop_canonical.cu", "Passed", 6, schedules=2),
    _example("20_simt_canonical/simt_canonical.cu", "Passed", 6, "--m=32 --n=64 --k=8",
             schedules=2),
    _example("21_quaternion_gemm/quaternion_gemm.cu", "Passed", 9,
             "--m=64 --n=64 --k=16 --iterations=1"),
    _example("31_basic_syrk/basic_syrk.cu", "Passed", 8),
    _example("46_depthwise_simt_conv2dfprop/depthwise_simt_conv2dfprop.cu", "Passed", 10,
             "--n=1 --h=8 --w=8 --c=32 --k=32 --g=32 --r=3 --s=3 --ref-check"),
    _example("47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk.cu", "Passed", 23,
             "--m=128 --n=128 --k=64 --iterations=1"),
    _example("48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu", "Passed", 33,
             "--m=256 --n=256 --k=128 --iterations=0", _HOPPER, kernel="device_kernel"),
    _example("54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu",
             "Passed", 46, "--m=128 --n=128 --k=128 --iterations=0", _HOPPER,
             kernel="device_kernel"),
    _example(
        "70_blackwell_gemm/70_blackwell_fp8_gemm.cu", "Passed", 59,
        "--m=256 --n=256 --k=256 --iterations=0",
    ),
    _thrust("sort.cu", r"\(94, 4\) \(93,14\)", 20),
    _thrust("histogram.cu", "1 6 12 4 9 6 2", 16),
    _thrust("set_operations.cu", r"Difference\(A,B\) \[ 4 6 9 \]", 17),
    _thrust("lexicographical_sort.cu", r"\(9,9,4\)", 11),
    _thrust("run_length_encoding.cu", r"\(a,3\)\(b,5\)\(c,1\)\(d,2\)\(e,9\)\(f,2\)", 11),
    _thrust("sparse_vector.cu", r"C \(1,50\) \(2,40\) \(3,60\) \(4,80\)", 15),
    _thrust("norm.cu", "norm is 5.47723", 9),
    _thrust("mode.cu", "Modal value 9 occurs 6 times", 17),
    _thrust("cuda/explicit_cuda_stream.cu", "sum is 499500", 10),
    _thrust("cuda/async_reduce.cu", "", 12),
    _thrust("cuda/custom_temporary_allocation.cu", r"cached_allocator::free_all\(\)", 20),
    _thrust("weld_vertices.cu", r"indices\[8\] = 3", 13),
    _cub("block/example_block_radix_sort", 13, arguments=_ONE),
    _cub("block/example_block_reduce", 15, arguments=_ONE),
    _cub("block/example_block_scan", 17, arguments=_ONE),
    _cub("device/example_device_partition_flagged", 14, "Data PASS"),
    _cub("device/example_device_partition_if", 14, "Data PASS"),
    _cub("device/example_device_radix_sort", 16, "values .*PASS"),
    _cub("device/example_device_reduce", 15),
    _cub("device/example_device_scan", 13),
    _cub("device/example_device_select_flagged", 13, "Data PASS"),
    _cub("device/example_device_select_if", 16, "Data PASS"),
    _cub("device/example_device_select_unique", 15, "Data PASS"),
    _cub("device/example_device_sort_find_non_trivial_runs", 15),
)  # fmt: skip
