"""Other defaults of tunables: an edit of the text of kernels.yaml, which is not written here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

from kernelrig.config.load import KERNELS
from kernelrig.config.yaml_source import parse_yaml, read_yaml
from kernelrig.errors import ConfigError


def with_defaults(
    root: Path, kernel: str, arch: str, defaults: Mapping[str, int]
) -> tuple[str, str]:
    """Return the text of kernels.yaml, and the same with other defaults of tunables.

    All else stays as it is. ConfigError for a file that is written in a way that cannot be edited.
    """
    document = read_yaml(root / KERNELS, KERNELS)
    lines = document.text.splitlines(keepends=True)
    wanted = deepcopy(document.value)
    for name, value in defaults.items():
        loc = ("kernels", kernel, "tunables", arch, name)
        spot = document.spots.get((*loc, "default"), document.spots.get(loc))
        held = wanted["kernels"][kernel]["tunables"][arch][name]
        old, held["default"] = held["default"], value
        if spot is not None:
            said = rf"(\bdefault:\s*){re.escape(str(old))}\b"
            lines[spot.first] = re.sub(said, rf"\g<1>{value}", lines[spot.first], count=1)
    text = "".join(lines)
    # The text was edited by lines: it is parsed again before anyone gets it.
    if parse_yaml(text, KERNELS).value != wanted:
        asked = ", ".join(f"{name} {value}" for name, value in defaults.items())
        raise ConfigError(
            f"the tunables of {kernel} in {KERNELS} are written in a way that cannot be edited",
            f"the best set has these defaults: {asked}",
        )
    return document.text, text
