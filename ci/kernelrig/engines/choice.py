"""`--on`: the engine that a text names."""

from __future__ import annotations

from kernelrig.engines.local_engine import LocalEngine
from kernelrig.engines.work import LIMIT_S, Engine
from kernelrig.errors import ConfigError


def open_engine(on: str = "local", *, limit_s: float = LIMIT_S) -> Engine:
    """Return the engine `on`, to be used as a context; an item may take `limit_s`.

    ConfigError for one that does not exist.
    """
    name, colon, rest = on.partition(":")
    if name == "local" and not colon:
        return LocalEngine(limit_s=limit_s)
    if name == "local" and rest.isdecimal() and 0 < int(rest) <= 1024:
        return LocalEngine(int(rest), limit_s=limit_s)
    raise ConfigError(f"--on: unknown engine '{on[:80]}'", "local, or local:N for N processes")


def chosen_engine(on: str, *, tunables: bool) -> str:
    """Return what `--on` says, or the default; ConfigError before anything is compiled."""
    if on and not tunables:
        raise ConfigError("--on says where sets of tunables go", "pass --tunables too")
    open_engine(on or "local").close()
    return on or "local"
