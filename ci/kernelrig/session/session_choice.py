"""What a session comes to: each entry as the request of its task, on each host that fits it.

Every mistake that is found without a compiler or a host is raised here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import config
from kernelrig.config.schema import SessionFile
from kernelrig.config.selection import choose, choose_remote
from kernelrig.errors import ConfigError
from kernelrig.files.serialization import to_value
from kernelrig.model import Purpose, Remote, SessionEntry
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import BenchRequest, BuildRequest, RunRequest
from kernelrig.run.spec import RunSpec, tools_of
from kernelrig.sweep.conduct import Sweep, prepare_sweep
from kernelrig.sweep.set_choice import SweepRequest

SESSIONS = Path("artifacts/sessions")
Asked = BuildRequest | RunRequest | BenchRequest | SweepRequest


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What `invoke session` carries out, and where; `again` are entries to be done once more."""

    file: Path
    remotes: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    system_cuda: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """How an entry is carried out on one remote; without one it needs no host."""

    remote: Remote | None
    request: Asked
    spec: RunSpec | Sweep


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry, and the remotes on which it can be carried out, in their order."""

    entry: SessionEntry
    ways: tuple[Way, ...]

    @property
    def name(self) -> str:
        return self.entry.name

    def way(self, remote: str) -> Way | None:
        return next((w for w in self.ways if w.remote and w.remote.name == remote), None)

    @property
    def needs_host(self) -> bool:
        return self.entry.task != "build"


@dataclass(frozen=True, slots=True)
class Session:
    root: Path
    file: SessionFile
    request: SessionRequest
    remotes: tuple[Remote, ...]
    planned: tuple[Planned, ...]

    @property
    def name(self) -> str:
        """Return the name of its folder, which follows from the file's name and its entries."""
        entries = json.dumps(to_value(self.file.entries), sort_keys=True)
        digest = hashlib.sha256(entries.encode()).hexdigest()
        return f"{self.request.file.stem[:40]}-{digest[:12]}"


def prepare_session(root: Path, request: SessionRequest) -> Session:
    """Return the session; nothing is compiled, and no host is contacted."""
    file = config.load_session(request.file)
    for name in request.again:
        choose(file.entries, name, "entry", request.file.name)
    remotes = _remotes(root, file, request.remotes)
    planned = []
    sweeps = 0
    for entry in file.entries.values():
        ways = tuple(_ways(root, entry, remotes, request))
        if entry.task == "sweep":  # what is tried here is of one host
            ways = (ways[sweeps % len(ways)],)
            sweeps += 1
        planned.append(Planned(entry, ways))
    return Session(root, file, request, remotes, tuple(planned))


def _remotes(root: Path, file: SessionFile, named: Sequence[str]) -> tuple[Remote, ...]:
    known = config.load_remotes(root)
    on_hosts = [e for e in file.entries.values() if e.task != "build"]
    wanted = tuple(dict.fromkeys(named or (e.remote for e in on_hosts if e.remote)))
    for entry in on_hosts:
        if entry.remote and entry.remote not in wanted:
            raise ConfigError(
                f"entry '{entry.name}' is for remote {entry.remote}, which --remote does not name"
            )
    if on_hosts and not wanted:
        raise ConfigError(
            f"no remote was named, and entry '{on_hosts[0].name}' needs one",
            "pass --remote NAME, or NAME,NAME to spread the entries",
        )
    return tuple(choose_remote(known, name, reached=file.rent is False) for name in wanted)


def _ways(
    root: Path, entry: SessionEntry, remotes: Sequence[Remote], request: SessionRequest
) -> Iterator[Way]:
    if entry.task == "build":
        asked = request_of(entry, "", system_cuda=request.system_cuda)
        try:
            yield Way(None, asked, _spec(root, asked))
        except ConfigError as e:
            raise ConfigError(f"entry '{entry.name}': {e.message}", e.hint) from e
        return
    fitting = [r for r in remotes if entry.remote in ("", r.name)]
    refused: ConfigError | None = None
    found = False
    for remote in fitting:
        asked = request_of(entry, remote.name, system_cuda=request.system_cuda)
        try:
            yield Way(remote, asked, _spec(root, asked))
            found = True
        except ConfigError as e:  # it may fit another remote: of another arch, say
            refused = refused or e
    if not found and refused is not None:
        raise ConfigError(f"entry '{entry.name}': {refused.message}", refused.hint) from refused


def request_of(entry: SessionEntry, remote: str, *, system_cuda: bool) -> Asked:
    """Return the request that the task of an entry makes of the same flags."""
    if entry.task == "build":
        return BuildRequest(entry.kernel, entry.arch, entry.variant, system_cuda=system_cuda)
    if entry.task == "sweep":
        return SweepRequest(
            kernel=entry.kernel,
            remote=remote,
            sets=entry.set,
            fixed=entry.fix,
            only="".join(entry.only),
            sample=entry.sample,
            budget_minutes=entry.budget,
            case=entry.case,
            system_cuda=system_cuda,
        )
    if entry.task == "bench":
        return BenchRequest(
            words=entry.builds,
            remote=remote,
            rounds=entry.rounds,
            minutes=entry.minutes,
            case=entry.case or "full",
            gate_percent=entry.gate,
            system_cuda=system_cuda,
        )
    profiles = entry.task == "profile"
    return RunRequest(
        remote=remote,
        kernel=entry.kernel,
        variant=entry.variant or "production",
        plan="profile" if profiles else entry.plan or "default",
        only=entry.only,
        purpose=Purpose.PROFILE if profiles else Purpose.TEST,
        system_cuda=system_cuda,
        stop_at_first=entry.stop_at_first,
        gate_percent=entry.gate,
        require_device=entry.require_device,
        profile_plans=entry.plans,
        fresh=entry.fresh,
    )


def _spec(root: Path, asked: Asked) -> RunSpec | Sweep:
    if isinstance(asked, SweepRequest):
        return prepare_sweep(root, asked, reached=False)
    return prepare(root, asked, described=True)


def with_tools(root: Path, spec: RunSpec) -> RunSpec:
    """Return the run with the tools that its builds need, which may have to be fetched."""
    return replace(spec, tools=tools_of(root, spec.wanted, system_cuda=spec.system_cuda))
