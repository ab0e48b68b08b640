"""What to do about what a compiler or linker refuses, where its own words do not say it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelrig.build.libraries import extra_of_header
from kernelrig.findings.demangling import demangled

_TARGET = re.compile(
    r"(?:Instruction|Feature|Modifier|Argument) '[^']+' (?:not supported on|cannot be compiled for)"
    r" (?:\.target|architecture) '(sm_\w+)'"
)
_ELSEWHERE = re.compile(
    r"Unresolved extern (?:function|variable) '(\w+)'"
    r"|nvlink error\s*: Undefined reference to '(\w+)'"
)
_UNDEFINED = re.compile(r"undefined reference to [`'](\w+)")
_NO_MAIN = re.compile(r"undefined reference to [`']main'")
_NO_HEADER = re.compile(r"fatal error: (\S+): No such file")
_OTHER_ARCHS = {"sm_100a": "sm_90a", "sm_90a": "sm_100a"}
_LIBRARIES = (
    ("curand", re.compile(r"curand[A-Z]")),
    ("cublasLt", re.compile(r"cublasLt[A-Z]")),
    ("cublas", re.compile(r"cublas[A-Z]")),
    ("cuda", re.compile(r"cu[A-Z]")),
)
"""A library of the toolkit, and what the names of its functions begin with."""


def compile_advice(log: str, *, in_project: bool) -> str:
    """Return what to do about a log's errors, "" where nothing is known.

    What is compiled is an entry of kernels.yaml (`in_project`), or what `run` was given.
    """
    return "; ".join(_advice(log, in_project))


def _advice(log: str, in_project: bool) -> Iterator[str]:
    where = "in kernels.yaml" if in_project else ""
    if found := _TARGET.search(log):
        yield from _for_other_arch(found[1], in_project)
    if found := _ELSEWHERE.search(log):
        flag = "nvcc_flags: [-rdc=true]" if in_project else "--nvcc-flags=-rdc=true"
        name = demangled(found[1] or found[2])
        why = f"device code uses {name} of another file, which takes relocatable device code"
        yield f"{why}: {flag} {where}".rstrip()
    libs = sorted(set(filter(None, map(_library, _UNDEFINED.findall(log)))))
    if libs and in_project:
        yield f"link what has them: libs: [{', '.join(libs)}] {where}"
    if _NO_MAIN.search(log):
        yield (
            "a program has a `main`; a kernel without one gets it by"
            " `kernelrig new NAME --template operation`, which compares it with NumPy"
        )
    header = missing_header(log)
    if extra := extra_of_header(header) if in_project else "":
        yield f"locked wheels have {header}: extras: [{extra}] {where}"
    elif header:
        flag = "nvcc_flags: [-IFOLDER]" if in_project else "--nvcc-flags=-IFOLDER"
        yield f"name the folder that has {header}: {flag} {where}".rstrip()


def missing_header(log: str) -> str:
    """Return the header that a compiler did not find, as it is included; "" where all are there."""
    found = _NO_HEADER.search(log)
    return found[1] if found else ""


def _library(name: str) -> str:
    return next((lib for lib, first in _LIBRARIES if first.match(name)), "")


def _for_other_arch(arch: str, in_project: bool) -> Iterator[str]:
    if other := _OTHER_ARCHS.get(arch):
        if in_project:
            yield (
                f"if the source is for {other} alone, say so in kernels.yaml: sources:"
                f" {{{other}: FILE}}; a remote of `arch: {other}` runs it"
            )
        else:
            yield f"if the program is for {other}, pass --arch {other}"
