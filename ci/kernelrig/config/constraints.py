"""Constraints on remotes, kernels and plans beyond their types; one function per record.

The path of a Complaint is relative to the record; config.load puts the path of the record before it
and finds the line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kernelrig.config.expectations import budget_rules, sass_rules, tunable_rules
from kernelrig.config.operation_sizes import operation_rules
from kernelrig.files.record_names import MOST, is_arch, is_identifier, is_name
from kernelrig.files.regular_file import is_there
from kernelrig.files.validation import Complaint, Loc, nearest
from kernelrig.model import (
    AcceptedFinding,
    DeviceKind,
    Kernel,
    Remote,
    SlurmOptions,
    Stage,
    StageKind,
)

_LARGEST = 10**9
MOST_COMMANDS = 100
"""Of a stage: each is a process on the host, and a check of the report."""
MOST_SAMPLES = 100_000
"""Of a timing: all of them are in its result file."""
_LARGEST_DIMENSION = 1 << 24
_OF_A_BUILD = ("build.json", "compile.log", "depends.json", "headers.d", "resources.json")
"""Files that each build has beside its program."""
_SLURM_WORD = re.compile(r"[\w\[(][\w.,:&|*@+=()\[\]-]*", re.ASCII)
_SLURM_NODES = re.compile(r"\w[\w.,\[\]-]*", re.ASCII)
_HOST_KEY = re.compile(r"[a-z][a-z0-9@.-]* [A-Za-z0-9+/]+=*( .*)?")


def name_rule(name: str) -> Iterator[Complaint]:
    if len(name) > MOST:
        yield Complaint((), f"'{name[:20]}...' has {len(name)} characters; a name has {MOST}")
    elif not is_name(name):
        yield Complaint(
            (),
            f"'{name}' cannot be a name; use letters, digits, '.', '_' and '-': it names folders",
        )


LOCAL_KEYS = ("up", "status", "down", "on_idle")
"""Commands of a remote, which only the user's own file may have: a reviewed one comes from others.
"""


def remote_rules(remote: Remote) -> Iterator[Complaint]:
    yield from name_rule(remote.name)
    yield from _arch_rule(("arch",), remote.arch)
    if remote.kind == "ssh" and not remote.host and not remote.up:
        yield Complaint((), f"missing key 'host' in '{remote.name}'; an ssh remote needs one")
    yield from _slurm_rules(remote)
    if remote.kind == "embedded":
        for key in ("host", "user", "port", "identity_file", "host_key", "jump"):
            if getattr(remote, key):
                yield Complaint((key,), f"an embedded remote is this machine: it takes no '{key}'")
    if remote.device is DeviceKind.EMULATOR and remote.kind != "embedded":
        text = "an emulator remote is this machine, whose own kernelrig it runs: 'kind: embedded'"
        yield Complaint(("device",), text)
    if re.search(r"@|^[^:]*:[0-9]+$", remote.host):
        yield Complaint(
            ("host",),
            f"'host' is the address alone, not '{remote.host}'; 'user' and 'port' are keys",
        )
    if remote.host_key and not _HOST_KEY.fullmatch(remote.host_key):
        yield Complaint(
            ("host_key",),
            f"'host_key' is '{remote.host_key[:60]}'; it must be the key itself, as "
            "`ssh-ed25519 AAAA...`: `invoke remote-add` writes it",
        )
    if not 0 <= remote.port <= 65535:
        yield Complaint(("port",), f"'port' must be 1 to 65535, not {remote.port}")
    for limit in ("connect_timeout_s", "give_up_s", "answer_s"):
        yield from positive((limit,), getattr(remote, limit))
    if not 0 <= remote.boot_s <= _LARGEST:
        text = f"'boot_s' must be from 0 to {_LARGEST}, not {remote.boot_s:g}"
        yield Complaint(("boot_s",), text)
    for key in ("host", "user", "identity_file", "jump", "workdir", "python", "gpu"):
        if not getattr(remote, key).isprintable():
            yield Complaint((key,), f"'{key}' must be one line of printable characters")
    if not 2 < remote.silence_s <= _LARGEST:
        text = "must be more than 2, for the agent shows every 2 s that it is alive"
        yield Complaint(("silence_s",), f"'silence_s' {text}, not {remote.silence_s:g}")
    yield from _identifiers(("env",), remote.env)
    if not re.fullmatch(r"|[0-9]{1,3}|any|all|GPU-[0-9a-fA-F-]{2,60}", str(remote.gpus)):
        text = "must be a number, any, all or the beginning of a UUID, as GPU-a5bd4633"
        yield Complaint(("gpus",), f"'gpus' {text}, not '{remote.gpus}'")
    if remote.gpus != "" and "CUDA_VISIBLE_DEVICES" in remote.env:
        text = "'gpus' says which GPUs programs see: leave CUDA_VISIBLE_DEVICES out of 'env'"
        yield Complaint(("gpus",), text)
    yield from _budget_rules(remote)
    yield from _rental_rules(remote)


def _slurm_rules(remote: Remote) -> Iterator[Complaint]:
    asked = remote.slurm
    if remote.kind != "slurm":
        if asked != SlurmOptions():
            yield Complaint(("slurm",), "'slurm' is for remotes of 'kind: slurm'")
        return
    if not remote.host:
        text = f"missing key 'host' in '{remote.name}'; it is the cluster's login node"
        yield Complaint((), text)
    for key in LOCAL_KEYS:
        if getattr(remote, key):
            yield Complaint((key,), f"a cluster is not rented by commands: it takes no '{key}'")
    if remote.gpus not in ("", "all") or "CUDA_VISIBLE_DEVICES" in remote.env:
        key = "gpus" if remote.gpus not in ("", "all") else "env"
        text = "Slurm gives each job its GPUs: ask for them with 'gres', as gpu:1"
        yield Complaint((key,), text)
    for word in ("partition", "account", "qos", "reservation", "gres", "constraint"):
        if (value := getattr(asked, word)) and not _SLURM_WORD.fullmatch(value):
            yield Complaint(
                ("slurm", word), f"'{word}' is '{value[:60]}'; sbatch takes no such word"
            )
    for word in ("nodelist", "exclude"):
        if (value := getattr(asked, word)) and not _SLURM_NODES.fullmatch(value):
            yield Complaint(("slurm", word), f"'{word}' is '{value[:60]}'; it is a list of nodes")
    for word in ("cpus", "memory_mb", "time_minutes", "poll_s"):
        if (number := getattr(asked, word)) is not None:
            yield from positive(("slurm", word), number)


def _budget_rules(remote: Remote) -> Iterator[Complaint]:
    for key in ("price_per_hour", "max_minutes", "max_cost"):
        if (value := getattr(remote, key)) is not None:
            yield from positive((key,), value)
    if remote.max_cost is not None and remote.price_per_hour is None:
        yield Complaint(("max_cost",), "'max_cost' needs 'price_per_hour', which says its minutes")


def _rental_rules(remote: Remote) -> Iterator[Complaint]:
    given = [key for key in LOCAL_KEYS if getattr(remote, key)]
    if given and remote.kind == "embedded":
        yield Complaint(
            (given[0],), f"an embedded remote is this machine: it takes no '{given[0]}'"
        )
    rents = [key for key in ("up", "status", "down") if getattr(remote, key)]
    if 0 < len(rents) < 3:
        (absent, *_) = (key for key in ("up", "status", "down") if key not in rents)
        text = f"'{rents[0]}' needs '{absent}': what is rented must be found and given back"
        yield Complaint((rents[0],), text)
    for key in LOCAL_KEYS:
        if any("\0" in word or not word for word in getattr(remote, key)):
            yield Complaint((key,), f"'{key}' is a list of words, none of them empty")
    asked = "{request}" if remote.tags else "{id}"
    if remote.status and not any(asked in word for word in remote.status):
        why = "" if remote.tags else " (tags: false)"
        yield Complaint(("status",), f"'status' must ask for {asked}{why}")
    if remote.down and not any("{id}" in w or "{request}" in w for w in remote.down):
        yield Complaint(("down",), "'down' must name {id} or {request}: the host to give back")


def kernel_rules(kernel: Kernel, folder: Path) -> Iterator[Complaint]:
    """Check one kernel; `folder` is what its sources are relative to."""
    yield from name_rule(kernel.name)
    if kernel.level == 1:
        wanted = ("kernel_regex", "cases", *(() if kernel.is_operation else ("shape",)))
        for key in wanted:
            if not getattr(kernel, key):
                yield Complaint(
                    (),
                    f"missing key '{key}' in '{kernel.name}'; a harness program (level 1) needs it;"
                    " a plain program, with a main of its own, needs 'sources' alone: leave out"
                    " kernel_regex, shape, accum_tol and cases of images, or say 'level: 0'",
                )
    for key in ("sources", "variants"):
        if not getattr(kernel, key):
            yield Complaint((key,), f"'{key}' of '{kernel.name}' is empty; it needs one at least")
    try:
        re.compile(kernel.kernel_regex)
    except re.error as e:
        yield Complaint(("kernel_regex",), f"'kernel_regex' is not a regular expression: {e}")
    for arch, source in kernel.sources.items():
        yield from _arch_rule(("sources", arch), arch)
        if not is_there(folder / source):
            near = nearest(source, (p.name for p in folder.iterdir()))
            yield Complaint(("sources", arch), f"no file '{source}' in {folder.name}/{near}")
        elif not (folder / source).resolve().is_relative_to(folder.parent.resolve()):
            text = f"'{source}' is no file of this project: no commit says what was compiled"
            yield Complaint(("sources", arch), text)
    for key, values in (
        ("label", () if isinstance(kernel.label, str) else kernel.label),
        ("accum_tol", kernel.accum_tol),
        ("budgets", kernel.budgets),
        ("tunables", kernel.tunables),
        ("sass", kernel.sass),
    ):
        for arch in values:
            yield from _source_rule((key, arch), key, arch, kernel)
    for arch, tolerance in kernel.accum_tol.items():
        yield from positive(("accum_tol", arch), tolerance)
    for i, line in enumerate(kernel.expected_lines):
        if not line.strip() or len(line.splitlines()) > 1:
            text = f"an expected line is one line with something in it, not {line!r}"
            yield Complaint(("expected_lines", i), text)
    yield from accepted_rules(kernel.accepted)
    yield from _variant_rules(kernel)
    yield from budget_rules(kernel)
    yield from tunable_rules(kernel)
    yield from sass_rules(kernel)
    yield from operation_rules(kernel)
    for case in kernel.cases.values():
        for complaint in name_rule(case.name):
            yield Complaint(("cases", case.name), complaint.text)
        if kernel.is_operation:
            continue
        yield from positive(("cases", case.name, "images"), case.images)
        if not 0 <= case.ctas <= _LARGEST:
            yield Complaint(
                ("cases", case.name, "ctas"),
                f"'ctas' must be from 0 (every SM) to {_LARGEST}, not {case.ctas}",
            )
    for key in ("rows_per_image", "n", "k") if kernel.shape else ():
        size = getattr(kernel.shape, key)
        if not 1 <= size <= _LARGEST_DIMENSION:
            text = f"'{key}' must be from 1 to {_LARGEST_DIMENSION}, not {size}"
            yield Complaint(("shape", key), text)


def accepted_rules(entries: Iterable[AcceptedFinding]) -> Iterator[Complaint]:
    """Each word of an accepted finding says something: an empty one would fit what has none."""
    for i, entry in enumerate(entries):
        for key in ("tool", "fingerprint", "tool_version", "reason"):
            if not getattr(entry, key).strip():
                yield Complaint(("accepted", i, key), f"'{key}' of an accepted finding is empty")


def _variant_rules(kernel: Kernel) -> Iterator[Complaint]:
    writers: dict[str, str] = {}
    for variant in kernel.variants.values():
        way = ("variants", variant.name)
        for complaint in name_rule(variant.name):
            yield Complaint(way, complaint.text)
        for complaint in name_rule(variant.program):
            yield Complaint((*way, "program"), complaint.text)
        if variant.program in _OF_A_BUILD:
            text = f"'{variant.program}' is another file of each build; name the program otherwise"
            yield Complaint((*way, "program"), text)
        yield from _identifiers((*way, "defines"), variant.defines)
        for i, arch in enumerate(variant.archs):
            yield from _source_rule((*way, "archs", i), "archs", arch, kernel)
        other = writers.setdefault(variant.program, variant.name)
        # A plain program writes no result file; its output is identified by the stage's folder.
        if kernel.level == 1 and other != variant.name:
            text = f"'{variant.program}' is the program of variant '{other}' already"
            yield Complaint((*way, "program"), f"{text}: a result file must say which one wrote it")


def _source_rule(way: Loc, key: str, arch: str, kernel: Kernel) -> Iterator[Complaint]:
    if kernel.sources and arch not in kernel.sources:
        known = ", ".join(kernel.sources)
        yield Complaint(way, f"'{key}' names '{arch}', which has no source; sources: {known}")


_MADE_BY = {
    StageKind.BUILD: "invoke build",
    StageKind.TUNABLES: "invoke check --tunables",
    StageKind.EXIT_STATUS: "invoke remote-test",
    StageKind.METRICS: "invoke remote-test",
    StageKind.BENCH: "invoke bench",
    StageKind.FAULT: "invoke emulate --only-fault",
}
"""Kinds that no plan may hold, and the task that makes a stage of each."""


def stage_rules(stage: Stage, before: Sequence[str]) -> Iterator[Complaint]:
    """Check one stage of a plan; `before` are the names of the stages above it."""
    yield from (Complaint(("name",), c.text) for c in name_rule(stage.name))
    for i, need in enumerate(stage.needs):
        if need not in before:
            known = f"earlier stages: {', '.join(before)}" if before else "it is the first"
            text = f"'{stage.name}' needs '{need}', which is not an earlier stage; {known}"
            yield Complaint(("needs", i), text + nearest(need, before))
    if task := _MADE_BY.get(stage.kind):
        yield Complaint(
            ("kind",), f"no plan holds a {stage.kind} stage; `{task}` makes one of its own"
        )
    if stage.kind is StageKind.SANITIZER and not stage.tool:
        yield Complaint(
            (), f"missing key 'tool' in stage '{stage.name}'; a sanitizer stage needs it"
        )
    if stage.kind is not StageKind.SANITIZER and stage.tool:
        yield Complaint(("tool",), f"a {stage.kind.value} stage takes no 'tool'")
    if stage.variant and not stage.kind.on_host:
        yield Complaint(("variant",), f"a {stage.kind.value} stage runs no program: no 'variant'")
    for key in ("patterns", "seeds", "needs"):
        for value, times in Counter(getattr(stage, key)).items():
            if times > 1:
                yield Complaint((key,), f"'{key}' of '{stage.name}' names {value} {times} times")
    for i, seed in enumerate(stage.seeds):
        if seed < 0:
            yield Complaint(("seeds", i), f"a seed is a whole number from 0 on, not {seed}")
    if stage.kind is StageKind.TIMING and stage.samples == 1:
        text = "a timing stage needs 2 'samples' at least: without another no launch is checked"
        yield Complaint(("samples",), text)
    count = max(1, len(stage.patterns)) * len(stage.seeds)
    if count > MOST_COMMANDS:
        text = f"'{stage.name}' has {count} commands, one for each pattern and seed"
        yield Complaint(("seeds",), f"{text}; at most {MOST_COMMANDS}")
    if not stage.seeds:
        yield Complaint(("seeds",), f"'seeds' of '{stage.name}' is empty; it needs one at least")
    for key in ("time_s", "output_mb", "disk_mb", "samples"):
        yield from positive((key,), getattr(stage, key))
    if stage.samples > MOST_SAMPLES:
        text = f"'samples' must be at most {MOST_SAMPLES}, not {stage.samples}"
        yield Complaint(("samples",), text)
    if not 0 <= stage.warmup_s <= _LARGEST:
        text = f"'warmup_s' must be from 0 to {_LARGEST}, not {stage.warmup_s:g}"
        yield Complaint(("warmup_s",), text)


def _arch_rule(way: tuple[str, ...], arch: str) -> Iterator[Complaint]:
    if not is_arch(arch):
        yield Complaint(way, f"'{arch}' is not an arch; write it as sm_90a or sm_100a")


def positive(way: tuple[str, ...], value: float) -> Iterator[Complaint]:
    if not 0 < value < math.inf:
        yield Complaint(way, f"'{way[-1]}' must be more than 0, not {value:g}")
    elif value > _LARGEST:
        yield Complaint(way, f"'{way[-1]}' must be at most {_LARGEST}, not {value:g}")


def _identifiers(way: tuple[str, ...], values: Mapping[str, object]) -> Iterator[Complaint]:
    for name in values:
        if not is_identifier(name):
            text = f"'{name}' cannot be a name in '{way[-1]}'; use letters, digits and '_'"
            yield Complaint((*way, name), text)
