"""The condition of a GPU: errors of its memory and hardware, what slows it, how warm it is.

What makes its results or times worthless is an error; what a person should know is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kernelrig.model import Check, Host, broken, passed, skipped
from kernelrig.stages.preflight.smi_figures import figure, is_yes, whole
from kernelrig.stages.timing.plausibility import THROTTLE_REASONS

XIDS_OF_PROGRAMS = frozenset(("13", "31", "43", "45"))
"""Faults of a program (an exception, an address, a stopped channel): the GPU is well after them."""
XIDS_THAT_LAST = {
    "48": "double-bit ECC error",
    "62": "micro-controller halt",
    "64": "rows of memory could not be remapped",
    "79": "GPU has fallen off the bus",
    "95": "uncontained ECC error",
    "119": "GSP does not answer",
    "120": "GSP error",
}
"""After these the GPU needs a reset at least (NVIDIA's Xid catalogue)."""

SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Throttle reasons that slow a GPU although it has nothing to do: its cooling or its supply."""
HARMLESS, POWER_CAP = 0x1, 0x4
WARM_C = 80
"""An idle H200 had 37 C; at this one it is too warm to keep its clocks under load."""


def condition_checks(host: Host) -> Iterator[Check]:
    """Judge the condition of the GPU that programs use; nothing where there is none."""
    gpu = host.gpu
    if gpu:
        yield _ecc(gpu)
        yield _xid(host)
        yield _throttled(gpu)
        yield _clocks(gpu)
        yield _power(gpu)
        yield _temperature(gpu)


def _ecc(gpu: Mapping[str, str]) -> Check:
    errors = whole(gpu, "ecc.errors.uncorrected.volatile.total")
    pending, failed = (is_yes(gpu, f"remapped_rows.{word}") for word in ("pending", "failure"))
    if errors:
        text = f"{errors} uncorrected ECC errors since its driver was loaded"
        return Check("ECC", broken(f"{text}; reset the GPU, or choose another host"))
    if failed:
        text = "rows of its memory could not be remapped: it is worn out"
        return Check("ECC", broken(f"{text}; choose another host"))
    if pending:
        text = "rows of its memory wait to be remapped; reset the GPU (`nvidia-smi --gpu-reset`)"
        return Check("ECC", broken(f"{text}, or choose another host"))
    if gpu.get("ecc.mode.current", "").lower() == "disabled":
        text = "ECC is off: an error of its memory is a wrong result that nothing reports"
        return Check("ECC", passed(text), warning="switch it on with `nvidia-smi -e 1` and reset")
    if errors is None:
        return Check("ECC", skipped("the count of ECC errors is not readable"))
    return Check("ECC", passed("no uncorrected ECC errors"))


def _xid(host: Host) -> Check:
    name = "Xid errors"
    if host.xid_errors is None:
        return Check(name, skipped("the kernel log is not readable: as root, `dmesg` shows them"))
    own = [e for e in host.xid_errors if _same_gpu(e.get("bus", ""), host.gpu)]
    lasting = [n for e in own if (n := e.get("xid", "")) in XIDS_THAT_LAST]
    if lasting:
        text = f"Xid {lasting[-1]} since boot: {XIDS_THAT_LAST[lasting[-1]]}"
        return Check(name, broken(f"{text}; reboot the host, or choose another"))
    others = [e for e in own if e.get("xid", "") not in XIDS_OF_PROGRAMS]
    if others:
        last = others[-1]
        text = f"Xid {last.get('xid', '')} since boot: {last.get('text', '')}"
        return Check(name, passed(text), warning="see NVIDIA's Xid catalogue, or choose another")
    if own:
        numbers = ", ".join(dict.fromkeys(e.get("xid", "") for e in own))
        return Check(name, passed(f"Xid {numbers} since boot, which are faults of programs"))
    return Check(name, passed("none since boot"))


def _same_gpu(bus: str, gpu: Mapping[str, str]) -> bool:
    """Compare `0000:18:00` with `00000000:18:00.0`; an address that cannot be read fits any."""
    logged, own = (_bus_numbers(text) for text in (bus, gpu.get("pci.bus_id", "")))
    return not logged or not own or logged == own


def _bus_numbers(text: str) -> tuple[int, ...]:
    match = re.fullmatch(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(\.[0-9])?", text)
    return tuple(int(part, 16) for part in match.groups()[:3]) if match else ()


def _throttled(gpu: Mapping[str, str]) -> Check:
    name, text = "throttle reasons", gpu.get("clocks_event_reasons.active", "")
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return Check(name, skipped("nvidia-smi does not say what slows the GPU"))
    bits = int(text, 16)
    words = ", ".join(word for bit, word in THROTTLE_REASONS.items() if bits & bit & ~HARMLESS)
    if bits & SLOWED:
        what = f"the GPU is slowed down: {words}"
        return Check(name, broken(f"{what}; wait until it has cooled, or choose another host"))
    if bits == POWER_CAP and (figure(gpu, "utilization.gpu") or 0.0) > 0:
        return Check(name, passed("power cap, as it is under load"))
    if bits & ~HARMLESS:
        what = f"the clocks are held: {words or text}"
        return Check(name, passed(what), warning="its times compare with those of the same setting")
    return Check(name, passed("none"))


def _clocks(gpu: Mapping[str, str]) -> Check:
    now, memory, most = (gpu.get(f"clocks.{which}", "") for which in ("sm", "mem", "max.sm"))
    if whole(gpu, "clocks.max.sm") is None:
        return Check("clocks", skipped("nvidia-smi does not give the clocks"))
    return Check("clocks", passed(f"SM {now} MHz, at most {most} MHz; memory {memory} MHz"))


def _power(gpu: Mapping[str, str]) -> Check:
    limit, usual = (figure(gpu, f"power.{which}") for which in ("limit", "default_limit"))
    if limit is None:
        return Check("power limit", skipped("nvidia-smi does not give the power limit"))
    if usual is not None and limit < 0.99 * usual:
        text = f"{limit:.0f} W, {usual:.0f} W by default: it is slower under load"
        return Check("power limit", passed(text), warning=f"raise it: `nvidia-smi -pl {usual:.0f}`")
    return Check("power limit", passed(f"{limit:.0f} W"))


def _temperature(gpu: Mapping[str, str]) -> Check:
    degrees = figure(gpu, "temperature.gpu")
    if degrees is None:
        return Check("temperature", skipped("nvidia-smi does not give the temperature"))
    found = passed(f"{degrees:.0f} C")
    if degrees < WARM_C:
        return Check("temperature", found)
    return Check("temperature", found, warning="warm before any load: its clocks may fall")
