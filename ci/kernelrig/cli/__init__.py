"""The command line: flags in, one answer and an exit code out; kernelrig.run does the work.

Invoke lives in this package alone. The tasks are part of the package and not of the repository's
tasks.py, because the console script `kernelrig` of an installed wheel has the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports
from kernelrig.cli.unread_yaml import leave_unread

if TYPE_CHECKING:
    from kernelrig.cli.project import use_root
    from kernelrig.cli.tasks import ns

__all__ = ["ns", "use_root"]

leave_unread()
__getattr__ = lazy_exports(__name__)
