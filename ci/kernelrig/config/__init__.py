"""The user's configuration, read once into frozen records: remotes, kernels, plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.config.load import load_kernels, load_plan, load_remotes, remote_sources
    from kernelrig.config.local_entry import add_remote, known_entry, require_addable
    from kernelrig.config.session_file import load_session

__all__ = [
    "add_remote",
    "known_entry",
    "load_kernels",
    "load_plan",
    "load_remotes",
    "load_session",
    "remote_sources",
    "require_addable",
]

__getattr__ = lazy_exports(__name__)
