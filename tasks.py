"""The tasks of kernelrig.cli, for `invoke` typed in this checkout."""

from pathlib import Path

from kernelrig.cli import ns, use_root

use_root(Path(__file__).parent)
__all__ = ["ns"]
