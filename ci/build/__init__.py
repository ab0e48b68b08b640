"""Sources to binaries: compiled once per content, kept in artifacts/builds, whole or not there."""

from ci.build.command import Request
from ci.build.compile import build_all
from ci.build.entry import load_build
from ci.build.table import table
from ci.build.tried import try_sets

__all__ = ["Request", "build_all", "load_build", "table", "try_sets"]
