"""`invoke doctor --remote`: is this host any good? Preflight's probe and its checks, line by line.

What a plan would be refused for fails; what only some tasks need (ncu and its counters) is a
warning. A speed or a figure that is not known is `unknown`, and speaks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.build import toolchain
from kernelrig.build.toolchain import Item
from kernelrig.config.selection import choose_remote
from kernelrig.errors import CiError
from kernelrig.files.validation import adapter
from kernelrig.model import (
    Build,
    Check,
    DeviceKind,
    GpuSpeed,
    Host,
    Outcome,
    Plan,
    RecordedRemote,
    Remote,
    Stage,
    StageKind,
)
from kernelrig.remote import HostLink, connect
from kernelrig.remote.protocol import HostRefused
from kernelrig.run.gpu_speeds import keep_speed

NEEDS = Plan(
    "doctor",
    (Stage("sanitizer", StageKind.SANITIZER), Stage("profile", StageKind.PROFILE)),
)
"""What a host should be able to do: every tool is looked at."""

ONLY_FOR_PROFILES = ("ncu", "counters")


@dataclass(frozen=True, slots=True)
class Examination:
    """The lines of a doctor's visit; `fit`: no check failed."""

    items: tuple[Item, ...]

    @property
    def fit(self) -> bool:
        return all(item.ok for item in self.items)

    @property
    def text(self) -> str:
        width = max(len(item.name) for item in self.items)
        return "\n".join(item.line(width) for item in self.items)


def examine(root: Path, name: str) -> Examination:
    """Probe the host `name` and judge it; one that cannot be reached raises as anywhere."""
    remote = choose_remote(config.load_remotes(root), name)
    recorded = RecordedRemote.of(remote)
    with connect(remote, root=root, to_ship={}) as link:
        # The host looks at itself meanwhile: what is read and imported here takes no time of its.
        builds = _newest_build(root, remote.arch)
        driver = build.minimum_driver(toolchain.locked_cuda(root), remote.arch)
        stages.speed_checks, stages.host_checks  # noqa: B018 - imported by being named
        adapter(GpuSpeed)
        host = link.facts
        items = [_host_key(remote, link.host_key), _system(host)]
        items += map(_item, _checks(builds, driver, host, recorded))
        if host.gpu and remote.device is DeviceKind.GPU and remote.kind != "slurm":
            items += _load(root, link, fit=all(item.ok for item in items))
    return Examination((*items, _conclusion(items, remote)))


def _load(root: Path, link: HostLink, *, fit: bool) -> list[Item]:
    """Load the GPU for three seconds, unless something else is wrong already; judge what it gave.

    What it gave is kept: it judges the runs there for a day.
    """
    if not fit:
        return [Item("load", True, "not loaded, as a check above failed", level="unknown")]
    try:
        speed = link.measure_speed()
    except HostRefused as e:
        return [Item("load", True, f"not loaded: {e.message}", level="unknown")]
    keep_speed(root, speed)
    return [_item(check) for check in stages.speed_checks(replace(link.facts, speed=speed))]


def _checks(
    builds: Sequence[Build], driver: str, host: Host, remote: RecordedRemote
) -> Iterator[Check]:
    seen = replace(remote, device=DeviceKind.GPU)
    found = stages.host_checks(builds, host, seen, NEEDS, wanted_driver=driver)
    if remote.device is DeviceKind.EMULATOR:
        yield from (c for c in found if c.name in ("python", "glibc", "disk", "clock"))
    else:
        yield from found


def _newest_build(root: Path, arch: str) -> tuple[Build, ...]:
    """Return the newest build for the arch, whose needs a host is compared with; or none."""
    folders = [p.parent for p in (root / "artifacts/builds").glob(f"*-{arch}-*/{build.RECORD}")]
    for folder in sorted(folders, key=lambda p: p.stat().st_mtime, reverse=True):
        try:
            found = build.load_build(folder)
        except CiError:  # damaged: the next `build` makes it anew
            continue
        if found.min_driver:  # a CPU program needs no driver
            return (found,)
    return ()


def _host_key(remote: Remote, shown: str) -> Item:
    if remote.kind == "embedded":
        return Item("host key", True, "this machine: a key of its own for each connection")
    how = "pinned in the remote's entry" if remote.host_key else "in your known_hosts"
    return Item("host key", True, f"{shown}, {how}")


def _system(host: Host) -> Item:
    where = ", in a container" if host.container else ""
    text = f"{host.system or 'not known'}, Linux {host.kernel or '?'}, {host.machine or '?'}{where}"
    return Item("system", True, text)


def _item(check: Check) -> Item:
    """Return the line of a check; its sentence says what to do where it fails."""
    outcome, text = check.verdict.outcome, check.verdict.summary
    if outcome is Outcome.SKIP:
        return Item(check.name, True, text, level="unknown")
    if outcome is not Outcome.PASS:
        found, _, fix = text.partition("; ")
        if check.name in ONLY_FOR_PROFILES:
            return Item(check.name, True, found, f"without it no `profile`: {fix}", "warn")
        return Item(check.name, False, found, fix, "fail")
    if check.warning:
        return Item(check.name, True, text, check.warning, "warn")
    return Item(check.name, True, "; ".join((text, *check.verdict.evidence)))


def _conclusion(items: Sequence[Item], remote: Remote) -> Item:
    """Say whether the host is worth its price, and what that rests on."""
    name = "worth it"
    failed = [item for item in items if not item.ok]
    warned = [item.name for item in items if item.level == "warn"]
    if failed:
        others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return Item(
            name, False, f"no, a run would be refused: {failed[0].text}{others}", "", "fail"
        )
    if remote.device is DeviceKind.EMULATOR:
        return Item(name, True, "it emulates: nothing is rented")
    from kernelrig.stages.preflight.gpu_speed import TENSOR_RATE

    judged = any(item.name == TENSOR_RATE and item.level != "unknown" for item in items)
    but = f", but see {', '.join(warned)}" if warned else ""
    text = f"nothing speaks against it{but}{'' if judged else '; its speed is not judged'}"
    return Item(name, True, text, "", "warn" if warned else "ok")
