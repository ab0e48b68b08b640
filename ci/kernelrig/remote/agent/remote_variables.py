"""The environment variables of the remote: they come over the channel, into no argument and file.

Python starts without them, for the client as well as for the daemon: a library path that the tools
need may be one with which Python does not start.
"""

from __future__ import annotations

import os

STARTED_WITH = dict(os.environ)
ADOPTED: dict[str, str] = {}


def adopt(variables: dict[str, str]) -> None:
    """Let all that this process starts from now on inherit the variables."""
    ADOPTED.update(variables)
    os.environ.update(variables)
