"""The catalogues of ncu that profile plans are checked against: written anew from a host's ncu.

What ncu lists needs neither the chip nor a GPU, so that one host makes the catalogues of all chips.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelrig import config
from kernelrig.config import ncu_command_line
from kernelrig.config.ncu_catalogue import (
    CHIPS,
    OWN,
    Catalogue,
    catalogue_name,
    load_catalogue,
    render_catalogue,
)
from kernelrig.config.ncu_listing import COLLECTIONS, LISTINGS, query_options, read_catalogue
from kernelrig.config.selection import choose, choose_remote
from kernelrig.errors import ConfigError, ProtocolError, RemoteError
from kernelrig.files import rundir
from kernelrig.files.regular_file import read_regular
from kernelrig.model import Command, EndedBy, StageJob, StageKind
from kernelrig.remote import connect, read_journal
from kernelrig.run.store import new_run_id

LIMIT_S = 120.0
MOST_BYTES = 16 << 20
"""Of one listing; all metrics of a chip take 1 MB."""
_NAME = "ncu-catalogue"
MOST_FOUND = 200


def find_metrics(root: Path, words: Sequence[str], chip: str) -> str:
    """Return the metrics of a chip whose names hold all words, with their kinds."""
    catalogue = load_catalogue(root, _chip(chip) if chip else CHIPS["sm_100a"])
    found = catalogue.find(words)
    if not found:
        raise ConfigError(f"{catalogue.chip} has no metric with {' and '.join(words)} in its name")
    lines = [f"{name}  {catalogue.metrics[name]}" for name in found[:MOST_FOUND]]
    more = [f"and {len(found) - MOST_FOUND} more"] if len(found) > MOST_FOUND else []
    return "\n".join((*lines, *more))


def wrong_words(root: Path, line: str, chip: str) -> tuple[str, ...]:
    """Return what is wrong with a command line on a chip, on any chip if none is named."""
    chips = [_chip(chip)] if chip else sorted(CHIPS.values())
    found = (ncu_command_line.wrong_words(line, load_catalogue(root, c)) for c in chips)
    return tuple(dict.fromkeys(wrong for each in found for wrong in each))


def describe_catalogues(root: Path, chip: str = "") -> str:
    """Return a line for the catalogue of each chip, or of one, that plans are checked against."""
    chips = [_chip(chip)] if chip else sorted(CHIPS.values())
    held = (load_catalogue(root, one) for one in chips)
    return "\n".join(map(_described, held))


def refresh_catalogues(root: Path, name: str, chip: str = "") -> str:
    """Write the catalogues of all chips, or of one, from the ncu of the remote `name`.

    Raises RemoteError for a host without ncu, ProtocolError where what it lists cannot be read.
    """
    remote = choose_remote(config.load_remotes(root), name)
    chips = (_chip(chip),) if chip else tuple(sorted(CHIPS.values()))
    with (
        connect(remote, root=root) as link,
        tempfile.TemporaryDirectory(prefix=f"kernelrig-{_NAME}-") as made,
    ):
        folder = Path(made)
        tool = link.facts.tools.get("ncu")
        if tool is None:
            raise RemoteError(f"no ncu on {link.facts.hostname}", "install Nsight Compute there")
        job = _job(tool.path, chips)
        run_id = new_run_id(_NAME, remote.name)
        link.launch(run_id, (job,), {}, stop_at_first=False)
        missing = link.bring_back(run_id, folder, (job,), lambda _: None)
        if missing.names:
            raise ProtocolError(f"ncu's listings did not come: {missing.names[0]}")
        (result,) = read_journal(folder / "journal.jsonl", (job,), run_id)
        for ended in result.commands:
            if ended.ended_by is not EndedBy.EXIT or ended.exit_code:
                how = ended.exit_code if ended.ended_by is EndedBy.EXIT else ended.ended_by
                raise ProtocolError(f"{tool.path} could not list its {ended.name}: {how}")
        listed = rundir.stage_folder(folder, 1, job.name)
        catalogues = [_read(listed, each) for each in chips]
    for catalogue in catalogues:
        rundir.write_atomic(root / OWN / catalogue_name(catalogue), render_catalogue(catalogue))
    lines = (f"{OWN}/{catalogue_name(c)}: {_described(c)}" for c in catalogues)
    return "\n".join(lines)


def _job(ncu: str, chips: Sequence[str]) -> StageJob:
    commands = [
        Command(name, (ncu, *argv), LIMIT_S, stdout=f"{name}.txt")
        for name, argv in LISTINGS.items()
    ]
    commands += [
        Command(
            f"{chip}-{collection}",
            (ncu, *query_options(collection, chip)),
            LIMIT_S,
            stdout=f"{chip}-{collection}.txt",
        )
        for chip in chips
        for collection in COLLECTIONS
    ]
    return StageJob(_NAME, StageKind.PROFILE, tuple(commands))


def _read(folder: Path, chip: str) -> Catalogue:
    def text(name: str) -> str:
        try:
            return read_regular(folder / f"{name}.txt", MOST_BYTES).decode(errors="replace")
        except OSError as e:
            raise ProtocolError(f"ncu's listing {name} cannot be read: {e.strerror or e}") from e

    return read_catalogue(
        chip,
        {name: text(name) for name in LISTINGS},
        {name: text(f"{chip}-{name}") for name in COLLECTIONS},
    )


def _chip(chip: str) -> str:
    return choose(sorted(CHIPS.values()), chip, "chip")


def _described(catalogue: Catalogue) -> str:
    return (
        f"{catalogue.chip}: {len(catalogue.metrics)} metrics, {len(catalogue.sections)} sections,"
        f" {len(catalogue.options)} options of ncu {catalogue.ncu}"
    )
