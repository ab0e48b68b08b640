"""How long the stages and commands of a run took in earlier ones.

A terminal shows the stages' times as expected, and a command that takes much longer than its good
runs did is inspected. Nothing else is decided by them: a file that cannot be read is passed over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kernelrig.files import strict_json
from kernelrig.run.store import RunDirectory

_READ = 5
_READ_GOOD = 20
"""How many of the last runs are read: a run.json may have some hundred kB."""
_MAX_BYTES = 8 << 20

MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError)


def stage_seconds(directory: RunDirectory) -> dict[str, float]:
    """Return the seconds of each stage in the last run of this kernel, plan and remote."""
    run, found = directory.run, dict[str, float]()
    own = (run.plan.name, run.arch, run.variant, run.remote.name if run.remote else "")
    for earlier in earlier_runs(directory, _READ):
        with contextlib.suppress(*MALFORMED):
            remote = (earlier["remote"] or {}).get("name", "")
            if (earlier["plan"]["name"], earlier["arch"], earlier["variant"], remote) != own:
                continue
            for stage in earlier["stages"]:
                if float(stage["seconds"]) > 0:
                    found.setdefault(str(stage["name"]), float(stage["seconds"]))
    return found


def good_seconds(directory: RunDirectory) -> dict[tuple[str, str], float]:
    """Return the most seconds that each command took in stages that passed, by stage and command.

    They are of this kernel and arch, of the variant that the stage runs, and of a GPU of this name.
    """
    run, found = directory.run, dict[tuple[str, str], float]()
    gpu = run.host.gpu.get("name", "") if run.host else ""
    variants = {s.name: s.variant or run.variant for s in run.plan.stages}
    for earlier in earlier_runs(directory, _READ_GOOD) if gpu else ():
        with contextlib.suppress(*MALFORMED):
            if (earlier["kernel"]["name"], earlier["arch"]) != (run.kernel.name, run.arch):
                continue
            for stage in earlier["stages"]:
                name = str(stage["name"])
                variant = stage["variant"] or earlier["variant"]
                same = (stage["machine"], variant) == (gpu, variants.get(name))
                if not same or stage["verdict"]["outcome"] != "pass":
                    continue
                for command in stage["commands"]:
                    seconds = float(command["seconds"])
                    if command["ended_by"] == "exit" and not command["reused_from"]:
                        key = (name, str(command["name"]))
                        found[key] = max(found.get(key, 0.0), seconds)
    return found


def earlier_runs(directory: RunDirectory, most: int) -> Iterator[Any]:
    """Yield the records of the last runs of this kernel as they are on file, newest first."""
    names = directory.folder.parent.glob(f"*-{directory.run.kernel.name}-*/run.json")
    for path in sorted(names, reverse=True)[: most + 1]:
        if path.parent != directory.folder:
            with contextlib.suppress(OSError, ValueError):
                yield strict_json.load(path, max_bytes=_MAX_BYTES)
