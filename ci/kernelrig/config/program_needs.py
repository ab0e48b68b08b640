"""What a CUDA program's source shows that it needs: libraries of CUDA, and the archs it is for.

A guess of `init`, written into kernels.yaml where a person sees and corrects it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelrig.config.schema import ARCHS

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"(?<![\w.>\"])(?:::)?(cu(?:rand|blasLt|blas)?[A-Z]\w*)\s*\(")
_LIBRARIES = ("curand", "cublasLt", "cublas")
_ONE_ARCH = {"sm_100a": re.compile(r"\btcgen05\."), "sm_90a": re.compile(r"\bwgmma\.")}
"""An arch, and instructions that no other one has."""
_NAMED = re.compile(r"\b(?:sm|compute)_(\d+a)\b")
_ARGUMENTS = re.compile(r"\bargv\s*\[\s*1\s*\]")


@dataclass(frozen=True, slots=True)
class ProgramNeeds:
    """`libs` as the key of kernels.yaml, `archs` those it is for, `arguments`: it reads some."""

    libs: tuple[str, ...]
    archs: tuple[str, ...]
    arguments: bool


def needs_of(source: str) -> ProgramNeeds:
    """Return what the text of a program shows. Of both archs where it is for neither alone."""
    code = _COMMENT.sub(" ", source)
    libs = dict.fromkeys(_library(name) for name in _CALL.findall(code))
    found = [arch for arch in ARCHS if _ONE_ARCH[arch].search(code)]
    if not found:
        named = {f"sm_{number}" for number in _NAMED.findall(source)}
        found = [arch for arch in ARCHS if arch in named]
    archs = tuple(found) if len(found) == 1 else ARCHS
    return ProgramNeeds(tuple(libs), archs, bool(_ARGUMENTS.search(code)))


def _library(name: str) -> str:
    return next((lib for lib in _LIBRARIES if name.startswith(lib)), "cuda")
