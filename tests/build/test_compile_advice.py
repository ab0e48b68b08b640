"""What is said to do about errors of nvcc, ptxas, nvlink and ld, as they print them."""

from __future__ import annotations

import pytest
from kernelrig.build.compile_advice import compile_advice

OTHER_ARCH = """\
ptxas /tmp/k.ptx, line 22; error   : Instruction 'wgmma.fence' not supported on .target 'sm_100a'
ptxas fatal   : Ptx assembly aborted due to errors
"""
OTHER_FILE = "ptxas fatal   : Unresolved extern function '_Z6bin_offff'\n"
LINKED = "nvlink error   : Undefined reference to '_Z6bin_offff' in '/tmp/main.o'\n"
NO_LIBRARY = """\
/usr/bin/ld: gemm.o: in function `make_map(float*, int)':
gemm.cudafe1.cpp:(.text+0x63): undefined reference to `cuTensorMapEncodeTiled'
gemm.cudafe1.cpp:(.text+0x83): undefined reference to `curandCreateGenerator'
collect2: error: ld returned 1 exit status
"""
NO_MAIN = "(.text+0x17): undefined reference to `main'\n"
NO_HEADER = "prog.cu:3:10: fatal error: tiles/ring.cuh: No such file or directory\n"
OF_WHEELS = "a.cuh:3:10: fatal error: nvtx3/nvToolsExt.h: No such file or directory\n"
OWN = "prog.cudafe1.cpp:(.text+0x6): undefined reference to `current_size'\n"


@pytest.mark.parametrize(
    ("log", "of_run", "of_project"),
    [
        (OTHER_ARCH, "pass --arch sm_90a", "sources: {sm_90a: FILE}"),
        (OTHER_FILE, "uses bin_of of another file", "nvcc_flags: [-rdc=true] in kernels.yaml"),
        (LINKED, "--nvcc-flags=-rdc=true", "nvcc_flags: [-rdc=true] in kernels.yaml"),
        (NO_LIBRARY, "", "libs: [cuda, curand] in kernels.yaml"),
        (NO_MAIN, "`kernelrig new NAME --template operation`", "a program has a `main`"),
        (OF_WHEELS, "--nvcc-flags=-IFOLDER", "have nvtx3/nvToolsExt.h: extras: [nvtx] in kernels"),
        (NO_HEADER, "has tiles/ring.cuh: --nvcc-flags=-IFOLDER", "nvcc_flags: [-IFOLDER]"),
    ],
)
def test_an_error_comes_with_what_to_do(log: str, of_run: str, of_project: str) -> None:
    assert of_run in compile_advice(log, in_project=False)
    assert of_project in compile_advice(log, in_project=True)


@pytest.mark.parametrize("log", ["", OWN, "prog.cu:3: error: expected a ';'", "ptxas info : done"])
def test_what_speaks_for_itself_gets_no_advice(log: str) -> None:
    assert compile_advice(log, in_project=True) == ""
    assert compile_advice(log, in_project=False) == ""
