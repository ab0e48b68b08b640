"""Upgrade records of an older schema to today's: renamed keys and values.

A file is upgraded in memory when it is read; the file itself stays as it was written.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from kernelrig.model import visible_gpu

JsonObject = dict[str, Any]


def upgrade(kind: str, value: JsonObject, wanted: int) -> JsonObject | None:
    """Return `value`, a record of `kind`, in the schema `wanted`; None if it cannot be upgraded."""
    found = value.get("schema")
    if type(found) is not int:  # `true` is equal to 1, and no schema number
        return None
    while found < wanted and (step := _STEPS.get((kind, found))):
        found += 1
        value = {**step(value), "schema": found}
    return value if found == wanted else None


def _renamed(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    return {names.get(key, key): held for key, held in value.items()}


def _each(value: object, change: Callable[[JsonObject], JsonObject]) -> object:
    """Change each object of a list; anything else is left as it is, for the reader to refuse."""
    if not isinstance(value, list):
        return value
    return [change(held) if isinstance(held, dict) else held for held in value]


def _run_of_schema_1(value: JsonObject) -> JsonObject:
    run = _renamed(value, {"box": "host"})
    if isinstance(run.get("remote"), dict) and run["remote"].get("tools") == "box":
        run["remote"] = {**run["remote"], "tools": "host"}
    run["jobs"] = _each(run.get("jobs", []), _stage_job)
    run["stages"] = _each(run.get("stages", []), _stage_record)
    run["kernel"] = _kernel(run.get("kernel"))
    if isinstance(run.get("bench"), dict):
        run["bench"] = bench = _renamed(run["bench"], {"contenders": "candidates"})
        bench["candidates"] = _each(
            bench.get("candidates"), lambda c: {**c, "kernel": _kernel(c.get("kernel"))}
        )
    return run


_RECORDED = ("name", "arch", "kind", "device", "gpu", "tools")


def _run_of_schema_2(value: JsonObject) -> JsonObject:
    """Drop what could be connected to and the values of variables; keep what followed from them."""
    remote, host = value.get("remote"), value.get("host")
    if isinstance(host, dict):
        held = remote.get("env") if isinstance(remote, dict) else None
        visible = held.get("CUDA_VISIBLE_DEVICES") if isinstance(held, dict) else None
        admin = isinstance(remote, dict) and remote.get("user") == "root"
        host = {key: held for key, held in host.items() if key != "workdir"}
        value = {**value, "host": {**host, "gpu_index": _gpu_index(host, visible), "admin": admin}}
    if isinstance(remote, dict):
        env = remote.get("env")
        kept = {key: remote[key] for key in _RECORDED if key in remote}
        names = sorted(env) if isinstance(env, dict) else env or []
        value = {**value, "remote": {**kept, "host_key": _fingerprint(remote), "env": names}}
    kernel = value.get("kernel")
    if isinstance(kernel, dict) and kernel.get("level") == 0:
        value = {**value, "stages": _each(value.get("stages", []), _of_plain_program)}
    return {**value, "purpose": _purpose(value)}


def _of_plain_program(stage: JsonObject) -> JsonObject:
    return {**stage, "kind": "exit status"} if stage.get("kind") == "checksum" else stage


def _purpose(run: JsonObject) -> str:
    """Return the task that made a run: those of a machine of its own had plans of their own."""
    plan = run.get("plan")
    name = plan.get("name") if isinstance(plan, dict) else ""
    if run.get("bench") is not None:
        return "bench"
    if run.get("remote") is None:
        known = {"build": "build", "check": "check", "tunables": "check"}
        return known.get(name if isinstance(name, str) else "", "emulate")
    return "profile" if name == "profile" else "remote-test"


def _gpu_index(host: JsonObject, visible: object) -> int | None:
    gpus = host.get("gpus")
    listed = [g if isinstance(g, dict) else {} for g in gpus] if isinstance(gpus, list) else []
    plain = [{key: str(held) for key, held in gpu.items()} for gpu in listed]
    return visible_gpu(plain, visible if isinstance(visible, str) else None)


def _fingerprint(remote: JsonObject) -> str:
    """Return the fingerprint of the key that was pinned; empty if it was found in known_hosts."""
    words = str(remote.get("host_key") or "").split()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, ValueError):
        return ""
    return f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"


def _kernel(value: object) -> object:
    """Name the suggested fix of each SASS rule as kernels.yaml of today does."""
    if not isinstance(value, dict) or not isinstance(value.get("sass"), dict):
        return value

    def rules(held: object) -> object:
        if not isinstance(held, dict):
            return held
        return {**held, "rules": _each(held.get("rules"), lambda r: _renamed(r, {"mend": "fix"}))}

    return {**value, "sass": {arch: rules(held) for arch, held in value["sass"].items()}}


def _stage_job(value: JsonObject) -> JsonObject:
    def command(held: JsonObject) -> JsonObject:
        return _renamed(held, {"once": "cache_key"})

    return {**value, "commands": _each(value.get("commands"), command)}


def _stage_record(value: JsonObject) -> JsonObject:
    return {**value, "checks": _each(value.get("checks"), _check)}


def _check(value: JsonObject) -> JsonObject:
    facts = value.get("facts")
    return {**value, "facts": _facts(facts)} if isinstance(facts, dict) else value


def _facts(value: JsonObject) -> JsonObject:
    names = {"word": "result", "resolves": "MDD", "told from": "basis", "box class": "host class"}
    facts = _renamed(value, names)
    for key, held in facts.items():
        if isinstance(held, str) and held == "undecided":
            facts[key] = "inconclusive"
        elif isinstance(held, str) and held.startswith("stale: "):
            facts[key] = held.replace("stale", "outdated", 1)
    return facts


def _bench_result(value: JsonObject) -> JsonObject:
    result = _renamed(value, {"turns": "slots"})
    names = {"contender": "candidate", "around": "environment"}
    result["slots"] = _each(result.get("slots"), lambda held: _renamed(held, names))
    result["comparisons"] = _each(result.get("comparisons"), _comparison)
    return result


def _comparison(value: JsonObject) -> JsonObject:
    names = {"turns": "slots", "resolves_percent": "mdd_percent", "word": "result"}
    compared = _renamed(value, names)
    if compared.get("result") == "undecided":
        compared["result"] = "inconclusive"
    return compared


def _baselines(value: JsonObject) -> JsonObject:
    return _renamed(value, {"box_class": "host_class"})


def _emulated(value: JsonObject) -> JsonObject:
    """Schema 2 only adds: chains, rules, causes and the names of barriers and buffers."""
    return value


def _emulated_of_schema_2(value: JsonObject) -> JsonObject:
    """There was one engine."""
    ran = value.get("run")
    return {**value, "run": {**ran, "engine": "numpy"}} if isinstance(ran, dict) else value


_STEPS: Mapping[tuple[str, int], Callable[[JsonObject], JsonObject]] = {
    ("Run", 1): _run_of_schema_1,
    ("Run", 2): _run_of_schema_2,
    ("BenchResult", 1): _bench_result,
    ("Baselines", 1): _baselines,
    ("Emulated", 1): _emulated,
    ("Emulated", 2): _emulated_of_schema_2,
}
