"""Remote hosts: SSH to them, the agent that runs on them, uploads and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.remote.connection import connect
    from kernelrig.remote.host_link import HostLink
    from kernelrig.remote.journal import has_finished, read_journal
    from kernelrig.remote.local import run_job_here

__all__ = ["HostLink", "connect", "has_finished", "read_journal", "run_job_here"]

__getattr__ = lazy_exports(__name__)
