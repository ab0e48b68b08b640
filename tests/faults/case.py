"""One case: a kind of fault at a seed's instant, and its row of the table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.faults.kind import Kind
from tests.faults.oracle import (
    Findings,
    check_nothing_is_left,
    check_run,
    check_sentences,
    check_the_next_run,
    follow_advice,
    run_of,
    seconds_until_named,
)
from tests.faults.site import Site, open_site
from tests.faults.table import Row, add_row
from tests.remote.sshd_fixture import Sshd

SEEDS = 10
"""Of each kind; a seed chooses the instant and the parameters."""


def every_instant(kinds: Sequence[Kind]) -> pytest.MarkDecorator:
    """Parametrise a test with each kind and seed; all are long but the fast ones."""
    return pytest.mark.parametrize(
        ("kind", "seed"),
        [
            pytest.param(
                kind,
                seed,
                id=f"{kind.name}-{seed}",
                marks=() if seed == kind.fast else (pytest.mark.long,),
            )
            for kind in kinds
            for seed in range(SEEDS)
        ],
    )


def undergo(kind: Kind, seed: int, folder: Path, sshd: Sshd, builds: Path) -> Findings:
    """Let the fault happen to a run in `folder`, and return what is wrong afterwards."""
    began = time.monotonic()
    found = Findings()
    with open_site(folder, sshd, builds, kind.disks, **kind.remote) as site:
        try:
            judge(site, kind, seed, found)
        except AssertionError as e:
            found.wrong.append(str(e))
        finally:
            if kind.own_sshd:
                site.stop_sshd()
        notice = seconds_until_named(site)
    text = found.text()
    counts = (len(found.lost), len(found.doubled), len(found.leaked))
    add_row(Row(kind.name, seed, not text, *counts, notice, time.monotonic() - began, text))
    if not text:
        shutil.rmtree(folder)  # all of them together would be gigabytes
    return found


def judge(site: Site, kind: Kind, seed: int, found: Findings) -> None:
    answer, expected = kind.inject(site, Random(f"{kind.name}/{seed}"), seed)
    check_sentences(answer, found)
    if answer.exit_code not in expected.exits:
        found.wrong.append(f"exit {answer.exit_code}, not {expected.exits}:\n{answer.stderr}")
    last = follow_advice(site, answer, found)
    if last.exit_code not in expected.final:
        found.wrong.append(
            f"in the end exit {last.exit_code}, not {expected.final}:\n{last.stderr}"
        )
    if expected.says not in answer.stdout + answer.stderr:
        found.wrong.append(f"'{expected.says}' is not said:\n{answer.stdout}{answer.stderr}")
    if run_of(answer):
        check_run(site, run_of(answer), expected, found)
    site.go_on()
    expected.heal()
    check_the_next_run(site, found)
    check_nothing_is_left(site, found)
