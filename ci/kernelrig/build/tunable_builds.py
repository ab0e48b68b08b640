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
from pathlib import Path
from typing import Any

from kernelrig.build import ledger
from kernelrig.build.cache import request_key
from kernelrig.build.command import Request, compile_argv, output_argv
from kernelrig.build.compiler import COMPILE_LIMIT_S, readable_log, unfiled_build
from kernelrig.build.depends import hash_inputs
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.engines import Engine, Json, WorkItem, register
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import from_json, from_value, to_json, to_value
from kernelrig.model import Build, Toolchain, TriedSet
from kernelrig.proc import run_process
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
    root: Path,
    build: Build,
    request: Request,
    sets: Sequence[Mapping[str, int]],
    tools: Toolchain,
    engine: Engine,
) -> tuple[TriedSet, ...]:
    """Return the result of each set; `build` is that of `request`, made from the same files.

    A result is stored when it is there: what comes after it may be interrupted. CiError for a set
    whose worker could not establish one, once the others have theirs.
    """
    tried: dict[str, TriedSet] = {}
    items: dict[str, WorkItem] = {}
    names = []
    for values in sets:
        own = _with(request, values)
        argv = (*compile_argv(own, tools, root), *ONLY_DEVICE)
        words = [build.key, request_key(own, argv, tools, root)]
        name = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
        names.append(name)
        kept = _kept(root, request, name)
        if kept.is_file() and ledger.is_noted(kept, kept):
            tried[name] = replace(from_json(TriedSet, kept), reused=True)
        else:
            payload: dict[str, Json] = {
                "root": str(root),
                "argv": list(argv),
                "values": dict(values),
                "nvdisasm": str(tools.nvdisasm),
                "inputs": dict(build.inputs),
            }
            items[name] = WorkItem.of("compile-set", payload, *words)
    found = {item.key: name for name, item in items.items()}
    lost = []
    for result in engine.run(items.values()):
        name = found[result.key]
        if result.error:
            lost.append(result.error)
            continue
        tried[name] = from_value(TriedSet, result.value, "a worker's result")
        kept = _kept(root, request, name)
        write_atomic(kept, to_json(tried[name]))
        ledger.note(kept, kept)
    if lost:
        raise CiError(f"{len(lost)} sets of tunables have no result: {lost[0]}")
    return tuple(tried[name] for name in names)


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
    files = {name: "" for name in (program, f"{program}.ptx")}
    return unfiled_build(request, tools, folder, argv, done, inputs={}, files=files)


def _with(request: Request, values: Mapping[str, int]) -> Request:
    """Return the request with `values` in place of its variant's own."""
    way = replace(request.way, defines={**request.way.defines, **values})
    variants = {**request.kernel.variants, request.variant: way}
    return replace(request, kernel=replace(request.kernel, variants=variants))


def _kept(root: Path, request: Request, name: str) -> Path:
    return root / TRIED / f"{request.name}-{name}.json"


def require_inputs(root: Path, inputs: Mapping[str, str]) -> None:
    """Raise CiError where the files here are not those whose hashes an item came with."""
    if hash_inputs(root, tuple(inputs)) != dict(inputs):
        raise CiError(
            f"the sources in {root} are not those of this work",
            "every worker needs the same project in the same folder: share it between machines",
        )


@register("compile-set")
def compile_set(payload: Mapping[str, Any]) -> Json:
    """Compile one set of tunables, in any process that has the project's files."""
    root = Path(payload["root"])
    require_inputs(root, payload["inputs"])
    argv, values, nvdisasm = payload["argv"], payload["values"], payload["nvdisasm"]
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as folder:
        tried: Json = to_value(_compile(root, argv, values, Path(folder) / "set.cubin", nvdisasm))
    return tried


def _compile(
    root: Path, argv: Sequence[str], values: dict[str, int], cubin: Path, nvdisasm: str
) -> TriedSet:
    done = run_process([*argv, "-o", cubin], cwd=root, timeout_s=COMPILE_LIMIT_S)
    log = readable_log(done, root)
    if done.exit_code:
        refused, complaint = read_refusal(log)
        return TriedSet(values, refused=refused, complaint=complaint, seconds=done.seconds)
    listed = run_process([nvdisasm, "-c", cubin], timeout_s=COMPILE_LIMIT_S)
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
