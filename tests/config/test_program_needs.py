"""What `init` reads off a program's source."""

from __future__ import annotations

import pytest
from kernelrig.config.program_needs import ProgramNeeds, needs_of

BOTH = ("sm_100a", "sm_90a")


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("", ((), BOTH, False)),
        ("int main() { cudaMalloc(&x, 4); check(cudaGetLastError()); }", ((), BOTH, False)),
        ("CUresult r = cuTensorMapEncodeTiled(&map);", (("cuda",), BOTH, False)),
        ("::cuInit(0); curandCreateGenerator(&g);", (("cuda", "curand"), BOTH, False)),
        ("cublasCreate(&h); cublasLtCreate(&l);", (("cublas", "cublasLt"), BOTH, False)),
        ('get("cuTensorMapEncodeTiled"); // cuInit(0);', ((), BOTH, False)),
        ("api.cuInit(0); api->cuInit(0);", ((), BOTH, False)),
        ('asm("wgmma.fence.sync.aligned;");', ((), ("sm_90a",), False)),
        ('asm("tcgen05.alloc.cta_group::1");', ((), ("sm_100a",), False)),
        ('asm("tcgen05.ld"); asm("wgmma.fence");', ((), BOTH, False)),
        ("/* unlike wgmma. */ int main() {}", ((), BOTH, False)),
        ("// nvcc -gencode arch=compute_90a,code=sm_90a x.cu", ((), ("sm_90a",), False)),
        ("// for sm_90a and sm_100a", ((), BOTH, False)),
        ("int main(int c, char **argv) { int n = atoi(argv[1]); }", ((), BOTH, True)),
        ("int main(int argc, char **argv) { puts(argv[0]); }", ((), BOTH, False)),
    ],
)
def test_libraries_archs_and_arguments_are_read_off_the_source(
    source: str, needs: tuple[tuple[str, ...], tuple[str, ...], bool]
) -> None:
    assert needs_of(source) == ProgramNeeds(*needs)
