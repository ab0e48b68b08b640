"""Compile sets of tunables to a cubin each, to see which compile; nothing is linked or stored.

The result of a set is stored in artifacts/tunables, named by a hash of its command and of the key
of a full build of the same sources, which covers every header: unchanged sets are not compiled.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernelrig.build import ledger
from kernelrig.build.cache import request_key
from kernelrig.build.command import Request, compile_argv, output_argv
from kernelrig.build.compiler import COMPILE_LIMIT_S, readable_log
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import Build, Toolchain, TriedSet
from kernelrig.proc import run_jobs, run_process
from kernelrig.sass import parse_sass

TRIED = Path("artifacts/tunables")
ONLY_DEVICE = ("-cubin", "-DKERNELRIG_DEVICE_ONLY")
"""The flags that make a compile command stop at the cubin, without the harness."""
ONLY_DESCRIBED = ("-DKERNELRIG_DESCRIBE_ONLY", "-Xcompiler", "-O0")
"""The flags that leave out what a program does on a GPU."""
_ASSERT = re.compile(r'^kernel/\S+:\d+: error: static assertion failed with "(.*)"$')
_ERROR = re.compile(
    r"^\S+:\d+: (?:fatal |internal )?error\b|^\S*(?:error|fatal)\s*:", re.IGNORECASE
)


def try_sets(
    root: Path, build: Build, request: Request, sets: Sequence[Mapping[str, int]], tools: Toolchain
) -> tuple[TriedSet, ...]:
    """Return the result of each set; `build` is that of `request`, made from the same files."""
    jobs = [partial(_try_set, root, build, request, dict(values), tools) for values in sets]
    return tuple(future.result() for future in run_jobs(jobs))


def compile_described(
    root: Path, request: Request, values: Mapping[str, int], tools: Toolchain, folder: Path
) -> Build | TriedSet:
    """Compile a set into `folder` as far as an emulator needs it: the PTX, and a program that knows
    `--mode describe` alone. Nothing is linked for a GPU; a set that does not compile says why.
    """
    request = _with(request, values)
    virtual = request.arch.replace("sm_", "compute_")
    words = (
        w.replace(f"code={request.arch}", f"code={virtual}")
        for w in compile_argv(request, tools, root)
    )
    argv = (*words, *ONLY_DESCRIBED, *output_argv(request, str(folder)))
    done = run_process(argv, cwd=root, timeout_s=COMPILE_LIMIT_S)
    if done.exit_code:
        refused, complaint = read_refusal(readable_log(done, root))
        return TriedSet(dict(values), refused=refused, complaint=complaint, seconds=done.seconds)
    program = request.way.program
    (folder / f"{Path(request.source).stem}.ptx").rename(folder / f"{program}.ptx")
    return Build(
        kernel=request.kernel.name,
        arch=request.arch,
        variant=request.variant,
        key="",
        folder=folder,
        program=program,
        command=argv,
        toolchain_version=tools.version,
        resources=(),
        glibc="",
        min_driver="",
        inputs={},
        files={name: "" for name in (program, f"{program}.ptx")},
        compile_s=round(done.seconds, 3),
    )


def _with(request: Request, values: Mapping[str, int]) -> Request:
    """Return the request with `values` in place of its variant's own."""
    way = replace(request.way, defines={**request.way.defines, **values})
    variants = {**request.kernel.variants, request.variant: way}
    return replace(request, kernel=replace(request.kernel, variants=variants))


def _try_set(
    root: Path, build: Build, request: Request, values: dict[str, int], tools: Toolchain
) -> TriedSet:
    request = _with(request, values)
    argv = (*compile_argv(request, tools, root), *ONLY_DEVICE)
    words = [build.key, request_key(request, argv, tools, root)]
    name = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
    kept = root / TRIED / f"{request.name}-{name}.json"
    if kept.is_file() and ledger.is_noted(kept, kept):
        return replace(from_json(TriedSet, kept), reused=True)
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as folder:
        tried = _compile(root, argv, values, Path(folder) / "set.cubin", tools)
    write_atomic(kept, to_json(tried))
    ledger.note(kept, kept)
    return tried


def _compile(
    root: Path, argv: Sequence[str], values: dict[str, int], cubin: Path, tools: Toolchain
) -> TriedSet:
    done = run_process([*argv, "-o", cubin], cwd=root, timeout_s=COMPILE_LIMIT_S)
    log = readable_log(done, root)
    if done.exit_code:
        refused, complaint = read_refusal(log)
        return TriedSet(values, refused=refused, complaint=complaint, seconds=done.seconds)
    listed = run_process([tools.nvdisasm, "-c", cubin], timeout_s=COMPILE_LIMIT_S)
    if listed.exit_code:
        raise ProtocolError(
            f"nvdisasm cannot read the cubin of a set of tunables: {listed.stderr.strip()[:200]}"
        )
    code = [i for f in parse_sass(listed.stdout).functions for i in f.instructions]
    return TriedSet(
        values,
        functions=parse_ptxas_log(log),
        local_instructions=sum(i.matches("LDL") or i.matches("STL") for i in code),
        seconds=round(done.seconds, 3),
    )


def read_refusal(log: str) -> tuple[tuple[str, ...], str]:
    """Return the messages of our static asserts, and the first other error, if any.

    An error after a static assert may or may not follow from it; both are returned.
    """
    errors = [line for line in log.splitlines() if _ERROR.match(line)]
    sentences = [found[1] for line in errors if (found := _ASSERT.match(line))]
    others = [line for line in errors if not _ASSERT.match(line)]
    if not errors:
        others = log.strip().splitlines()[:1] or ["the compiler failed and printed nothing"]
    return tuple(dict.fromkeys(sentences)), others[0] if others else ""
