"""Verdicts on a build without a GPU: resources, SASS, warp roles, PTX, fingerprint."""

from kernelrig.static.accepted_figures import accept_figures, load_accepted
from kernelrig.static.inspection import Inspection, inspect_build, read_module
from kernelrig.static.sass_diff import sass_diff
from kernelrig.static.subject import Subject
from kernelrig.static.tunable_sets import check_sets, describe_sets

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
