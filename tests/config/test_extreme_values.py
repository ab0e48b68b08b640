"""Values that no path, process or number of a machine can take are refused with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ConfigError

from tests.cpu_project import make_cpu_project

FILES = {
    "kernel": "kernel/kernels.yaml",
    "remote": "remotes.local.yaml",
    "plan": "ci/plans/p.yaml",
}
HEADS = {
    "kernel": "  x: {level: 0, cuda: false, sources: {sm_90a: cpu_program.cpp}, ",
    "remote": "schema: 1\nremotes:\n  h: {arch: sm_90a, ",
    "plan": "schema: 1\nstages:\n  - {name: p, kind: checksum, ",
}
REVIEWED = dict.fromkeys(("tool", "fingerprint", "tool_version", "reason"), "x") | {
    "expires": "2027-03-31"
}
_LOADERS: dict[str, Callable[[Path], object]] = {
    "kernel": config.load_kernels,
    "remote": config.load_remotes,
    "plan": lambda root: config.load_plan(root, "p"),
}


@pytest.mark.parametrize(
    ("kind", "entry", "said"),
    [
        ("kernel", 'args: ["a\\0b"], ', r"'\x00' is a control character"),
        ("kernel", 'label: "\\e[31m", ', r"'\x1b' is a control character"),
        ("remote", "host: h, port: 99999999", "'port' must be 1 to 65535, not 99999999"),
        ("remote", "host: h, give_up_s: 1e99", "'give_up_s' must be at most 1000000000, not 1e+99"),
        ("remote", "host: h, boot_s: 1e308", "'boot_s' must be from 0 to 1000000000, not 1e+308"),
        ("remote", 'host: "a\\nb"', "'host' must be one line of printable characters"),
        ("remote", 'host: h, python: "a\\0b"', r"'\x00' is a control character"),
        ("plan", "time_s: 1e308", "'time_s' must be at most 1000000000, not 1e+308"),
        ("plan", "warmup_s: 1e308", "'warmup_s' must be from 0 to 1000000000, not 1e+308"),
        ("plan", "samples: 100001", "'samples' must be at most 100000, not 100001"),
        (
            "plan",
            f"patterns: [constant, integer, random], seeds: {list(range(34))}",
            "'p' has 102 commands, one for each pattern and seed; at most 100",
        ),
        (
            "kernel",
            "shape: {rows_per_image: 1, n: 1, k: 4611686018427387904}, ",
            "'k' must be from 1 to 16777216, not 4611686018427387904",
        ),
        ("kernel", f"args: {['a'] * 201}, ", "'args' has 201 entries, at most 200"),
        ("kernel", f"accepted: {[REVIEWED] * 2001}, ", "'accepted' has 2001 entries, at most 2000"),
        (
            "kernel",
            f"cases: {{{', '.join(f'c{i}: {{images: 1}}' for i in range(201))}}}, ",
            "'cases' has 201 entries, at most 200",
        ),
        ("remote", f"host: h, env: {dict.fromkeys(map('A{}'.format, range(201)), 'b')}",
         "'env' has 201 entries, at most 200"),
        ("plan", f"seeds: [1{'0' * 30}]", "10000000000000000000... does not fit 64 bits"),
    ],
)  # fmt: skip
def test_a_value_beyond_what_a_machine_takes_is_one_mistake(
    tmp_path: Path, kind: str, entry: str, said: str
) -> None:
    root = make_cpu_project(tmp_path / "p")
    path = root / FILES[kind]
    before = path.read_text() if path.exists() else ""
    after = "variants: {production: {program: p}}" if kind == "kernel" else ""
    path.write_text(f"{before}{HEADS[kind]}{entry}{after}}}\n")
    with pytest.raises(ConfigError) as error:
        _LOADERS[kind](root)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{FILES[kind]}:")
    assert said in line


def test_a_plan_of_20000_stages_is_refused_at_once(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "p")
    entry = "  - {name: s%d, kind: checksum}\n"
    text = "schema: 1\nstages:\n" + "".join(entry % i for i in range(20_000))
    (root / FILES["plan"]).write_text(text)
    with pytest.raises(ConfigError) as error:
        config.load_plan(root, "p")
    assert error.value.exit_code == 2
    assert str(error.value) == "ci/plans/p.yaml:2: 'stages' has 20000 entries, at most 200"


@pytest.mark.parametrize("kind", FILES)
def test_a_file_has_a_size(tmp_path: Path, kind: str) -> None:
    root = make_cpu_project(tmp_path / "p")
    (root / FILES[kind]).write_text("schema: 1\n" + "#" * (1 << 20))
    with pytest.raises(ConfigError) as error:
        _LOADERS[kind](root)
    assert str(error.value) == f"cannot read {FILES[kind]}: it has more than 1048576 bytes"
