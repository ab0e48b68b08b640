"""Verdicts on a build without a GPU: resources, SASS, warp roles, PTX, fingerprint."""

from ci.check.accepted import accept_figures, load_accepted
from ci.check.inspection import Inspection, inspect_build, read_module
from ci.check.sass_diff import sass_diff
from ci.check.subject import Subject
from ci.check.tunables import check_sets, describe_sets

__all__ = [
    "Inspection",
    "Subject",
    "accept_figures",
    "check_sets",
    "describe_sets",
    "inspect_build",
    "load_accepted",
    "read_module",
    "sass_diff",
]
