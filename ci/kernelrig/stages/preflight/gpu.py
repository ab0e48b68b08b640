"""Whether the host's GPU is the one that was asked for, whole, and not in use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kernelrig.model import (
    Build,
    Check,
    Host,
    Plan,
    RecordedRemote,
    Verdict,
    broken,
    passed,
    skipped,
    stage_gpus,
)
from kernelrig.stages.harness.result import COMPUTE_CAPABILITIES
from kernelrig.stages.other_gpus import in_use_beside, named_users
from kernelrig.stages.preflight.host_system import version_tuple
from kernelrig.stages.preflight.smi_figures import figure

UNSEEN_MIB, UNSEEN_PERCENT = 1024, 10
"""A GPU that nobody uses shows less; nvidia-smi itself shows as some percent."""


def gpu_checks(
    builds: Sequence[Build],
    host: Host,
    remote: RecordedRemote,
    plan: Plan,
    wanted_driver: str = "",
) -> Iterator[Check]:
    """Judge the GPU that a program uses there: the first that CUDA_VISIBLE_DEVICES shows."""
    if not host.gpus:
        absent = f"no GPU on {host.hostname}: nvidia-smi lists none; choose another remote"
        yield Check("GPU", broken(absent))
        return
    gpu = host.gpu
    if not gpu:
        text = (
            f"CUDA_VISIBLE_DEVICES of remote '{remote.name}' names none of its"
            f" {len(host.gpus)} GPUs: see its `env`"
        )
        yield Check("GPU", broken(text))
        return
    name = gpu.get("name", "")
    yield Check("GPU", passed(f"{name}, {gpu.get('uuid', 'no UUID')}"))
    if len(shared := stage_gpus(host, remote)) > 1:
        yield Check("GPUs of stages", _shared(host, shared))
    yield Check("GPU name", _name(name, remote.gpu))
    found = gpu.get("compute_cap", "")
    for arch in sorted({b.arch for b in builds} or {remote.arch}):
        yield Check(f"compute capability for {arch}", _capability(arch, found, name))
    yield Check("driver", _driver(builds, host, wanted_driver))
    yield Check("MIG", _mig(gpu.get("mig.mode.current", ""), name))
    yield Check("lease", _lease(host))
    yield _in_use(host, plan)


def _shared(host: Host, shared: Sequence[str]) -> Verdict:
    """Say on which GPUs stages run beside each other, and which are leased and not alike."""
    unlike = [uuid for uuid in host.leased if uuid not in shared]
    left = (f"not like the first, no stage runs there: {', '.join(unlike)}",) if unlike else ()
    return passed(f"stages run beside each other on {', '.join(shared)}", *left)


def _name(name: str, wanted: str) -> Verdict:
    if not wanted:
        return skipped("remotes.yaml names no `gpu` for this remote")
    if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", name):  # no GB200 passes for a B200
        return passed(f"{name} is the {wanted} that was asked for")
    return broken(
        f"the GPU is '{name}', remotes.yaml asks for '{wanted}'; rent that one, or change `gpu`"
    )


def _mig(mode: str, name: str) -> Verdict:
    if mode.lower() == "enabled":
        return broken(
            f"MIG is on for {name}: a slice is not the GPU; switch it off with `nvidia-smi -mig 0`"
        )
    return passed(f"MIG {mode or 'not supported'}")


def _lease(host: Host) -> Verdict:
    """Judge whether another run has one of the GPUs that this one is to have for itself."""
    meant = [g for g in host.gpus if g.get("uuid", "") in host.leased] or [host.gpu]
    held = next((text for g in meant if (text := g.get("lease", ""))), "")
    if held:
        return broken(f"{held}; wait for it with `--wait MINUTES`")
    unseen = "runs in other containers of the machine are not seen" if host.container else ""
    return passed("no other run has the GPU", unseen)


def _in_use(host: Host, plan: Plan) -> Check:
    """Judge what else uses this GPU; what another container runs there shows in its load alone.

    What uses a GPU beside it keeps the run from measuring alone: its other stages are run.
    """
    name, gpu = "GPU users", host.gpu
    meant = [g for g in host.gpus if g.get("uuid", "") in host.leased] or [gpu]
    own = [g for g in meant if g.get("uuid", "") not in host.kept_idle]
    lines = [line for line in host.gpu_processes if any(_is_on(line, g) for g in own)]
    if lines:
        first = any(_is_on(line, gpu) for line in lines)
        what = "the GPU is" if first else "another GPU of this run is"
        text = f"{what} in use by another process: {named_users(lines)}; wait, or end it"
        return Check(name, broken(text))
    beside, kinds = in_use_beside(host), [s.kind for s in plan.stages if s.kind.on_host]
    if beside and all(kind.measured for kind in kinds):
        return Check(name, broken(beside))
    found, warnings = "no other process on the GPU", []
    used, busy = (figure(gpu, field) or 0.0 for field in ("memory.used", "utilization.gpu"))
    if used > UNSEEN_MIB or busy > UNSEEN_PERCENT:
        found = f"no process is listed, and {used:.0f} MiB and {busy:.0f}% of the GPU are in use"
        warnings.append("another container may share it: look again")
    if beside:
        warnings.append("another GPU of the host is in use: what is to be measured is not run")
    return Check(name, passed(found), warning="; ".join(warnings))


def _is_on(line: str, gpu: Mapping[str, str]) -> bool:
    """Return whether a process is on this GPU; of one without a UUID it is assumed."""
    return not line.startswith("GPU-") or line.startswith(f"{gpu.get('uuid', '')},")


def _capability(arch: str, found: str, name: str) -> Verdict:
    wanted = COMPUTE_CAPABILITIES.get(arch)
    if wanted is None:
        known = ", ".join(COMPUTE_CAPABILITIES)
        return broken(f"no compute capability is known for arch {arch}; known: {known}")
    if found == wanted:
        return passed(f"compute capability {found} runs {arch}")
    fits = next((a for a, c in COMPUTE_CAPABILITIES.items() if c == found), "")
    hint = f"build for {fits} (`arch` in remotes.yaml)" if fits else "choose another remote"
    return broken(
        f"{arch} code runs on compute capability {wanted} only,"
        f" {name} has {found or 'an unknown one'}; {hint}"
    )


def _driver(builds: Sequence[Build], host: Host, wanted: str) -> Verdict:
    if not builds and not wanted:
        return skipped(f"driver {host.driver or 'not known'}; no build is here to compare it with")
    needed = max((b.min_driver for b in builds), key=version_tuple, default=wanted)
    who = "the build needs" if builds else "what is built here needs"
    found = version_tuple(host.driver)
    if not version_tuple(needed):
        return broken("the build does not say which driver it needs; build it again")
    if not found:
        return broken(f"the driver of {host.hostname} is not known, {who} {needed}")
    if found < version_tuple(needed):
        return broken(
            f"driver {host.driver} on {host.hostname}, {who} {needed}; rent an image with"
            " a newer driver, install cuda-compat, or build with an older toolkit through CUDA_HOME"
        )
    return passed(f"driver {host.driver}, needed {needed}")
