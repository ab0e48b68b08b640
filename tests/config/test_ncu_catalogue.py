"""What ncu knows of a chip, from its own listings; and what is nearest to a wrong name."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.config.ncu_catalogue import (
    CHIPS,
    OWN,
    PACKAGED,
    SUFFIXES,
    Catalogue,
    catalogue_name,
    chip_of,
    load_catalogue,
    render_catalogue,
)
from kernelrig.config.ncu_listing import COLLECTIONS, LISTINGS, query_options, read_catalogue
from kernelrig.config.ncu_replacements import METRICS
from kernelrig.errors import ConfigError, ProtocolError

ROOT = Path(__file__).parents[2]
SAID = ROOT / "tests/data/ncu/2025.3.1-listings"


def listings() -> tuple[dict[str, str], dict[str, str]]:
    return (
        {name: (SAID / f"{name}.txt").read_text() for name in LISTINGS},
        {name: (SAID / f"gh100-{name}.txt").read_text() for name in COLLECTIONS},
    )


def test_a_catalogue_is_read_from_what_ncu_lists() -> None:
    read = read_catalogue("gh100", *listings())
    assert (read.ncu, read.chip) == ("2025.3.1", "gh100")
    assert {
        "sm__cycles_active": "counter",
        "dram__throughput": "throughput",
        "smsp__average_warp_latency_per_inst_issued": "ratio",
        "launch__block_size": "attribute",
        "inst_executed": "attribute",
    }.items() <= read.metrics.items()
    assert not [name for name in read.metrics if "Triage" in name or name == "Metric"]
    assert read.sets == {"basic", "detailed", "full", "nvlink", "pmsampling", "roofline"}
    assert len(read.sections) == 24
    assert {"SourceCounters", "WarpStateStats", "PmSampling_WarpStates"} < read.sections
    assert read.options["--cache-control"] == ("all", "none")
    assert read.options["--replay-mode"] == ("app-range", "application", "kernel", "range")
    assert read.options["--import-source"] == ("no", "off", "on", "yes")
    assert read.options["--kernel-name"] == read.options["--metrics"] == ()
    assert "--source-level" not in read.options


def test_the_packaged_catalogue_is_of_the_same_ncu() -> None:
    read, packaged = read_catalogue("gh100", *listings()), load_catalogue(ROOT, "gh100")
    assert (read.ncu, read.sets, read.sections) == (packaged.ncu, packaged.sets, packaged.sections)
    assert read.options == packaged.options
    assert read.metrics.items() <= packaged.metrics.items()


@pytest.mark.parametrize("chip", CHIPS.values())
def test_a_packaged_catalogue_is_small_and_written_as_it_is_rendered(chip: str) -> None:
    catalogue = load_catalogue(ROOT, chip)
    path = PACKAGED / catalogue_name(catalogue)
    assert path.read_bytes() == render_catalogue(catalogue)
    assert path.stat().st_size < 20_000
    assert len(catalogue.metrics) > 3500


@pytest.mark.parametrize("name", ["version", "help", "sections", "sets", *COLLECTIONS])
def test_an_empty_listing_makes_no_catalogue(name: str) -> None:
    said, metrics = listings()
    (said if name in said else metrics)[name] = "==ERROR== no\n"
    with pytest.raises(ProtocolError, match=r"^ncu "):
        read_catalogue("gh100", said, metrics)


def test_a_listing_of_another_chip_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"^ncu lists no profiling metrics of chip gb100: "):
        read_catalogue("gb100", *listings())


def test_the_query_needs_neither_the_chip_nor_a_gpu() -> None:
    wanted = ("--query-metrics", "--query-metrics-collection", "launch", "--chips", "gb100")
    assert query_options("launch", "gb100") == wanted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sm__cycles_active.avg", ""),
        ("sm__cycles_active.avg.per_second", ""),
        ("smsp__average_warp_latency_per_inst_issued.ratio", ""),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", ""),
        ("launch__registers_per_thread", ""),
        ("launch__registers_per_thread.sum", "'launch__registers_per_thread' takes no suffix, and"),
        ("sm__cycles_active", "'sm__cycles_active' has no suffix, which no counter has; "),
        (
            "sm__cycles_active.ratio",
            "'sm__cycles_active.ratio' has the suffix '.ratio', which no c",
        ),
        ("dram__throughput.avg", "'dram__throughput.avg' has the suffix '.avg', which no throughp"),
        ("sm__cycles_actve.avg", "gh100 has no metric 'sm__cycles_actve' (ncu 2025.3.1); did you "),
        ("ipc", "gh100 has no metric 'ipc' (ncu 2025.3.1); use smsp__inst_executed.avg.per_cycle_"),
        ("zzz", "gh100 has no metric 'zzz' (ncu 2025.3.1); `invoke ncu-catalogue --find WORDS --c"),
        ("sm__inst_executed_pipe_tmem.sum", "gh100 has no metric 'sm__inst_executed_pipe_tmem' ("),
    ],
)
def test_a_metric_is_right_or_refused_with_the_nearest(name: str, said: str) -> None:
    wrong = load_catalogue(ROOT, "gh100").wrong_metric(name)
    assert wrong.startswith(said)
    assert bool(wrong) == bool(said)


def test_a_mistyped_metric_names_the_one_that_was_meant() -> None:
    wrong = load_catalogue(ROOT, "gb100").wrong_metric("smsp__inst_excuted_op_global_ld.sum")
    assert "smsp__inst_executed_op_global_ld" in wrong


@pytest.mark.parametrize("chip", CHIPS.values())
@pytest.mark.parametrize("advice", METRICS.values(), ids=METRICS)
def test_what_is_advised_in_place_of_a_wrong_metric_exists(advice: str, chip: str) -> None:
    catalogue = load_catalogue(ROOT, chip)
    words = [word.strip("(),:*") for word in advice.split() if "__" in word]
    assert words
    for word in words:
        base = word.partition(".")[0]
        if "*" in base:
            start, _, end = base.partition("*")
            assert [m for m in catalogue.metrics if m.startswith(start) and m.endswith(end)]
        elif word.partition(".")[2]:
            assert catalogue.wrong_metric(word) == ""
        else:
            assert any(m.startswith(base) for m in catalogue.metrics)


@pytest.mark.parametrize("name", METRICS)
def test_what_is_replaced_does_not_exist(name: str) -> None:
    for chip in CHIPS.values():
        assert name not in load_catalogue(ROOT, chip).metrics


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--import-source", "yes", ""),
        ("--range-replay-options", "enable-greedy-sync,disable-host-save", ""),
        ("--import-source", "maybe", "--import-source takes no, off, on, yes, not 'maybe'"),
        ("--set", "source", "ncu 2025.3.1 has no set 'source'; use --section SourceCounters"),
        ("--set", "detailed", ""),
        ("--section", "WarpStateStatistics", "ncu 2025.3.1 has no section 'WarpStateStatistics'; "),
        ("--section", "regex:Speed.*", ""),
        ("--source-level", "all", "ncu 2025.3.1 has no option --source-level; use --section Sou"),
        ("--lanch-skip", "1", "ncu 2025.3.1 has no option --lanch-skip; did you mean '--launch-s"),
    ],
)
def test_an_option_is_right_or_refused_with_the_nearest(option: str, value: str, said: str) -> None:
    wrong = load_catalogue(ROOT, "gh100").wrong_option(option, value)
    assert wrong.startswith(said)
    assert bool(wrong) == bool(said)


def test_metrics_are_found_by_words() -> None:
    found = load_catalogue(ROOT, "gb100").find(["TMEM", "pipe"])
    assert found == (
        "sm__inst_executed_pipe_tmem",
        "smsp__average_inst_executed_pipe_tmem_per_warp",
        "smsp__inst_executed_pipe_tmem",
    )


def put(root: Path, catalogue: Catalogue) -> None:
    (root / OWN).mkdir(parents=True, exist_ok=True)
    (root / OWN / catalogue_name(catalogue)).write_bytes(render_catalogue(catalogue))


def test_a_projects_catalogue_of_the_hosts_version_is_used(tmp_path: Path) -> None:
    packaged = load_catalogue(tmp_path, "gh100")
    for version in ("2026.1.0", "2024.3.2"):
        put(tmp_path, replace(packaged, ncu=version))
    assert load_catalogue(tmp_path, "gh100").ncu == "2026.1.0"
    assert load_catalogue(tmp_path, "gh100", "2024.3.2.0").ncu == "2024.3.2"
    assert load_catalogue(tmp_path, "gh100", "2025.3.1.0").ncu == "2025.3.1"
    assert load_catalogue(tmp_path, "gh100", "2023.1.0").ncu == "2026.1.0"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        gzip.compress(b"ncu 9999.9.9 gb100\n"),
        gzip.compress(b"ncu 9999.9.9 gh100\nwhat sm__x\n"),
        gzip.compress(b"ncu 9999.9.9 gh100\n" + bytes(99))[:-12],
    ],
    ids=["empty", "no gzip", "another chip", "no dot", "cut off"],
)
def test_a_damaged_catalogue_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    (tmp_path / OWN).mkdir(parents=True)
    (tmp_path / OWN / "ncu-9999.9.9-gh100.txt.gz").write_bytes(data)
    with pytest.raises(ConfigError, match=r"ncu-9999\.9\.9-gh100\.txt\.gz") as caught:
        load_catalogue(tmp_path, "gh100")
    assert len(caught.value.message.splitlines()) == 1


def test_a_chip_is_that_of_the_arch() -> None:
    assert [chip_of(arch) for arch in ("sm_90a", "sm_100a")] == ["gh100", "gb100"]
    with pytest.raises(ConfigError, match="no chip is known for arch sm_75; known: sm_90a, sm_1"):
        chip_of("sm_75")
    with pytest.raises(ConfigError, match="there is no ncu catalogue of chip tu102"):
        load_catalogue(ROOT, "tu102")


def test_every_kind_has_suffixes() -> None:
    assert {k for c in CHIPS.values() for k in load_catalogue(ROOT, c).metrics.values()} == {
        *SUFFIXES
    }
