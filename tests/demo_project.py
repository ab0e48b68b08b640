"""A complete small project whose kernel compiles in seconds, and whose program describes itself."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernelrig.files.rundir import write_atomic

from tests.toolchain_fixture import REPOSITORY

SOURCE = """\
// A sum of products, and a program that says how it would be launched.
#include <cstdio>
#include <cstring>
static_assert(WIDTH != 3, "WIDTH 3 leaves a part of a line");
extern "C" __global__ void gemm(float *out, const float *in, int n) {
  __shared__ float tile[64];
  float sum[WIDTH] = {};
  for (int i = threadIdx.x; i < n; i += 64) {
    tile[threadIdx.x] = in[i];
    __syncthreads();
    for (int w = 0; w < WIDTH; ++w)
      sum[w] += tile[(threadIdx.x + w) % 64];
    __syncthreads();
  }
  for (int w = 0; w < WIDTH; ++w)
    out[threadIdx.x * WIDTH + w] = sum[w];
}
#ifndef KERNELRIG_DEVICE_ONLY
int main(int argc, char **argv) {
  if (argc < 7 || std::strcmp(argv[2], "describe") != 0)
    return 2;
  char path[4096];
  std::snprintf(path, sizeof path, "%s/launch.json", argv[6]);
  std::FILE *file = std::fopen(path, "w");
  std::fprintf(file, "{\\"block\\": [64, 1, 1], \\"cluster\\": [1, 1, 1], "
                     "\\"dynamic_smem_bytes\\": 1024}");
  return std::fclose(file);
}
#endif
"""

KERNELS = """\
schema: 1
kernels:
  demo:
    kernel_regex: ^gemm$
    label: "a demonstration"
    sources: {sm_90a: demo.cu}
    variants:
      production: {program: demo}
      wide: {program: demo_wide, defines: {WIDTH: 4}}
    cases: {smoke: {images: 1}}
    shape: {rows_per_image: 1, n: 1, k: 1}
    tunables:
      sm_90a:
        WIDTH: {default: 1, values: [1, 2, 3, 4], structural: true}
    budgets:
      sm_90a:
        production: {registers: 64, spill_bytes: 0, stack_bytes: 0, local_instructions: 0,
                     shared_bytes: 1280, barriers: 1, ctas_per_sm: 8}
    sass:
      sm_90a:
        source: demo.cu
        rules:
          - {code: S001, name: sums, what: it adds, why: it is a sum, fix: add, must_have: [FADD]}
"""

PLAN = """\
schema: 1
stages:
  - {name: check, kind: check}
  - {name: preflight, kind: preflight}
  - {name: program, kind: checksum, case: smoke, patterns: [constant]}
"""


def make_demo_project(root: Path) -> Path:
    """Write the project into `root` and return it; its tools are this repository's."""
    write_atomic(root / "kernel/demo.cu", SOURCE)
    write_atomic(root / "kernel/kernels.yaml", KERNELS)
    write_atomic(root / "ci/plans/quick.yaml", PLAN)
    write_atomic(
        root / "remotes.yaml", "schema: 1\nremotes:\n  local: {kind: embedded, arch: sm_90a}\n"
    )
    (root / "artifacts").mkdir()
    (root / "artifacts/tools").symlink_to(REPOSITORY / "artifacts/tools")
    return root


def copy_project(project: Path, root: Path, *edits: tuple[str, str, str]) -> Path:
    """Copy a project with its builds, and change (file, old, new) in it."""
    shutil.copytree(project, root, symlinks=True)
    for name, old, new in edits:
        text = (root / name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} times {old!r}"
        write_atomic(root / name, text.replace(old, new))
    return root
