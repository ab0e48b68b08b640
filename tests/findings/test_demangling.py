"""Names of functions as people read them."""

from __future__ import annotations

import sys

import pytest
from kernelrig.findings.demangling import demangled, own_name, readable

NAMES = {
    "_ZN9kernelrig4waitEjjPKc": "wait",
    "_ZZN9kernelrig4waitEjjPKcENKUlvE_clEv": "a lambda in wait",
    "_Z6kernelILi4EEvPi": "kernel<4>",
    "_ZN12_GLOBAL__N_14TileILi4EE5storeEv": "store",
    "patch_embed_gemm": "patch_embed_gemm",
    "_Zbroken": "_Zbroken",
}


@pytest.mark.parametrize(("mangled", "name"), NAMES.items())
def test_a_name_is_the_functions_own(mangled: str, name: str) -> None:
    pytest.importorskip("cxxfilt")
    demangled.cache_clear()
    assert demangled(mangled) == name


def test_every_name_in_a_text_is_replaced() -> None:
    text = "ptx.cuh:104 _ZN9kernelrig4waitEjjPKc, in gemm.cu:9 gemm"
    assert readable(text) == "ptx.cuh:104 wait, in gemm.cu:9 gemm"


def test_without_the_library_a_name_is_read_as_far_as_we_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cxxfilt", None)
    demangled.cache_clear()
    assert demangled("_ZN9kernelrig4waitEjjPKc") == "wait"
    assert demangled("_ZZN9kernelrig4waitEjjPKcENKUlvE_clEv").startswith("_ZZN")
    demangled.cache_clear()


@pytest.mark.parametrize(
    ("whole", "own"),
    [
        ("void (anonymous namespace)::consume<(int)3>(Clock<(bool)1>&)", "consume<3>"),
        ("Clock<(anonymous namespace)::Phase>::mark(int) const", "mark"),
        ("patch_embed_gemm(CUtensorMap_st, float const*)", "patch_embed_gemm"),
        ("store_four", "store_four"),
    ],
)
def test_a_demangled_name_is_cut_to_the_functions_own(whole: str, own: str) -> None:
    assert own_name(whole) == own
