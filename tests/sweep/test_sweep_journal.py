"""The journal of a sweep: whole lines count, half ones are done again, changed ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.errors import ConfigError, IncompleteError, ProtocolError
from kernelrig.files.event_log import JOURNAL
from kernelrig.sweep.journal import open_journal

INPUTS = {"inputs": "abc", "kernel": "gemm"}


def test_what_was_added_is_there_again_and_half_a_line_is_not(tmp_path: Path) -> None:
    with open_journal(tmp_path / "s", INPUTS) as journal:
        journal.add("set", id="a")
        journal.add("set", id="b")
    path = tmp_path / "s" / JOURNAL
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1])):
        path.write_bytes(whole[:-cut])
        with open_journal(tmp_path / "s", INPUTS) as journal:
            assert [e["id"] for e in journal.of("set")] == ["a"]
            journal.add("set", id="c")
        with open_journal(tmp_path / "s", INPUTS) as journal:
            assert [e["id"] for e in journal.of("set")] == ["a", "c"]


def test_other_inputs_a_damaged_line_and_a_second_client_are_refused(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path / "s", INPUTS),
        pytest.raises(IncompleteError, match="another process carries out this sweep"),
        open_journal(tmp_path / "s", INPUTS),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="a sweep of other inputs"),
        open_journal(tmp_path / "s", {**INPUTS, "inputs": "abd"}),
    ):
        pass
    path = tmp_path / "s" / JOURNAL
    path.write_bytes(path.read_bytes() + b"{\n")
    with pytest.raises(ProtocolError, match="is damaged"), open_journal(tmp_path / "s", INPUTS):
        pass


@pytest.mark.parametrize(
    "name", ["../x", "heats/../x", "heats/a/b", "/etc/passwd", "heats/001.json"]
)
def test_a_heat_is_the_file_that_was_measured(tmp_path: Path, name: str) -> None:
    with open_journal(tmp_path / "s", INPUTS) as journal:
        file, digest = journal.keep_heat(1, "{}")
        assert journal.heat_file({"file": file, "sha256": digest}).read_text() == "{}"
        (tmp_path / "s" / "heats/001.json").write_text("{ }")
        with pytest.raises(ProtocolError):
            journal.heat_file({"file": name, "sha256": digest})
