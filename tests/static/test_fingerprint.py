"""A fingerprint is of the code that runs: it survives other lines, and no other instruction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import AcceptedBuild, FunctionResources, Outcome, Usage
from kernelrig.sass import Function, Module
from kernelrig.static.fingerprint import check_fingerprint, fingerprint, normal_lines, stable_name
from kernelrig.static.sass_diff import diff_sass

from tests.sass_fixture import Compile
from tests.static.builds import made_build, made_subject

LOOP = """
extern "C" __global__ void sum(float* out, const float* in, int n) {
  float total = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) total += in[i] * FACTOR;
  out[threadIdx.x] = total;
}
"""
BEFORE = """
namespace { __device__ int twice(int a) { return 2 * a; } }
extern "C" __global__ void aaa(int* out, int n) {
  for (int i = 0; i < n; ++i) if (out[i] > 3) out[i] = twice(out[i]);
}
"""


@pytest.fixture(scope="module")
def module(compile_sass: Compile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Module]:
    """Return three modules: a plain one, the same code on other lines, and another constant."""
    folder = tmp_path_factory.mktemp("sources")

    def make(name: str, text: str) -> Module:
        (folder / f"{name}.cu").write_text(text)
        return compile_sass(str(folder / f"{name}.cu"), "sm_90a").module

    plain = LOOP.replace("FACTOR", "3.0f")
    return {
        "plain": make("plain", plain),
        "moved": make("moved", BEFORE + "\n\n\n" + plain.replace("float total", "\nfloat total")),
        "other": make("other", LOOP.replace("FACTOR", "5.0f")),
    }


def summing(module: Module) -> Function:
    return module.function("sum")


def test_other_lines_and_other_functions_before_it_change_nothing(
    module: dict[str, Module],
) -> None:
    plain, moved = summing(module["plain"]), summing(module["moved"])
    assert plain.labels.keys() != moved.labels.keys()
    assert fingerprint(plain) == fingerprint(moved)
    assert list(normal_lines(plain)) == list(normal_lines(moved))


def test_another_constant_is_another_fingerprint(module: dict[str, Module]) -> None:
    assert fingerprint(summing(module["plain"])) != fingerprint(summing(module["other"]))


def test_another_register_or_target_is_another_fingerprint(module: dict[str, Module]) -> None:
    function = summing(module["plain"])
    for old, new in (("R0", "R77"), ("`(.L_x_0)", "`(.L_x_1)")):
        at = next(n for n, i in enumerate(function.instructions) if old in i.text)
        changed = replace(
            function.instructions[at], text=function.instructions[at].text.replace(old, new)
        )
        code = (*function.instructions[:at], changed, *function.instructions[at + 1 :])
        assert fingerprint(replace(function, instructions=code)) != fingerprint(function), old


@pytest.mark.parametrize(
    ("mangled", "stable"),
    [
        ("patch_embed_gemm", "patch_embed_gemm"),
        (
            "_ZN52_GLOBAL__N__9f2b01ac_9_kernel_cu_5d0a3e114fillEPf",
            "_ZN52_GLOBAL__N___9_kernel_cu__4fillEPf",
        ),
        ("_Z9deadbeef_v", "_Z9deadbeef_v"),
    ],
)
def test_a_name_keeps_no_hash_of_its_file(mangled: str, stable: str) -> None:
    assert stable_name(mangled) == stable


def test_a_fingerprint_that_changed_is_told_and_no_fault() -> None:
    then = AcceptedBuild("nvcc", Usage(1, 0, 0, 0, 0), {"gemm": "aa", "gone": "cc"})
    same = check_fingerprint(made_subject(), then.fingerprints, then)
    other = check_fingerprint(made_subject(), {"gemm": "bb"}, then)
    new = check_fingerprint(made_subject(), {"gemm": "bb"}, None)
    assert {c.verdict.outcome for c in (same, other, new)} == {Outcome.PASS}
    assert same.verdict.summary == "as accepted"
    assert other.verdict.summary == "changed since it was accepted: gemm, gone"
    assert new.facts == {"gemm": "bb"}


def test_a_diff_shows_by_function_what_changed(module: dict[str, Module], tmp_path: Path) -> None:
    of_sum = FunctionResources("sum", 20, 0, 0, 0, 0, 0)
    a = made_build(tmp_path / "a", "", of_sum)
    b = made_build(tmp_path / "b", "", replace(of_sum, registers=24))
    lines = list(diff_sass(a, b, module["moved"], module["other"]))
    assert lines[:2] == [
        "A  demo-sm_100a-production aabbccddeeff, nvcc 13.0.88",
        "B  demo-sm_100a-production aabbccddeeff, nvcc 13.0.88",
    ]
    assert next(line for line in lines if line.startswith("aaa: ")).startswith("aaa: in A alone, ")
    at = next(n for n, line in enumerate(lines) if line.startswith("sum: changed, "))
    assert lines[at + 1] == "  registers: 20 -> 24"
    changed = [line[2:] for line in lines[at:] if line.startswith(("  -", "  +"))]
    assert changed
    assert {line[0] for line in changed} == {"-", "+"}
    assert all(", 3, " in line for line in changed if line[0] == "-")
    assert all(", 5, " in line for line in changed if line[0] == "+")


def test_a_diff_of_the_same_code_says_so(module: dict[str, Module], tmp_path: Path) -> None:
    build = made_build(tmp_path, "")
    lines = list(diff_sass(build, build, module["plain"], module["plain"]))
    assert lines[2:] == ["", f"sum: the same, {fingerprint(summing(module['plain']))}"]


def test_a_target_that_alone_changed_is_seen(module: dict[str, Module], tmp_path: Path) -> None:
    function = summing(module["plain"])
    at = next(n for n, i in enumerate(function.instructions) if i.root == "BRA")
    other = next(name for name in function.labels if name not in function.instructions[at].text)
    text = function.instructions[at].text
    target = text[text.index("`(") + 2 : text.rindex(")")]
    changed = replace(function.instructions[at], text=text.replace(target, other))
    code = (*function.instructions[:at], changed, *function.instructions[at + 1 :])
    b = replace(module["plain"], functions=(replace(function, instructions=code),))
    build = made_build(tmp_path, "")
    lines = list(diff_sass(build, build, module["plain"], b))
    assert [line[:3] for line in lines if line.startswith(("  -", "  +"))] == ["  -", "  +"]
