"""The boxes we run on: SSH to them, the agent on them, and what goes there and comes back."""

from kernelrig.remote.connection import connect
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.journal import read_journal

__all__ = ["HostLink", "connect", "read_journal"]
