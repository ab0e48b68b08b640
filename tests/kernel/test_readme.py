"""kernel/README.md names every file, option, mode, exit code and variant that there is."""

from __future__ import annotations

import json
import re
from itertools import chain

import pytest
from kernelrig import config
from kernelrig.findings.location import HARNESS

from tests.kernel.bad_kernels import REPOSITORY, read_head
from tests.kernel.host_program import KERNEL

README = (KERNEL / "README.md").read_text()
SOFTMAX = (KERNEL / "examples/softmax.py").read_text()
YAML = (KERNEL / "kernels.yaml").read_text()
OPTIONS = (KERNEL / "options.cuh").read_text()


def test_every_option_is_named_and_no_other() -> None:
    (known,) = re.findall(r"known = \{(.*?)\}", OPTIONS, re.DOTALL)
    usage = README.partition("## What a harness program does")[2].partition("| `--mode` |")[0]
    assert set(re.findall(r"--[a-z][a-z-]*", usage)) == set(re.findall(r"--[a-z][a-z-]*", known))


def test_the_example_is_as_the_page_shows_it() -> None:
    source = (KERNEL / "examples/softmax.cu").read_text()
    for language, text in (("cpp", source), ("python", SOFTMAX), ("yaml", YAML)):
        shown = next(
            b
            for b in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
            if "softmax" in b.lower() or "x.max" in b
        )
        lines = [line.partition(" #")[0].partition(" //")[0].strip() for line in shown.split("\n")]
        assert [line for line in lines if line not in text] == []


def test_every_mode_pattern_and_exit_code_is_named() -> None:
    (modes,) = re.findall(r"names\[\] = \{(.*?)\}", OPTIONS)
    rows = set(re.findall(r"^\| `?([^|`]+)`? \|", README, re.MULTILINE))
    assert set(re.findall(r'"(\w+)"', modes)) - {"none"} <= rows
    patterns = re.findall(r'return "(\w+)"', (KERNEL / "inputs.cuh").read_text())
    assert set(patterns) == {"constant", "integer", "random"} <= rows
    codes = re.findall(r"EXIT_\w+ = (\d+)", (KERNEL / "failure.cuh").read_text())
    assert len(codes) == 6
    assert set(codes) <= rows


def test_every_kernel_source_and_variant_is_named() -> None:
    kernels = config.load_kernels(REPOSITORY)
    sources = set(chain(*(k.sources.values() for k in kernels.values())))
    examples = {f"examples/{p.name}" for p in (KERNEL / "examples").glob("*.cu")}
    own_sources = {p.name for p in KERNEL.glob("*.cu")}
    assert sources == own_sources | examples
    assert set(re.findall(r"`(\w+\.cu)`", README)) == own_sources
    assert set(re.findall(r"`(\w+\.cuh)`", README)) <= HARNESS
    own = kernels["patch_embed"]
    assert {v for v in own.variants if f"`{v}`" not in README} == set()
    assert {
        r for rules in own.sass.values() for r in rules.roles if f"`{r}`" not in README
    } == set()


@pytest.mark.parametrize(
    "fault", ["sm100a/missing-proxy-fence", "sm90a/missing-proxy-fence"], ids=str
)
def test_the_head_of_a_patch_has_the_keys_that_are_named(fault: str) -> None:
    assert {key for key in read_head(fault) if f"\n{key}: " not in README} == set()


def test_named_files_of_the_repository_exist() -> None:
    named = re.findall(r"`((?:ci|tests|kernel)/[\w/.-]+)`", README)
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_notes_name_the_registers_of_the_accepted_builds() -> None:
    notes = (KERNEL / "NOTES.md").read_text()
    (sm_100a, sm_90a) = re.findall(
        r"defaults (\d+)\s+registers per thread for sm_100a production and (\d+) for sm_90a", notes
    )[0]
    builds = json.loads((KERNEL / "accepted.json").read_text())["builds"]
    usages = [builds[f"patch_embed-{arch}-production"]["usage"] for arch in ("sm_100a", "sm_90a")]
    assert [usage["registers"] for usage in usages] == [int(sm_100a), int(sm_90a)]
    assert [usage["spill_bytes"] for usage in usages] == [0, 0]
