"""Which sets of tunables a sweep tries; the first is that of the defaults."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kernelrig.config import covering_array
from kernelrig.config.selection import choose, require_tunables
from kernelrig.errors import ConfigError
from kernelrig.model import Kernel, Tunable, TunableSet
from kernelrig.static import set_name

LEAST_COVERED = 500
"""From so many combinations on, those of `check --tunables` are tried in place of all."""
MOST_SETS = 2000
BASE = "production"
"""The variant whose tunables are varied."""
_VALUE = re.compile(r"-?[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What `invoke sweep` tries, and where; empty = choose, or all of them."""

    kernel: str = ""
    arch: str = ""
    remote: str = ""
    sets: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    only: str = ""
    sample: int | None = None
    budget_minutes: float | None = None
    on: str = "local"
    case: str = ""
    system_cuda: bool = False
    exhaustive: bool = False
    samples: int | None = None


def select_sets(kernel: Kernel, arch: str, request: SweepRequest) -> tuple[TunableSet, ...]:
    """Return the sets: every combination below LEAST_COVERED, else those of `check --tunables`.

    With --set only the tunables that it names vary. The set of the defaults is always among them.
    """
    known = kernel.tunables.get(arch, {})
    require_tunables(kernel, arch)
    held = kernel.tuned(arch, BASE)
    given, fixed = _given(known, request.sets, "set"), _given(known, request.fixed, "fix")
    for name, values in fixed.items():
        if len(values) != 1 or name in given:
            wrong = "is in --set too" if name in given else f"has {len(values)} values"
            raise ConfigError(f"--fix {name} {wrong}", f"write --fix {name}=VALUE, once")
        held[name] = values[0]
    varied = {
        name: replace(t, default=held[name], values=_values(name, t, given, fixed, held))
        for name, t in known.items()
    }
    defaults = {name: t.default for name, t in varied.items()}
    if math.prod(len(t.values) for t in varied.values()) < LEAST_COVERED:
        choices = [t.values for t in varied.values()]
        tried = [dict(zip(varied, some, strict=True)) for some in product(*choices)]
    else:
        tried = list(covering_array.tried_sets(varied))
    named = [named_set(values, defaults) for values in (defaults, *tried)]
    first, *others = dict.fromkeys(s.id for s in named)
    by_id = {s.id: s for s in named}
    chosen = _narrowed([by_id[i] for i in others], request)
    if len(chosen) >= MOST_SETS:
        raise ConfigError(
            f"{len(chosen) + 1} sets are too many: a sweep has {MOST_SETS} at most",
            "narrow it with --set, --fix, --only or --sample",
        )
    return (by_id[first], *chosen)


def named_set(values: Mapping[str, int], defaults: Mapping[str, int]) -> TunableSet:
    digest = hashlib.sha256(json.dumps(sorted(values.items())).encode()).hexdigest()
    return TunableSet(f"set-{digest[:10]}", set_name(values, defaults), dict(values))


def _values(
    name: str,
    tunable: Tunable,
    given: Mapping[str, tuple[int, ...]],
    fixed: Mapping[str, tuple[int, ...]],
    held: Mapping[str, int],
) -> tuple[int, ...]:
    if name in given:
        return given[name]
    if given or name in fixed:
        return (held[name],)
    return tuple(dict.fromkeys((held[name], *tunable.values)))


def _narrowed(sets: Sequence[TunableSet], request: SweepRequest) -> list[TunableSet]:
    try:
        wanted = re.compile(request.only)
    except re.error as e:
        raise ConfigError(f"--only is not a regular expression: {e}") from e
    found = [s for s in sets if wanted.search(s.name)]
    if request.sample is not None:
        if request.sample < 1:
            raise ConfigError("--sample must be 1 or more, not 0")
        # Always the same ones: a sweep that is called again goes on with them.
        count = min(request.sample, len(found))
        places = sorted(random.Random(0).sample(range(len(found)), count))
        found = [found[i] for i in places]
    if not found:
        raise ConfigError("no set is left to try beside the defaults", "see --set and --only")
    return found


def _given(
    known: Mapping[str, Tunable], words: Sequence[str], flag: str
) -> dict[str, tuple[int, ...]]:
    """Return the values that K=V,V gives each tunable; K alone stands for those of the file."""
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        choose(known, name, "tunable")
        values = text.split(",") if equals else [str(v) for v in known[name].values]
        if not all(map(_VALUE.fullmatch, values)):
            raise ConfigError(
                f"--{flag} '{word[:80]}' has a value that is no whole number",
                f"write --{flag} {name}=" + ("VALUE" if flag == "fix" else "VALUE,VALUE"),
            )
        if name in found:
            raise ConfigError(f"--{flag} names {name} twice", "list its values once, with commas")
        found[name] = tuple(dict.fromkeys(map(int, values)))
    return found
