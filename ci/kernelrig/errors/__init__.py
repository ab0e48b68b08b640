"""The exceptions of runs that cannot go on, and sentences for errors of the disk."""

from kernelrig.errors.exceptions import (
    FREE_SOME,
    INTERRUPTED,
    BuildError,
    CiError,
    ConfigError,
    IncompleteError,
    Interrupted,
    ProtocolError,
    RemoteError,
    note_run,
    noted_run,
    refused_by_system,
)

__all__ = [
    "FREE_SOME",
    "INTERRUPTED",
    "BuildError",
    "CiError",
    "ConfigError",
    "IncompleteError",
    "Interrupted",
    "ProtocolError",
    "RemoteError",
    "note_run",
    "noted_run",
    "refused_by_system",
]
