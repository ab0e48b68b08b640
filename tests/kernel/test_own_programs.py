"""Our kernels' own programs print on the CPU what they printed on a GPU: small cases of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.own_programs import main, names

PRINTED = Path(__file__).parents[1] / "data/own-programs-h100.json"
"""On one NVIDIA H100 (driver 580.159.04), by `tests/benchmarks/own_programs.py FILE --gpu`."""


def test_an_h100_printed_what_every_start_prints_today() -> None:
    assert list(json.loads(PRINTED.read_text())) == names()


@pytest.mark.long
def test_run_prints_what_an_h100_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(PRINTED)])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "12 of 12 starts the same")
