"""What a version of ncu measures on a chip, and which options it has: checked before a host is.

A catalogue is a file of `catalogues/`, or of a project's `ci/catalogues/`: its first line says of
which ncu and chip it is, each further one is a kind and a name. `invoke ncu-catalogue` writes one.
"""

from __future__ import annotations

import difflib
import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernelrig.config.ncu_replacements import METRICS, OPTIONS
from kernelrig.errors import ConfigError
from kernelrig.files.validation import nearest

PACKAGED = Path(__file__).parents[1] / "catalogues"
OWN = Path("ci/catalogues")
CHIPS = {"sm_90a": "gh100", "sm_100a": "gb100"}
"""ncu's name of the chip that runs an arch."""
_HEAD = re.compile(r"ncu (\d[\w.]*) (\w+)")
_MOST_BYTES = 4 << 20
_SUGGESTED = 3

_ROLLUPS = ("avg", "max", "min", "sum")
_SCOPES = ("active", "elapsed")
_PERCENT = tuple(f"pct_of_peak_sustained_{scope}" for scope in _SCOPES)
_PEAKS = tuple(
    f"peak_sustained{scope}{rate}"
    for scope in ("", *(f"_{s}" for s in _SCOPES))
    for rate in ("", ".per_second")
    if scope or not rate
)
_RATES = ("per_cycle_active", "per_cycle_elapsed")
SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": tuple(
        f".{rollup}{sub}"
        for rollup in _ROLLUPS
        for sub in ("", *(f".{s}" for s in (*_PERCENT, *_PEAKS, *_RATES, "per_second")))
    ),
    "throughput": tuple(f".{rollup}.{sub}" for rollup in _ROLLUPS for sub in _PERCENT),
    "ratio": (".max_rate", ".pct", ".ratio"),
    "attribute": ("",),
}
"""What may follow a metric's base name, by its kind; an attribute is asked for as it is."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The names that a version of ncu knows on a chip. `options` hold their choices, () = any."""

    ncu: str
    chip: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def wrong_metric(self, name: str) -> str:
        """Return what is wrong with a metric or its suffix, and the nearest; empty if right."""
        base, dot, rest = name.partition(".")
        kind = self.metrics.get(base, "")
        if kind and dot + rest in SUFFIXES[kind]:
            return ""
        if kind == "attribute":
            return f"'{base}' takes no suffix, and '{name}' has one"
        if kind:
            known = [f"{base}{suffix}" for suffix in SUFFIXES[kind]]
            given = f"'{name}' has the suffix '.{rest}'" if rest else f"'{name}' has no suffix"
            return f"{given}, which no {kind} has; {_listed(_close(name, known) or known)}"
        said = f"{self.chip} has no metric '{base}' (ncu {self.ncu})"
        if base in METRICS:
            return f"{said}; {METRICS[base]}"
        return f"{said}{self._near(base)}"

    def wrong_section(self, name: str) -> str:
        if name in self.sections:
            return ""
        near = _listed(_close(name, self.sections)) or _listed(sorted(self.sections))
        return f"ncu {self.ncu} has no section '{name}'; {near}"

    def wrong_set(self, name: str) -> str:
        if name in self.sets:
            return ""
        advice = OPTIONS.get(("ncu", "--set", name), "")
        return f"ncu {self.ncu} has no set '{name}'; {advice or _listed(sorted(self.sets))}"

    def wrong_option(self, option: str, value: str = "") -> str:
        """Return what is wrong with `--name` and its value; empty if ncu has it."""
        if option not in self.options:
            advice = OPTIONS.get(("ncu", option, ""), "")
            near = f"; {advice}" if advice else nearest(option, self.options)
            return f"ncu {self.ncu} has no option {option}{near}"
        if option == "--set":
            return self.wrong_set(value)
        if option == "--section":
            return self.wrong_section(value) if not value.startswith("regex:") else ""
        choices = self.options[option]
        if choices and not set(value.split(",")) <= set(choices):
            return f"{option} takes {', '.join(choices)}, not '{value}'{nearest(value, choices)}"
        return ""

    def find(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the metrics whose names hold all of `words`."""
        wanted = [word.lower() for word in words]
        return tuple(n for n in sorted(self.metrics) if all(w in n.lower() for w in wanted))

    def _near(self, base: str) -> str:
        unit = base.partition("__")[0]
        same = [name for name in self.metrics if name.startswith(f"{unit}__")]
        found = _close(base, same) or _close(base, self.metrics)
        return (
            f"; {_listed(found)}"
            if found
            else f"; `invoke ncu-catalogue --find WORDS --chip {self.chip}` searches them"
        )


def load_catalogue(root: Path, chip: str, ncu: str = "") -> Catalogue:
    """Return the catalogue of `chip` for version `ncu`, else of the newest there is.

    A project's own stands before that of the package. ConfigError where there is none.
    """
    found: dict[tuple[int, ...], Path] = {}
    for folder in (PACKAGED, root / OWN):
        for path in folder.glob(f"ncu-*-{chip}.txt.gz"):
            found[_version(path.name.split("-")[1])] = path
    if not found:
        raise ConfigError(
            f"there is no ncu catalogue of chip {chip}",
            f"`invoke ncu-catalogue --remote R --chip {chip}` makes one",
        )
    return _read(found.get(_version(ncu)) or found[max(found)], chip)


def chip_of(arch: str) -> str:
    """Return ncu's name of the chip that runs `arch`; ConfigError if it is not known."""
    if arch not in CHIPS:
        raise ConfigError(f"no chip is known for arch {arch}; known: {', '.join(CHIPS)}")
    return CHIPS[arch]


def render_catalogue(catalogue: Catalogue) -> bytes:
    """Return the catalogue as a file: the same names give the same bytes."""
    lines = [f"ncu {catalogue.ncu} {catalogue.chip}"]
    lines += [" ".join(("option", n, *c)) for n, c in sorted(catalogue.options.items())]
    lines += [f"set {name}" for name in sorted(catalogue.sets)]
    lines += [f"section {name}" for name in sorted(catalogue.sections)]
    lines += [f"{kind} {name}" for name, kind in sorted(catalogue.metrics.items())]
    return gzip.compress("\n".join((*lines, "")).encode(), mtime=0)


def catalogue_name(catalogue: Catalogue) -> str:
    return f"ncu-{catalogue.ncu}-{catalogue.chip}.txt.gz"


def _read(path: Path, chip: str) -> Catalogue:
    try:
        with gzip.open(path) as f:
            text = f.read(_MOST_BYTES).decode()
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile) as e:
        raise ConfigError(f"{path} is no catalogue: {e}", "delete it, or write it anew") from e
    head, *lines = text.splitlines() or [""]
    of = _HEAD.fullmatch(head)
    if of is None or of[2] != chip:
        raise ConfigError(f"{path} begins with '{head[:60]}', not with `ncu VERSION {chip}`")
    metrics: dict[str, str] = {}
    named: dict[str, set[str]] = {"section": set(), "set": set()}
    options: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines, start=2):
        kind, *words = line.split(" ")
        if kind in SUFFIXES and len(words) == 1:
            metrics[words[0]] = kind
        elif kind in named and len(words) == 1:
            named[kind].add(words[0])
        elif kind == "option" and words:
            options[words[0]] = tuple(words[1:])
        else:
            raise ConfigError(f"{path}: line {number} is '{line[:60]}', which names nothing known")
    return Catalogue(
        of[1], chip, metrics, frozenset(named["section"]), frozenset(named["set"]), options
    )


def _version(text: str) -> tuple[int, ...]:
    """Return the three numbers of a release: ncu itself says a fourth."""
    return tuple(int(part) for part in re.findall(r"\d+", text))[:3]


def _close(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(known), n=_SUGGESTED, cutoff=0.75)


def _listed(names: Iterable[str]) -> str:
    several = list(names)
    if not several:
        return ""
    return (
        f"did you mean {' or '.join(several)}?"
        if len(several) <= _SUGGESTED
        else f"known: {', '.join(several)}"
    )
