"""What a person types before a task's name: the checkout's script, or the installed command."""

from __future__ import annotations

import re
from pathlib import Path

# In a checkout the package lies in ci/, beside the script; in site-packages Invoke's own folder has
# that name.
_SCRIPT = Path(__file__).parents[2] / "invoke"
COMMAND = "ci/invoke" if _SCRIPT.is_file() else "kernelrig"
_TASK = re.compile(r"`invoke (?=[a-z-])")


def as_typed(text: str) -> str:
    """Return a sentence with `invoke TASK` as it is typed here: messages name the task alone."""
    return _TASK.sub(f"`{COMMAND} ", text)
