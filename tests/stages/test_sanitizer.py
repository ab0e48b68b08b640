from __future__ import annotations

import re
from dataclasses import replace

import pytest
from kernelrig.model import Stage, StageKind, Tool
from kernelrig.stages import Context
from kernelrig.stages.sanitizer.command import (
    SHIPPED_SANITIZER,
    WANTED_OPTIONS,
    sanitizer_tool,
    tool_argv,
)

from tests.stages import bench

HELP = bench.DATA / "sanitizer"


def stage(tool: str) -> Stage:
    return Stage(tool, StageKind.SANITIZER, case="sanitizer", tool=tool, time_s=300.0)  # type: ignore[arg-type]


def options_of(version: str) -> tuple[str, ...]:
    text = (HELP / f"{version}-help.txt").read_text()
    return tuple(sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))))


def test_the_self_test_comes_first_and_then_the_kernel() -> None:
    selftest, run = bench.job(stage("memcheck"), bench.context()).commands
    assert selftest.argv == (
        *("/usr/local/cuda/bin/compute-sanitizer", "--tool", "memcheck"),
        *("--error-exitcode", "86", "--require-cuda-init", "yes", "--print-limit", "2000"),
        *("--check-bulk-copy", "yes", "--check-warpgroup-mma", "yes"),
        *("../../build/sanitizer_selftest", "memcheck"),
    )
    assert selftest.ok_exit == (86,)
    assert run.argv == (
        *selftest.argv[:-2],
        *("--log-file", "memcheck.log", "--xml", "--save", "memcheck.xml"),
        "--print-session-details",
        "../../build/siglip_vision",
        *("--mode", "once", "--samples", "1", "--case", "images=7,ctas=4"),
        *("--pattern", "integer", "--seed", "0", "--watchdog", "330"),
        *("--result", "memcheck.json"),
    )
    assert run.ok_exit == (0,)
    assert not run.cache_key


@pytest.mark.parametrize(
    ("version", "tool", "wished"),
    [
        ("2025.3.1", "racecheck", "--racecheck-memcpy-async yes"),
        ("2026.4.0", "racecheck", "--racecheck-fence-proxy-async yes"),
        ("2026.4.0", "initcheck", "--initcheck-address-space all"),
        ("2026.4.0", "memcheck", "--check-tensor-ops yes"),
    ],
)
def test_options_that_the_help_lists_are_switched_on(version: str, tool: str, wished: str) -> None:
    argv = tool_argv(Tool("compute-sanitizer", version, options_of(version)), tool)
    assert wished in " ".join(argv)


def test_racecheck_does_not_watch_for_deadlocks_which_the_bare_run_finds() -> None:
    listed = options_of("2025.3.1")
    assert "--racecheck-deadlock-timeout" in listed
    argv = tool_argv(Tool("compute-sanitizer", "2025.3.1.0", listed), "racecheck")
    assert "--racecheck-deadlock-timeout" not in argv


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_options_that_the_help_does_not_list_are_left_out(tool: str) -> None:
    listed = options_of("2025.3.1")
    argv = tool_argv(Tool("compute-sanitizer", "2025.3.1.0", listed), tool)
    assert [w for w in argv if w.startswith("--") and w not in listed] == []
    assert "--check-tensor-ops" not in argv


def test_one_tools_options_are_not_given_to_another() -> None:
    argv = tool_argv(Tool("compute-sanitizer", "2026.4.0.0", options_of("2026.4.0")), "memcheck")
    assert [w for w in argv if w.startswith(("--racecheck", "--initcheck"))] == []


def test_the_shipped_tool_has_every_option_we_wish_for() -> None:
    listed = options_of("2026.4.0")
    assert [option for _, option, _ in WANTED_OPTIONS if option not in listed] == []
    assert set(SHIPPED_SANITIZER.options) <= set(listed)


def test_a_remote_that_wants_the_tool_shipped_runs_the_shipped_one() -> None:
    shipping = replace(bench.H200, tools="ship")
    assert sanitizer_tool(bench.HOST, shipping).path == "../../tools/bin/compute-sanitizer"
    ctx = bench.context(remote=shipping)
    run = bench.job(stage("racecheck"), ctx).commands[1]
    assert run.argv[0] == "../../tools/bin/compute-sanitizer"
    assert "--racecheck-fence-proxy-async" in run.argv


def test_without_a_probe_the_plan_can_still_be_shown() -> None:
    assert sanitizer_tool(None, bench.H200) == Tool("compute-sanitizer", "not probed")


def test_the_cached_self_test_depends_on_tool_host_and_build() -> None:
    def key(ctx: Context, name: str = "memcheck") -> str:
        return bench.job(stage(name), ctx).commands[0].cache_key

    base = bench.context()
    newer = replace(bench.HOST.tools["compute-sanitizer"], version="2026.4.0.0")
    others = [
        replace(bench.HOST, driver="570.1"),
        replace(bench.HOST, gpus=({"name": "NVIDIA H200", "uuid": "GPU-2"},)),
        replace(bench.HOST, tools={"compute-sanitizer": newer}),
    ]
    keys = {key(base), key(base, "racecheck"), *(key(bench.context(host=b)) for b in others)}
    assert len(keys) == 5
    assert key(base) == key(bench.context())
