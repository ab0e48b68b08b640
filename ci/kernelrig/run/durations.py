"""How long the stages of a run took in earlier ones: what a terminal shows as expected."""

from __future__ import annotations

import contextlib
import json

from kernelrig.run.store import RunDirectory

_READ = 5
"""How many of the last runs are read: a run.json may have some hundred kB."""


def stage_seconds(directory: RunDirectory) -> dict[str, float]:
    """Return the seconds of each stage in the last run of this kernel, plan and remote that has it.

    Nothing is decided by them: a file that cannot be read is passed over.
    """
    run, found = directory.run, dict[str, float]()
    names = directory.folder.parent.glob(f"*-{run.kernel.name}-*/run.json")
    for path in sorted(names, reverse=True)[: _READ + 1]:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            earlier = json.loads(path.read_bytes())
            remote = (earlier["remote"] or {}).get("name", "")
            same = (earlier["plan"]["name"], earlier["arch"], earlier["variant"], remote)
            own = (run.plan.name, run.arch, run.variant, run.remote.name if run.remote else "")
            if path.parent == directory.folder or same != own:
                continue
            for stage in earlier["stages"]:
                if float(stage["seconds"]) > 0:
                    found.setdefault(str(stage["name"]), float(stage["seconds"]))
    return found
