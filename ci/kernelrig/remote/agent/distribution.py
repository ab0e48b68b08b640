"""The system of this host: its distribution, its kernel, this boot of it, whether a container."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from .daemon import boot_id
from .refusal import Json

SHOWN = 100


def system_facts() -> Json:
    """Return the fields of kernelrig.model.Host that say what system the host has."""
    return {
        "system": distribution()[:SHOWN],
        "kernel": os.uname().release[:SHOWN],
        "boot": boot_id()[:SHOWN],
        "container": in_container(),
    }


def distribution() -> str:
    """Return `Ubuntu 24.04.1 LTS`; empty where /etc/os-release does not say."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in Path("/etc/os-release").read_text().splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                return value.strip().strip("\"'")
    return ""


def in_container() -> bool:
    """Return whether this looks like a container: other ones of the machine are not seen here."""
    marks = ("/.dockerenv", "/run/.containerenv")
    return any(map(os.path.exists, marks)) or "container" in os.environ
