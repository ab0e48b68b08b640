"""Every kind of fault at ten instants: nothing lost, doubled or left, and the next run works.

A seed chooses the instant and the parameters. With KERNELRIG_FAULTS_TABLE=FILE the cases write
their rows into a table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.faults import clients, disks, hostile, hosts, links, misbehaviour, processes
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
from tests.remote.sshd_fixture import Sshd, start_server

SEEDS = 10
KINDS = (
    *links.KINDS,
    *processes.KINDS,
    *clients.KINDS,
    *disks.KINDS,
    *misbehaviour.KINDS,
    *hosts.KINDS,
    *hostile.KINDS,
)


def cases() -> Iterator[object]:
    for kind in KINDS:
        for seed in range(SEEDS):
            marks = () if seed == kind.fast else (pytest.mark.long,)
            yield pytest.param(kind, seed, id=f"{kind.name}-{seed}", marks=marks)


@pytest.fixture(scope="session")
def shared_sshd(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = start_server(tmp_path_factory.mktemp("faults") / "sshd")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.mark.parametrize(("kind", "seed"), list(cases()))
def test_a_fault_loses_nothing_and_leaves_nothing(
    kind: Kind,
    seed: int,
    shared_sshd: Sshd,
    builds: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    began = time.monotonic()
    found = Findings()
    folder = tmp_path_factory.mktemp("case")
    notice = None
    sshd = start_server(tmp_path_factory.mktemp("own") / "sshd") if kind.own_sshd else shared_sshd
    with open_site(folder, sshd, builds, kind.disks, **kind.remote) as site:
        try:
            judge(site, kind, seed, found)
        except AssertionError as e:
            found.wrong.append(str(e))
        finally:
            if kind.own_sshd:
                site.stop_sshd()
        notice = seconds_until_named(site)
    add_row(
        Row(
            kind.name,
            seed,
            not found.text(),
            len(found.lost),
            len(found.doubled),
            len(found.leaked),
            notice,
            time.monotonic() - began,
            found.text(),
        )
    )
    assert not found.text(), found.text()


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
