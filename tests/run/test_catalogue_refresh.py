"""A host's ncu is asked for its listings, and the catalogues are written into the project."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from kernelrig.config.ncu_catalogue import OWN, load_catalogue
from kernelrig.config.ncu_listing import COLLECTIONS, LISTINGS
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.run.catalogue_refresh import find_metrics, refresh_catalogues, wrong_words

SAID = Path(__file__).parents[1] / "data/ncu/2025.3.1-listings"
NCU = """\
#!/bin/sh
# answers as ncu 2025.3.1 did on an H200
case "$*" in
{answers}
  *) echo "==ERROR== unrecognised option '$1'"; exit 1 ;;
esac
"""


def project(root: Path, **without: str) -> Path:
    """Return a project with an embedded host, on whose PATH an ncu gives the captured answers."""
    answers = {shlex.join(argv): SAID / f"{name}.txt" for name, argv in LISTINGS.items()}
    for name in COLLECTIONS:
        answers[f"--query-metrics --query-metrics-collection {name} --chips gh100"] = (
            SAID / f"gh100-{name}.txt"
        )
    lines = "\n".join(
        f'  "{words}") cat {shlex.quote(str(path))} ;;'
        for words, path in answers.items()
        if path.stem not in without
    )
    tools = root / "tools"
    tools.mkdir(parents=True)
    (tools / "ncu").write_text(NCU.format(answers=lines))
    (tools / "ncu").chmod(0o755)
    (root / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n"
        f"  here: {{arch: sm_90a, kind: embedded, workdir: '{root}/host',"
        f" env: {{PATH: '{tools}:/usr/bin:/bin'}}}}\n"
    )
    return root


def test_the_catalogue_of_a_hosts_ncu_is_written_and_used(tmp_path: Path) -> None:
    root = project(tmp_path)
    said = refresh_catalogues(root, "here", "gh100")
    assert said.startswith(f"{OWN}/ncu-2025.3.1-gh100.txt.gz: gh100: ")
    assert [p.name for p in (root / OWN).iterdir()] == ["ncu-2025.3.1-gh100.txt.gz"]
    assert len(load_catalogue(root, "gh100").metrics) < 100  # the captured listings are cut short
    assert find_metrics(root, ["block", "size"], "gh100") == "launch__block_size  attribute"


def test_an_ncu_that_does_not_list_its_metrics_writes_nothing(tmp_path: Path) -> None:
    root = project(tmp_path, **{"gh100-launch": "gone"})
    with pytest.raises(ProtocolError, match="could not list its gh100-launch: 1"):
        refresh_catalogues(root, "here", "gh100")
    assert not (root / OWN).exists()


def test_an_unknown_chip_is_refused_before_any_connection(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown chip 'tu102'; known: gb100, gh100"):
        refresh_catalogues(project(tmp_path), "here", "tu102")


def test_a_line_is_judged_on_every_chip_if_none_is_named(tmp_path: Path) -> None:
    line = "ncu --metrics sm__mem_tensor_reads_op_ldt.sum ./x"
    assert wrong_words(tmp_path, line, "gb100") == ()
    (wrong,) = wrong_words(tmp_path, line, "")
    assert wrong.startswith("gh100 has no metric 'sm__mem_tensor_reads_op_ldt'")
