"""Where work items run: processes of this machine, and what else `--on` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.engines.choice import chosen_engine, open_engine
    from kernelrig.engines.dask_engine import DaskEngine
    from kernelrig.engines.local_engine import LocalEngine
    from kernelrig.engines.slurm_engine import SlurmEngine
    from kernelrig.engines.task_registry import register
    from kernelrig.engines.work import Engine, Json, WorkItem, WorkResult

__all__ = [
    "DaskEngine",
    "Engine",
    "Json",
    "LocalEngine",
    "SlurmEngine",
    "WorkItem",
    "WorkResult",
    "chosen_engine",
    "open_engine",
    "register",
]

__getattr__ = lazy_exports(__name__)
