"""Run in a process of its own: reads an ncu report with NVIDIA's library, writes it as JSON.

    python -I report_extraction.py REPORT LIBRARY_FOLDER OUTPUT

The library is native code that reads what a host sent: it gets limits, and may crash. Standard
library alone, since nothing of kernelrig is on this process's path.
"""

from __future__ import annotations

import importlib
import json
import math
import resource
import sys
from collections.abc import Iterator
from typing import Any

CPU_S = 60
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 256 << 20
MOST_LAUNCHES = 1000
MOST_INSTRUCTIONS = 200_000
_OF_NO_INSTRUCTION = (
    *("launch__", "device__", "derived__occupancy", "derived__pct_occupancy"),
    *("numa__", "nvlink__", "c2clink__", "sm__maximum_warps", "smsp__maximum_warps"),
)
"""Beginnings of metrics whose instances are numbered, by registers or bytes: they are no addresses,
and may all look like some where code begins at 0.
"""


def main(report: str, library: str, output: str) -> None:
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    sys.path.insert(0, library)
    context = importlib.import_module("ncu_report").load_report(report)
    launches = [_launch(action) for action in _actions(context)]
    with open(output, "w", encoding="utf-8") as f:  # noqa: PTH123 - one function of the library's world
        json.dump({"launches": launches}, f, allow_nan=False)


def _actions(context: Any) -> Iterator[Any]:  # noqa: ANN401 - NVIDIA's module has no types
    count = 0
    for i in range(context.num_ranges()):
        span = context.range_by_idx(i)
        for j in range(span.num_actions()):
            count += 1
            if count > MOST_LAUNCHES:
                raise SystemExit(f"the report has more than {MOST_LAUNCHES} launches")
            yield span.action_by_idx(j)


def _launch(action: Any) -> dict[str, Any]:  # noqa: ANN401
    metrics, by_pc = {}, {}
    addresses: dict[int, bool] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if metric is None or ":" in name:  # breakdown:... lists other metrics
            continue
        metrics[name] = [_number(metric), metric.unit() or "", _text(metric)]
        if parts := _by_pc(metric, action, addresses):
            by_pc[name] = parts
    known = sorted(address for address, is_code in addresses.items() if is_code)
    if len(known) > MOST_INSTRUCTIONS:
        raise SystemExit(f"a kernel has {len(known)} instructions; at most {MOST_INSTRUCTIONS}")
    return {
        "function": action.name(action.NameBase_FUNCTION) or "",
        "signature": action.name(action.NameBase_DEMANGLED) or "",
        "metrics": metrics,
        "by_pc": by_pc,
        "sections": [section.identifier() for section in action.sections()],
        "advice": [_advice(result) for result in action.rule_results_as_dicts()],
        "instructions": [_instruction(action, address) for address in known],
    }


def _by_pc(metric: Any, action: Any, addresses: dict[int, bool]) -> dict[int, float]:  # noqa: ANN401
    """Return a metric's parts by the address of their instruction; empty if they are of others."""
    count = metric.num_instances()
    if metric.name().startswith(_OF_NO_INSTRUCTION):
        return {}
    if count < 1 or not metric.has_correlation_ids():
        return {}
    ids = metric.correlation_ids()
    if ids.kind() not in (ids.ValueKind_UINT64, ids.ValueKind_UINT32):
        return {}
    found: dict[int, float] = {}
    for i in range(min(count, ids.num_instances())):
        address = ids.as_uint64(i)
        if address not in addresses:
            addresses[address] = bool(action.sass_by_pc(address))
        if not addresses[address]:
            return {}
        value = _number(metric, i)
        if value is not None:
            found[address] = found.get(address, 0.0) + value
    return found


def _number(metric: Any, *instance: int) -> float | None:  # noqa: ANN401
    if not instance and not metric.has_value():
        return None
    kind = metric.kind()
    if kind in (metric.ValueKind_STRING, metric.ValueKind_ANY):
        return None
    whole = kind in (metric.ValueKind_UINT32, metric.ValueKind_UINT64)
    value = metric.as_uint64(*instance) if whole else metric.as_double(*instance)
    return float(value) if value is not None and math.isfinite(value) else None


def _text(metric: Any) -> str:  # noqa: ANN401
    return (metric.as_string() or "") if metric.kind() == metric.ValueKind_STRING else ""


def _advice(result: dict[str, Any]) -> dict[str, Any]:
    message, gain = result.get("rule_message") or {}, result.get("speedup_estimation") or {}
    speedup = gain.get("speedup")
    return {
        "rule": str(result.get("rule_identifier", "")),
        "section": str(result.get("section_identifier", "")),
        "title": str(message.get("title", "")),
        "text": str(message.get("message", "")),
        "kind": int(message.get("type", 0)),
        "speedup": speedup if isinstance(speedup, float) and math.isfinite(speedup) else None,
        "scope": int(gain.get("type", 0)),
    }


def _instruction(action: Any, address: int) -> list[Any]:  # noqa: ANN401
    source = action.source_info(address)
    where = (source.file_name() or "", source.line()) if source else ("", 0)
    sass, ptx = action.sass_by_pc(address) or "", action.ptx_by_pc(address) or ""
    return [address, sass.strip(), *where, ptx.strip()]


if __name__ == "__main__":
    main(*sys.argv[1:])
