"""What `init` and `new` write passes without a GPU, and fails where its kernel is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kernelrig.config.new_kernel import TEMPLATE_NAMES, add_kernel
from kernelrig.config.new_project import init_project
from kernelrig.proc import Completed, run_process

ROOT = Path(__file__).parents[2]
BROKEN = {
    "plain": ("a * x[i] + y[i]", "a * x[i] - y[i]", "nothing that it printed matches must_print"),
    "elementwise": ("0.044715f", "0.144715f", "nothing that it printed matches must_print"),
    "gemm": ("__syncthreads(); // everyone", "// everyone", "race at kernel/gemm.cu:"),
    "operation": ("      to[column] =", "      if (column != 7) to[column] =", "never written"),
}
"""Template -> what is replaced in it, by what, and what is said then."""


def outcome_of(root: Path, kernel: str) -> Completed:
    words = (sys.executable, "-m", "kernelrig", "remote-test", "--kernel", kernel)
    env = {"PYTHONPATH": str(ROOT / "ci"), "PATH": "/usr/bin:/bin", "HOME": str(root)}
    return run_process(words, cwd=root, env=env, timeout_s=600)


@pytest.mark.long
@pytest.mark.limit(1200)
def test_each_template_passes_and_a_broken_one_fails(tmp_path: Path) -> None:
    init_project(tmp_path)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/tools").symlink_to((ROOT / "artifacts/tools").resolve())
    for template in TEMPLATE_NAMES:
        add_kernel(tmp_path, template, template)
        good = outcome_of(tmp_path, template)
        assert (good.exit_code, good.stdout.split(":")[0]) == (0, "pass"), good.stdout + good.stderr
        source = tmp_path / f"kernel/{template}.cu"
        text, (old, new, said) = source.read_text(), BROKEN[template]
        assert old in text
        source.write_text(text.replace(old, new))
        bad = outcome_of(tmp_path, template)
        assert bad.exit_code == 1, bad.stdout + bad.stderr
        assert said in " ".join(bad.stdout.split())
