"""A host is examined through its agent; stand-ins on its PATH say what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelrig.run.host_examination import examine

from tests.run.gpu_host import UUID, make_project


def test_a_good_host_is_worth_it_and_what_was_not_established_is_said(tmp_path: Path) -> None:
    found = examine(make_project(tmp_path), "rented")
    lines = {item.name: item for item in found.items}
    assert [item.name for item in found.items if item.level in ("fail", "warn")] == []
    assert lines["GPU"].text == f"NVIDIA H200, {UUID}"
    assert lines["Xid errors"].text == "none since boot"
    assert lines["compute-sanitizer"].text == "compute-sanitizer 2026.4.0.0 (host)"
    assert lines["driver"].level == "unknown"  # there is no build to compare it with
    assert lines["worth it"].text.startswith("nothing speaks against it")
    assert found.fit


@pytest.mark.long
@pytest.mark.parametrize(
    ("host", "level", "name", "text"),
    [
        ({"without": ("nvidia-smi",)}, "fail", "GPU", "no GPU on "),
        ({"without": ("ncu",)}, "warn", "ncu", "no ncu on "),
        ({"without": ("compute-sanitizer",)}, "fail", "compute-sanitizer", "no compute-sanitizer"),
        ({"machine": "aarch64"}, "fail", "instruction set", "aarch64, and the programs are built"),
        ({"gpu": {"apps": "17, train, 9000"}}, "fail", "GPU not in use", "17, train, 9000"),
        ({"gpu": {"used": "9000"}}, "warn", "GPU not in use", "no process is listed, and 9000 MiB"),
        (
            {"gpu": {"reasons": "0x0000000000000048"}},
            "fail",
            "throttle reasons",
            "the GPU is slowed down: hardware slowdown, thermal slowdown by hardware",
        ),
        ({"gpu": {"mig": "Enabled"}}, "fail", "MIG", "a slice is not the GPU"),
        (
            {"dmesg": "echo \"[9.1] NVRM: Xid (PCI:0000:00:06): 79, pid='?', name=?, gone\""},
            "fail",
            "Xid errors",
            "Xid 79 since boot: GPU has fallen off the bus",
        ),
        (
            {"dmesg": "echo 'dmesg: read kernel buffer failed: Operation not permitted'; exit 1"},
            "unknown",
            "Xid errors",
            "the kernel log is not readable",
        ),
        ({"gpu": {"name": "NVIDIA H100 80GB HBM3"}}, "fail", "GPU name", "asks for 'H200'"),
    ],
)
def test_what_is_wrong_with_a_host_is_its_own_line(
    tmp_path: Path, host: dict[str, Any], level: str, name: str, text: str
) -> None:
    found = examine(make_project(tmp_path, **host), "rented")
    (line,) = (item for item in found.items if item.name == name)
    assert line.level == level
    assert text in line.text
    assert line.fix or level == "unknown"
    assert found.fit is (level != "fail")
    assert [item.name for item in found.items if not item.ok] == (
        [name, "worth it"] if level == "fail" else []
    )
