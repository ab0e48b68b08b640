"""Sanitizer stages: compute-sanitizer's command lines (reader.py judges what it reports)."""

from __future__ import annotations

import hashlib

from kernelrig.model import Command, Host, Pattern, RecordedRemote, Stage, Tool
from kernelrig.stages.checksum.command import watchdog_s
from kernelrig.stages.context import Setup, problem_words
from kernelrig.stages.plain.invocation import program_env, program_words

TOOL = "compute-sanitizer"
ERROR_EXIT = 86
"""Distinct from every exit code of our programs: only the tool returns it."""
PRINT_LIMIT = 2000
SELFTEST_S = 120.0
PATTERN = Pattern.INTEGER
"""Whole numbers: what the kernel wrote under the tool is recomputed here, bit for bit."""

WANTED_OPTIONS: tuple[tuple[str, str, str], ...] = (
    # tool ("" = all), option, value: switched on where the host's --help lists it. Not racecheck's
    # watch for deadlocks: on an H200 (2025.3.1) it added 20 s to a run of 1.2 s, and of 2 s made a
    # right kernel hang whose warps take turns. The checksum stages find hangs, and name the line.
    ("", "--check-bulk-copy", "yes"),
    ("", "--check-tensor-ops", "yes"),  # since 2026.4, off by default
    ("", "--check-warpgroup-mma", "yes"),
    ("racecheck", "--racecheck-fence-proxy-async", "yes"),
    ("racecheck", "--racecheck-memcpy-async", "yes"),
    ("initcheck", "--initcheck-address-space", "all"),
)

SHIPPED_SANITIZER = Tool(
    path="../../tools/bin/compute-sanitizer",
    version="2026.4.0.0",
    options=tuple(option for _, option, _ in WANTED_OPTIONS),
)
"""The pinned wheel's tool, unpacked to tools/ on the host; a test reads its --help."""


def sanitizer_tool(host: Host | None, remote: RecordedRemote) -> Tool:
    """Return the tool that will run; on a host not probed yet, the bare name without options."""
    if remote.tools == "ship":
        return SHIPPED_SANITIZER
    return (host.tools.get(TOOL) if host else None) or Tool(TOOL, "not probed")


def tool_argv(tool: Tool, name: str) -> tuple[str, ...]:
    """Return the tool's part of the command line, with every wanted option that the tool lists."""
    listed = {option.lstrip("-") for option in tool.options}
    wanted = [
        word
        for only, option, value in WANTED_OPTIONS
        if only in ("", name) and option.lstrip("-") in listed
        for word in (option, value)
    ]
    return (
        *(tool.path, "--tool", name, "--error-exitcode", str(ERROR_EXIT)),
        *("--require-cuda-init", "yes", "--print-limit", str(PRINT_LIMIT)),
        *wanted,
    )


def sanitizer_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the self-test of the tool, cached on the host, and then the tool over the program.

    `--mode once` launches the kernel and no other, on inputs filled by the host: the reference
    kernel of `--mode check` would be checked too, and cost its time.
    """
    tool = sanitizer_tool(setup.host, setup.remote)
    argv = tool_argv(tool, stage.tool)
    return (
        *_selftest_commands(stage, setup, tool, argv),
        Command(
            stage.tool,
            (*argv, *_file_options(stage.tool), *_program_argv(stage, setup)),
            stage.time_s,
            env=program_env(setup.kernel, stage.case),
        ),
    )


LOG_FILE, SESSION = "--log-file", "--print-session-details"
"""Without SESSION the tool saves no session in its XML either, whatever --save-session-details."""


def _file_options(tool: str) -> tuple[str, ...]:
    """Return where the tool writes: what the program prints is no word of the tool's."""
    return (LOG_FILE, f"{tool}.log", "--xml", "--save", f"{tool}.xml", SESSION)


def _program_argv(stage: Stage, setup: Setup) -> tuple[str, ...]:
    if setup.kernel.level == 0:
        return (setup.program, *program_words(setup.kernel, stage.case))
    return (
        *(setup.program, "--mode", "once", "--samples", "1"),
        *problem_words(setup, stage),
        *("--pattern", PATTERN.value, "--seed", str(setup.seed(stage.seeds[0]))),
        *("--watchdog", watchdog_s(stage), "--result", f"{stage.tool}.json"),
    )


def _selftest_commands(
    stage: Stage, setup: Setup, tool: Tool, argv: tuple[str, ...]
) -> tuple[Command, ...]:
    """Return the self-test; its result is cached by tool, options, program, driver and GPU."""
    if setup.selftest is None:
        return ()
    command = (*argv, f"../../build/{setup.selftest.program}", stage.tool)
    gpu = setup.host.gpu.get("uuid", "") if setup.host else ""
    driver = setup.host.driver if setup.host else ""
    basis = [*command, tool.version, setup.selftest.key, driver, gpu]
    key = hashlib.sha256("\0".join(basis).encode()).hexdigest()[:24]
    return (
        Command(
            selftest_name(stage),
            command,
            SELFTEST_S,
            ok_exit=(ERROR_EXIT,),
            cache_key=f"selftest-{stage.tool}-{key}",
        ),
    )


def selftest_name(stage: Stage) -> str:
    return f"{stage.tool}-selftest"
