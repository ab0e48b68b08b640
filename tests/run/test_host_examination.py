"""A host is examined through its agent; stand-ins on its PATH say what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import GpuSpeed
from kernelrig.run.host_examination import examine

from tests.cuda_driver import build_driver
from tests.run.gpu_host import UUID, make_project


def test_a_good_host_is_worth_it_and_what_was_not_established_is_said(tmp_path: Path) -> None:
    found = examine(make_project(tmp_path), "rented")
    lines = {item.name: item for item in found.items}
    assert [item.name for item in found.items if item.level in ("fail", "warn")] == []
    assert lines["GPU"].text == f"NVIDIA H200, {UUID}"
    assert lines["Xid errors"].text == "none since boot"
    assert lines["compute-sanitizer"].text == "compute-sanitizer 2026.4.0.0 (host)"
    assert lines["driver"].text == "driver 580.159.04, needed 580"
    assert lines["glibc"].level == "unknown"  # there is no build to compare it with
    assert lines["worth it"].text.startswith("nothing speaks against it")
    assert found.fit


def test_what_the_gpu_gave_under_load_is_shown_and_kept_for_the_runs_of_a_day(
    tmp_path: Path,
) -> None:
    library = build_driver(tmp_path / "driver")
    other = {"name": "NVIDIA H200 NVL"}
    found = examine(make_project(tmp_path, gpu=other, libraries=library.parent), "rented")
    lines = {item.name: item for item in found.items}
    said = "6.87 TB/s, not judged: none of this name was measured"  # 16 copies of 1 GiB in 5 ms
    assert (lines["copy bandwidth"].level, lines["copy bandwidth"].text) == ("unknown", said)
    assert lines["under load"].text == "all CTAs agree"
    assert lines["worth it"].text == "nothing speaks against it; its speed is not judged"
    kept = from_json(GpuSpeed, tmp_path / f"artifacts/speeds/{UUID}.json")
    assert (kept.uuid, kept.driver) == (UUID, "580.159.04")


def test_a_gpu_far_below_what_others_of_its_name_gave_is_not_worth_it(tmp_path: Path) -> None:
    library = build_driver(tmp_path / "driver")  # its products take a millisecond each
    found = examine(make_project(tmp_path, libraries=library.parent), "rented")
    slow = "34 TFLOP/s, 6% of what a GPU of this name gave: throttled or shared"
    assert found.items[-1].text == f"no, a run would be refused: {slow}"
    assert not found.fit


def test_a_gpu_that_fails_under_load_is_not_worth_it(tmp_path: Path) -> None:
    library = build_driver(tmp_path / "driver", memory="2")
    found = examine(make_project(tmp_path, libraries=library.parent), "rented")
    assert not found.fit
    failed = "the GPU could not be loaded: cuMemAlloc_v2 returned 2: out of memory"
    assert found.items[-1].text == f"no, a run would be refused: {failed}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("host", "level", "name", "text"),
    [
        ({"without": ("nvidia-smi",)}, "fail", "GPU", "no GPU on "),
        ({"without": ("ncu",)}, "warn", "ncu", "no ncu on "),
        ({"without": ("compute-sanitizer",)}, "fail", "compute-sanitizer", "no compute-sanitizer"),
        ({"machine": "aarch64"}, "fail", "instruction set", "aarch64, and the programs are built"),
        (
            {"gpu": {"apps": "train (process 17, 9000 MiB)"}},
            "fail",
            "GPU users",
            "train (process 17, 9000 MiB)",
        ),
        ({"gpu": {"used": "9000"}}, "warn", "GPU users", "no process is listed, and 9000 MiB"),
        (
            {"gpu": {"reasons": "0x0000000000000048"}},
            "fail",
            "throttle reasons",
            "the GPU is slowed down: hardware slowdown, thermal slowdown by hardware",
        ),
        (
            {"gpu": {"driver": "570.86.15"}},
            "fail",
            "driver",
            "driver 570.86.15 on ",
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
