"""What ends a run that cannot go on, and how it is put into words."""

from kernelrig.errors.exceptions import (
    FREE_SOME,
    BuildError,
    CiError,
    ConfigError,
    IncompleteError,
    ProtocolError,
    RemoteError,
    refused_by_disk,
)

__all__ = [
    "FREE_SOME",
    "BuildError",
    "CiError",
    "ConfigError",
    "IncompleteError",
    "ProtocolError",
    "RemoteError",
    "refused_by_disk",
]
