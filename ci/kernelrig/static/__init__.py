"""Verdicts on a build without a GPU: resources, SASS, warp roles, PTX, fingerprint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.static.accepted_figures import accept_figures, load_accepted
    from kernelrig.static.inspection import Inspection, inspect_build, inspect_ptx, read_module
    from kernelrig.static.sass_diff import diff_sass
    from kernelrig.static.subject import Subject
    from kernelrig.static.tunable_sets import check_sets, describe_sets, set_name

__all__ = [
    "Inspection",
    "Subject",
    "accept_figures",
    "check_sets",
    "describe_sets",
    "diff_sass",
    "inspect_build",
    "inspect_ptx",
    "load_accepted",
    "read_module",
    "set_name",
]

__getattr__ = lazy_exports(__name__)
