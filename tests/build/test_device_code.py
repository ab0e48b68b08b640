"""A kernel's PTX alone, and whether what is around it is still the same; by the real nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig import build, config
from kernelrig.errors import BuildError
from kernelrig.model import Toolchain

from tests.demo_project import SOURCE, make_demo_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Path:
    return make_demo_project(tmp_path_factory.mktemp("demo"))


def request_of(project: Path, source: str) -> build.Request:
    (project / "kernel/demo.cu").write_text(source)
    return build.Request(config.load_kernels(project)["demo"], "sm_90a", "production")


def test_the_ptx_is_made_without_the_program_and_errors_are_the_compilers(
    project: Path, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    broken_host = SOURCE.replace("int main(", "no such type main(")
    made = build.compile_device_code(
        project, request_of(project, broken_host), cuda_toolchain, tmp_path
    )
    assert ".visible .entry gemm(" in (tmp_path / "demo.ptx").read_text()
    assert (list(made.files), list(made.inputs)) == (["demo.ptx"], ["kernel/demo.cu"])
    half = SOURCE.replace("sum[w] += tile", "sum[w] += tile]")
    with pytest.raises(BuildError) as caught:
        build.compile_device_code(project, request_of(project, half), cuda_toolchain, tmp_path)
    assert caught.value.details.startswith("kernel/demo.cu:12: error: ")


TEMPLATE = """\
template <int N> __global__ void gemm(int *out) { out[threadIdx.x] = N; }
#ifndef KERNELRIG_DEVICE_ONLY
int main() { gemm<3><<<1, 32>>>(nullptr); }
#endif
"""


def test_a_template_that_the_host_code_alone_instantiates_is_found_in_the_whole_source(
    project: Path,
    cuda_toolchain: Toolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build.compile_device_code(project, request_of(project, TEMPLATE), cuda_toolchain, tmp_path)
    assert ".entry _Z4gemmILi3EEvPi(" in (tmp_path / "demo.ptx").read_text()
    assert "outside of #ifndef KERNELRIG_DEVICE_ONLY: the whole source is compiled" in (
        capsys.readouterr().err
    )


def test_only_another_host_program_has_another_key(
    project: Path, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    lines = '#define PLACE "at " __FILE__\nconst int place = __LINE__;\n'
    source = SOURCE.replace("int main(", f"{lines}int main(")
    other_device = source.replace(
        "tile[threadIdx.x] = in[i];", "\n\ntile[threadIdx.x] = 2 * in[i];"
    )
    other_host = source.replace("1024}", "2048}")

    def key(text: str, name: str) -> str:
        (tmp_path / name).mkdir()
        request = request_of(project, text)
        return build.read_host_code(project, request, cuda_toolchain, tmp_path / name).key

    first = key(source, "first")
    assert key(other_device, "device") == first
    assert key(other_host, "host") != first
