"""A build is taken from the store only if it is what was compiled here."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kernelrig.build import ledger, load_build
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Toolchain
from kernelrig.run.upkeep import clean

from tests.build.test_build import Checkout, checkout, said_by

__all__ = ["checkout"]  # a fixture


def stub(folder: Path, text: str = "#!/bin/sh\nprintf stub\n") -> None:
    """Put another program into an entry, and its hash into the entry's own list."""
    (folder / "demo").write_text(text)
    record = folder / "build.json"
    value = json.loads(record.read_text())
    value["files"]["demo"] = sha256_file(folder / "demo")
    record.write_text(json.dumps(value))


def relabel(folder: Path) -> None:
    """Let an entry say that it is of another kernel."""
    record = folder / "build.json"
    record.write_text(record.read_text().replace('"kernel": "demo"', '"kernel": "other"'))


@pytest.mark.parametrize("change", [stub, relabel])
def test_an_entry_that_was_changed_is_not_taken_where_it_is_given_either(
    checkout: Checkout, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """As `--build` takes it, by its name or through a link; a copy is of unknown origin."""
    first = checkout.build()
    change(first.folder)
    (tmp_path / "link").symlink_to(first.folder)
    for given in (first.folder, tmp_path / "link"):
        with pytest.raises(ConfigError) as caught:
            load_build(given)
        assert caught.value.message == f"{given} is not what was compiled here"
    # Nothing in the entry gives it away:
    assert load_build(shutil.copytree(first.folder, tmp_path / "copy")).key == first.key


def test_an_entry_that_was_changed_with_its_own_hashes_is_compiled_again(
    checkout: Checkout, capfd: pytest.CaptureFixture[str]
) -> None:
    first = checkout.build()
    stub(first.folder)
    again = checkout.build()
    assert (again.reused, again.folder, checkout.compilations) == (False, first.folder, 2)
    assert said_by(again) == "demo|a label|said|1"
    name = again.folder.relative_to(checkout.root)
    assert f"not using {name}: it is not what was compiled here" in capfd.readouterr().err
    assert checkout.build().reused


@pytest.mark.parametrize("line", ["gone", "of another", "garbled"])
def test_an_entry_that_is_not_known_here_is_compiled_again(checkout: Checkout, line: str) -> None:
    first = checkout.build()
    noted = first.folder.parent / ledger.FOLDER / first.folder.name
    if line == "of another":
        noted.write_text("0" * 64 + "\n")
    elif line == "garbled":
        noted.write_bytes(b"\xff\xfe")
    else:
        noted.unlink()
    assert not checkout.build().reused
    assert checkout.build().reused


def test_an_entry_from_elsewhere_is_not_taken_for_one_made_here(
    checkout: Checkout, tmp_path: Path, host_toolchain: Toolchain
) -> None:
    """`--build` takes it; the run then says that it was given."""
    made = Checkout(tmp_path / "other", host_toolchain).build()
    stub(made.folder)
    place = checkout.root / "artifacts/builds" / made.folder.name
    shutil.copytree(made.folder, place)
    assert said_by(load_build(place)) == "stub"
    assert said_by(checkout.build()) == "demo|a label|said|1"


def test_of_several_that_compile_the_same_all_get_a_build_that_is_known(
    checkout: Checkout,
) -> None:
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: checkout.build(), range(4)))
    assert {said_by(b) for b in built} == {"demo|a label|said|1"}
    assert checkout.build().reused


def test_what_is_cleaned_is_forgotten(checkout: Checkout) -> None:
    first = checkout.build()
    noted = first.folder.parent / ledger.FOLDER / first.folder.name
    shutil.rmtree(first.folder)
    clean(checkout.root, "", 7)
    assert not noted.exists()
    assert not checkout.build().reused


def test_a_store_that_another_process_holds_is_waited_for_with_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with ledger.locked(tmp_path):
            held.set()
            free.wait(10)

    def wait() -> None:
        with ledger.locked(tmp_path):
            pass

    holder, waiter = threading.Thread(target=hold), threading.Thread(target=wait)
    holder.start()
    assert held.wait(10)
    waiter.start()
    said = ""
    limit = time.monotonic() + 10
    while "waiting for another process that changes" not in said and time.monotonic() < limit:
        said += capfd.readouterr().err
    free.set()
    holder.join()
    waiter.join()
    assert f"waiting for another process that changes {tmp_path}: it holds .lock" in said


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ledger.FOLDER).mkdir()
    os.mkfifo(tmp_path / ledger.FOLDER / ".lock")
    with ledger.locked(tmp_path):
        assert list(tmp_path.iterdir()) == [tmp_path / ledger.FOLDER]
