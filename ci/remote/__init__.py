"""The boxes we run on: SSH to them, the agent on them, and what goes there and comes back."""

from ci.remote.box import BoxLink
from ci.remote.connection import connect
from ci.remote.journal import read_journal

__all__ = ["BoxLink", "connect", "read_journal"]
