"""Reports of ncu as records, read by NVIDIA's library in a process with limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelrig.analyse import profile_report
from kernelrig.analyse.profile_report import plain_text, read_report
from kernelrig.errors import ProtocolError
from kernelrig.model import Advice, merge_values

REPORTS = Path(__file__).parents[1] / "data/ncu/2025.3.1-reports"
SOURCE = (REPORTS / "two_kernels.cu").read_text().splitlines()


def test_a_launch_has_its_metrics_in_base_units(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    assert (launch.kernel, launch.signature) == (
        "slow_transpose",
        "slow_transpose(float *, const float *)",
    )
    assert launch.metrics["device__attribute_display_name"].text == "NVIDIA H200"
    assert launch.metrics["launch__block_size"].value == 1024
    assert launch.metrics["launch__grid_size"].value == 1024
    # each of the 32 warps of a CTA stores once to shared memory, and once to global
    assert launch.metrics["smsp__inst_executed_op_shared_st.sum"].value == 1024 * 32
    assert launch.metrics["smsp__inst_executed_op_global_st.sum"].value == 1024 * 32
    assert launch.metrics["sm__cycles_elapsed.max"].unit == "cycle"
    assert "SourceCounters" in launch.sections
    assert launch.values()["launch__registers_per_thread"] > 0


def test_the_code_has_its_source_lines_and_counts_by_address(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    assert [i.address for i in launch.instructions] == sorted(
        i.address for i in launch.instructions
    )
    executed = launch.metrics["inst_executed"]
    assert sum(executed.by_pc.values()) == executed.value
    assert set(executed.by_pc) <= {i.address for i in launch.instructions}
    (store,) = (i for i in launch.instructions if i.sass.startswith("STG"))
    assert store.file.endswith("two_kernels.cu")
    assert "to[(blockIdx.x * TILE" in SOURCE[store.line - 1]
    assert store.ptx.startswith("st.global")
    excess = launch.metrics["derived__memory_l2_theoretical_sectors_global_excessive"]
    assert max(excess.by_pc, key=excess.by_pc.__getitem__) == store.address
    samples = launch.metrics["smsp__pcsamp_sample_count"]
    stalls = [
        m
        for name, m in launch.metrics.items()
        if name.startswith("smsp__pcsamp_warps_issue_stalled_") and "not_issued" not in name
    ]
    assert sum(m.value or 0 for m in stalls) == samples.value
    assert sum(sum(m.by_pc.values()) for m in stalls) == samples.value


def test_a_metric_with_parts_that_are_no_instructions_has_none_by_address(
    ncu_report: Path,
) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    assert launch.metrics["launch__occupancy_per_block_size"].by_pc == {}


CODE_AT_ZERO = """
class Ids:
    ValueKind_UINT64 = ValueKind_UINT32 = ValueKind_STRING = ValueKind_ANY = 0

    def __init__(self, name, ids):
        self.ids, self._name = ids, name

    name = lambda self: self._name
    kind = lambda self: 1 if self.ids is None else self.ValueKind_UINT64
    num_instances = lambda self: len(self.ids)
    has_correlation_ids = lambda self: True
    correlation_ids = lambda self: self
    has_value = lambda self: True
    unit = lambda self: ""
    as_uint64 = lambda self, i=None: 7 if i is None else self.ids[i]
    as_double = as_uint64
    as_string = lambda self: ""

class Action:
    NameBase_FUNCTION = NameBase_DEMANGLED = 0
    held = {"inst_executed": [0, 16, 32], "launch__block_size": [0],
            "launch__occupancy_per_shared_mem_size": [0, 16, 32]}
    name = lambda self, base: "k"
    metric_names = lambda self: list(self.held)
    metric_by_name = lambda self, name: Ids(name, self.held[name])
    sass_by_pc = lambda self, pc: "EXIT" if pc in (0, 16, 32) else ""
    ptx_by_pc = lambda self, pc: ""
    source_info = lambda self, pc: None
    sections = lambda self: []
    rule_results_as_dicts = lambda self: []

class Context:
    num_ranges = num_actions = lambda self: 1
    range_by_idx = lambda self, i: self
    action_by_idx = lambda self, i: Action()

def load_report(path):
    Ids.ValueKind_STRING = Ids.ValueKind_ANY = 9
    return Context()
"""


def test_parts_of_a_launch_are_no_addresses_even_where_code_begins_at_zero(tmp_path: Path) -> None:
    (tmp_path / "ncu_report.py").write_text(CODE_AT_ZERO)
    (launch,) = read_report(REPORTS / "slow.ncu-rep", tmp_path)
    parts = {name: set(metric.by_pc) for name, metric in launch.metrics.items()}
    assert parts == {
        "inst_executed": {0, 16, 32},
        "launch__block_size": set(),
        "launch__occupancy_per_shared_mem_size": set(),
    }


def test_the_same_content_is_read_once_wherever_it_lies(tmp_path: Path) -> None:
    module = tmp_path / "ncu_report.py"
    module.write_text(CODE_AT_ZERO)
    first = read_report(REPORTS / "slow.ncu-rep", tmp_path)
    module.unlink()
    again = tmp_path / "again.ncu-rep"
    again.write_bytes((REPORTS / "slow.ncu-rep").read_bytes())
    assert read_report(again, tmp_path) == first
    with again.open("ab") as file:
        file.write(b" ")
    with pytest.raises(ProtocolError, match=r"^again\.ncu-rep cannot be read: ModuleNotFoundError"):
        read_report(again, tmp_path)


def test_a_report_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "x.ncu-rep"
    report.write_bytes((REPORTS / "slow.ncu-rep").read_bytes())
    changes = CODE_AT_ZERO.replace("(path):", '(path):\n    open(path, "ab").write(b" ")')
    (tmp_path / "ncu_report.py").write_text(changes)
    with pytest.raises(ProtocolError, match=r"^x\.ncu-rep was changed while it was read"):
        read_report(report, tmp_path)


def test_ncus_own_advice_has_its_estimate_and_no_marks(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    by_rule = {a.rule: a for a in launch.advice if a.kind == "optimization"}
    shared = by_rule["UncoalescedSharedAccess"]
    assert shared.speedup_percent is not None
    assert 80 < shared.speedup_percent < 100
    assert shared.scope == "global"
    assert "excessive wavefronts" in shared.text
    assert not [a for a in launch.advice if "@" in a.text]
    assert all(isinstance(a, Advice) for a in launch.advice)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("see @section:LaunchStats:Launch Statistics@ for", "see Launch Statistics for"),
        ("their @url:fused:https://a.b/c#d@, higher", "their fused, higher"),
        ("no mark, a@b and x:y", "no mark, a@b and x:y"),
    ],
)
def test_a_mark_of_ncus_window_is_its_words(marked: str, plain: str) -> None:
    assert plain_text(marked) == plain


def test_a_report_of_several_launches_has_all_in_their_order(ncu_report: Path) -> None:
    launches = read_report(REPORTS / "launches.ncu-rep", ncu_report)
    assert [launch.kernel for launch in launches] == ["good_copy", "slow_transpose"] * 3
    assert {launch.instructions for launch in launches} == {()}
    counts = [launch.values()["smsp__inst_executed.sum"] for launch in launches]
    assert counts == counts[:2] * 3
    merged = merge_values(launches[:2])
    assert merged["smsp__inst_executed.sum"] == sum(counts[:2]) / 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "x.ncu-rep is empty"),
        (b"root:x:0:0\n", "x.ncu-rep is no report of ncu"),
        (b"NVR\0", "x.ncu-rep holds no launch"),
        (b"NVR\0" + bytes(range(256)) * 64, "x.ncu-rep holds no launch"),
    ],
)
def test_what_is_no_report_is_one_sentence(
    tmp_path: Path, ncu_report: Path, data: bytes, said: str
) -> None:
    (tmp_path / "x.ncu-rep").write_bytes(data)
    with pytest.raises(ProtocolError) as caught:
        read_report(tmp_path / "x.ncu-rep", ncu_report)
    assert caught.value.message == said


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.9])
def test_a_report_that_is_cut_short_is_refused(
    tmp_path: Path, ncu_report: Path, part: float
) -> None:
    data = (REPORTS / "slow.ncu-rep").read_bytes()
    (tmp_path / "x.ncu-rep").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ProtocolError, match=r"^x\.ncu-rep (holds|cannot)"):
        read_report(tmp_path / "x.ncu-rep", ncu_report)


def test_a_report_that_is_not_there_is_one_sentence(tmp_path: Path, ncu_report: Path) -> None:
    with pytest.raises(ProtocolError, match=r"^x\.ncu-rep cannot be read: No such file or direct"):
        read_report(tmp_path / "x.ncu-rep", ncu_report)


def library(folder: Path, text: str) -> Path:
    """Return a library whose loading does what a report that attacks the real one could do."""
    (folder / "ncu_report.py").write_text(
        f"import os, signal, sys, time\ndef load_report(p):\n{text}"
    )
    return folder


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("    os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11: the file is damaged"),
        ("    bytearray(8 << 30)", "MemoryError"),
        ("    open('big', 'wb').truncate(1 << 40)", "File too large"),
        ("    raise RuntimeError('no such protobuf')", "RuntimeError: no such protobuf"),
        ("    os._exit(0)", "its contents are garbled"),
        ("    sys.exit('a\\x1b[2Jb')", "a\x1b[2Jb"),
    ],
)
def test_a_library_that_dies_is_an_unreadable_report(tmp_path: Path, does: str, said: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_report(REPORTS / "launches.ncu-rep", library(tmp_path, does))
    assert caught.value.message.startswith("launches.ncu-rep cannot be read: ")
    assert said in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


def test_a_library_that_does_not_end_is_ended(tmp_path: Path) -> None:
    stuck = library(tmp_path, "    time.sleep(600)")
    with pytest.raises(ProtocolError, match=r"^launches\.ncu-rep was not read within 1 s"):
        read_report(REPORTS / "launches.ncu-rep", stuck, limit_s=1.0)


def test_the_library_sees_no_variable_of_ours(tmp_path: Path) -> None:
    assert os.environ
    seen = library(tmp_path, "    sys.exit(str(sorted(set(os.environ) - {'LC_CTYPE'})))")
    with pytest.raises(ProtocolError, match=r"cannot be read: \[\]$"):
        read_report(REPORTS / "launches.ncu-rep", seen)


def test_a_report_larger_than_any_is_not_read(
    tmp_path: Path, ncu_report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_report, "MOST_BYTES", 1000)
    with pytest.raises(ProtocolError, match=r"^launches\.ncu-rep has \d+ bytes; at most 1000 are"):
        read_report(REPORTS / "launches.ncu-rep", ncu_report)
