"""`--on`: the engine that a text names."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from kernelrig.engines.dask_engine import DaskEngine, dask_address
from kernelrig.engines.local_engine import LocalEngine
from kernelrig.engines.slurm_engine import SlurmEngine
from kernelrig.engines.work import LIMIT_S, Engine
from kernelrig.errors import ConfigError

SPOOL = Path("artifacts/spool")
_PARTITION = re.compile(r"\w[\w.,-]*", re.ASCII)


def open_engine(on: str = "local", root: Path | None = None, *, limit_s: float = LIMIT_S) -> Engine:
    """Return the engine `on`, to be used as a context; an item may take `limit_s`.

    `root` is the project, whose artifacts have Slurm's spool. ConfigError for an engine that does
    not exist.
    """
    name, colon, rest = on.partition(":")
    if name == "local" and not colon:
        return LocalEngine(limit_s=limit_s)
    if name == "local" and rest.isdecimal() and 0 < int(rest) <= 1024:
        return LocalEngine(int(rest), limit_s=limit_s)
    if rest.startswith("//") and name in ("dask", "tcp", "tls"):
        address = dask_address(on)
        if not find_spec("distributed"):
            raise ConfigError(
                f"--on {name}:// needs Dask, which is not installed here",
                "pip install 'kernelrig[engines]', in the workers' environment too",
            )
        return DaskEngine(address, limit_s=limit_s)
    if name == "slurm" and (not colon or _PARTITION.fullmatch(rest)):
        if not shutil.which("sbatch"):
            raise ConfigError("--on slurm: no sbatch on PATH", "run it on a login node of Slurm")
        return SlurmEngine((root or Path.cwd()).absolute() / SPOOL, rest, limit_s=limit_s)
    raise ConfigError(
        f"--on: unknown engine '{on[:80]}'",
        "known: local, local:PROCESSES, slurm, slurm:PARTITION, dask://HOST:PORT, tls://HOST:PORT",
    )


def chosen_engine(on: str, *, tunables: bool) -> str:
    """Return what `--on` says, or the default; ConfigError before anything is compiled."""
    if on and not tunables:
        raise ConfigError("--on says where sets of tunables go", "pass --tunables too")
    open_engine(on or "local").close()
    return on or "local"
