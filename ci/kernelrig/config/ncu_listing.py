"""What ncu says of itself, read into a catalogue: its help, its sections and sets, its metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kernelrig.config.ncu_catalogue import Catalogue
from kernelrig.errors import ProtocolError

_OPTION = re.compile(r"^  (?:-\w \[ )?(--[a-z0-9-]+)(?: \])?(?: arg)?")
_CHOICE = re.compile(r"^ {42}([\w./,-]+)(?: \(default\)|: .*)?$")
_OPEN = re.compile(r"^ {42}<")
_METRIC = re.compile(r"^([A-Za-z]\w*) +(Counter|Ratio|Throughput)\b")
_IDENTIFIER = re.compile(r"^([A-Za-z]\w*) +\S")
_VERSION = re.compile(r"^Version (\d+\.\d+\.\d+)", re.MULTILINE)
LISTINGS: Mapping[str, tuple[str, ...]] = {
    "version": ("--version",),
    "help": ("--help",),
    "sections": ("--list-sections",),
    "sets": ("--list-sets",),
}
"""What is asked of ncu whatever the chip, by the name of the listing."""
COLLECTIONS: Mapping[str, bool] = {
    "profiling": True,
    "launch": False,
    "device": False,
    "source": False,
}
"""The collections of metrics, and whether one's metrics take a suffix."""


def query_options(collection: str, chip: str) -> tuple[str, ...]:
    """Return what makes ncu list a collection of metrics; it needs neither the chip nor a GPU."""
    return (
        *("--query-metrics", "--query-metrics-collection", collection),
        *("--chips", chip),
    )


def read_catalogue(chip: str, listings: Mapping[str, str], metrics: Mapping[str, str]) -> Catalogue:
    """Return the catalogue of `chip`; `metrics` are the listings by collection.

    Raises ProtocolError where a listing has nothing in it.
    """
    version = _VERSION.search(listings["version"])
    if version is None:
        raise ProtocolError(f"ncu says no version: '{listings['version'][:80].strip()}'")
    kinds: dict[str, str] = {}
    for collection, suffixed in COLLECTIONS.items():
        text = metrics[collection]
        if f"Chip {chip}" not in text.splitlines()[:1]:
            raise ProtocolError(f"ncu lists no {collection} metrics of chip {chip}: '{text[:80]}'")
        found = (m for line in text.splitlines() if (m := _METRIC.match(line)))
        kinds |= {m[1]: m[2].lower() if suffixed else "attribute" for m in found}
    read = Catalogue(
        version[1],
        chip,
        kinds,
        frozenset(_identifiers(listings["sections"])),
        frozenset(_identifiers(listings["sets"])),
        _options(listings["help"].splitlines()),
    )
    for what in ("metrics", "sections", "sets", "options"):
        if not getattr(read, what):
            raise ProtocolError(f"ncu {version[1]} lists no {what}")
    return read


def _identifiers(text: str) -> set[str]:
    """Return the first column of a table, whose rows may go on below with an empty one."""
    found = {m[1] for line in text.splitlines() if (m := _IDENTIFIER.match(line))}
    return found - {"Identifier"}


def _options(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the options with their choices: empty where any value will do."""
    found: dict[str, list[str]] = {}
    name, is_open = "", set()
    for line in lines:
        if option := _OPTION.match(line):
            name = option[1]
            found[name] = []
        elif name and (choice := _CHOICE.match(line)):
            found[name] += choice[1].split("/")
        elif name and _OPEN.match(line):
            is_open.add(name)
        elif line and not line.startswith(" "):
            name = ""
    return {n: () if n in is_open else tuple(sorted(set(c))) for n, c in found.items()}
