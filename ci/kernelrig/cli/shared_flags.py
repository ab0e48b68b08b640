"""The flags that several tasks have, and what they mean wherever a task says nothing else."""

from __future__ import annotations

from collections.abc import Mapping

SHARED: Mapping[str, str] = {
    "kernel": "kernel of kernel/kernels.yaml; default: the only one",
    "remote": "where to run: a name of remotes.yaml or remotes.local.yaml",
    "require_device": "exit 4 unless the device is the GPU of exactly this name",
    "build": "folder of a build under artifacts/builds; may be given several times",
    "system_cuda": "use the toolkit of CUDA_HOME or PATH in place of the pinned wheels",
    "severity": "RULE=LEVEL of the emulator's rules, separated by commas: error, warning or off",
    "strict": "make every warning of the emulator an error",
    "seed": "of the inputs, as a run's summary names it; default: drawn for each run on a device",
    "on": "where sets of tunables go: local (default), local:N, slurm[:PARTITION], dask:// or tls://HOST:PORT",
    "run": "run id, a unique part of it, or its folder",
    "wait": "minutes to wait for a GPU that another run has; default: fail at once",
}
