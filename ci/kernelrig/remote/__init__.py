"""The hosts we run on: SSH to them, the agent on them, and what goes there and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.remote.connection import connect
    from kernelrig.remote.host_link import HostLink
    from kernelrig.remote.journal import read_journal
    from kernelrig.remote.local import run_job_here

__all__ = ["HostLink", "connect", "read_journal", "run_job_here"]

__getattr__ = lazy_exports(__name__)
