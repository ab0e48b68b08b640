"""Command lines of a playbook: each wrong word is named with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.config.ncu_catalogue import CHIPS, load_catalogue
from kernelrig.config.ncu_command_line import wrong_words
from kernelrig.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("chip", CHIPS.values())
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ncu --set source -k gemm -o s ./x", ["no set 'source'; use --section SourceCounters"]),
        ("ncu --set source --source-level all ./x", ["no set 'source'", "no option --source-lev"]),
        ("ncu --section WarpStateStatistics ./x", ["did you mean WarpStateStats"]),
        ("cuobjdump --dump-cubin x > k.cubin", ["no option --dump-cubin; use cuobjdump -xelf all"]),
        ("nvdisasm -playout k.cubin", ["no option -playout; use nvdisasm -poff for offsets"]),
        ("ncu --page raw --csv b.ncu-rep > b.csv", ["'b.ncu-rep' is a report, not a program; use"]),
        ("/opt/bin/ncu --metrics smsp__sass_warp_efficiency.avg ./x", ["pred_on.sum"]),
        ("ncu --replay-mode=rang ./x", ["--replay-mode takes app-range, application, kernel, ran"]),
        ("ncu --metrics sm__cycles_active.avg,\\\nipc ./x", ["use smsp__inst_executed.avg"]),
        ("ncu --metrics a__b.sum,\\\n    ipc ./x", ["before 'ipc' in", "'a__b'", "use smsp_"]),
    ],
)
def test_a_wrong_word_is_named_with_the_right_one(line: str, said: list[str], chip: str) -> None:
    found = wrong_words(line, load_catalogue(ROOT, chip))
    assert len(found) == len(said)
    for wrong, part in zip(found, said, strict=True):
        assert part in wrong


@pytest.mark.parametrize(
    "line",
    [
        "ncu --section SourceCounters --section WarpStateStats --import-source yes -k g -o s ./x",
        "ncu --import s.ncu-rep --page source --csv",
        "ncu --set detailed -f -o r ./x --set source --source-level all",
        "ncu --metrics group:smsp__pcsamp_warp_stall_reasons,sm__cycles_active.avg ./x",
        "cuobjdump -xelf all x",
        "nvdisasm -bbcfg k.cubin  # the graph",
    ],
)
def test_a_right_line_and_the_programs_own_words_are_left_alone(line: str) -> None:
    assert wrong_words(line, load_catalogue(ROOT, "gh100")) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nsys profile ./x", "'nsys' is none of the tools known here: ncu, cuobjdump, nvdisasm"),
        ("", "'' is none of the tools known here"),
        ("ncu 'x", "'ncu 'x' is no command line: No closing quotation"),
    ],
)
def test_what_is_no_line_of_these_tools_is_refused(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong_words(line, load_catalogue(ROOT, "gh100"))
    assert str(caught.value).startswith(said)
