"""What holds for every test, and the plugins whose fixtures several areas share.

The developer's home, keys and the CI runner are not there: no test reads or writes them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests import command_server

pytest_plugins = (
    "tests.remote.sshd_fixture",
    "tests.toolchain_fixture",
    "tests.sass_fixture",  # after the toolchain's, which it imports
    "tests.ptx_fixture",
    "tests.ncu_fixture",  # after the toolchain's, which it imports
    "tests.emu.device_fixture",
)

LONGEST = (
    "tests/kernel/test_bad_megakernels.py",
    "tests/e2e/test_bench.py",  # needs no CUDA, whose wheels the first may still have to fetch
    "tests/e2e/test_emulated.py",
)
"""They start first: whatever is started last decides how long one worker waits for another."""
LIMIT_S, LONG_LIMIT_S = 300.0, 3600.0
"""Seconds that a test may take, and one of those marked `long`: one that hangs is to fail."""
# NumPy's threads wait busily, anew in each process that is forked: half the time of the emulator's.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Thousands of tests stay in memory: with the usual 700 each of them is looked at again and again.
gc.set_threshold(10_000, *gc.get_threshold()[1:])
OUTSIDE = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "SSH_AUTH_SOCK")


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Offer the server of calls to this process and to its workers."""
    with command_server.offered():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let each of several processes compile a share of the test files, which the others then read.

    They would all compile all of them: a fresh checkout has no .pyc files.
    """
    worker: dict[str, object] | None = getattr(session.config, "workerinput", None)
    if worker and [Path(arg).name for arg in session.config.args] == ["tests"]:
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        first, workers = int(str(worker["workerid"])[2:]), int(str(worker["workercount"]))
        for path in files[first::workers]:
            name = ".".join(path.relative_to(session.config.rootpath).with_suffix("").parts)
            with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it says why
                importlib.import_module(name)
    return (yield)


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by file: the longest, then what compiles or drives the command line, then the rest."""

    def rank(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        if file in LONGEST:
            return LONGEST.index(file)
        compiles = "cuda_toolchain" in getattr(item, "fixturenames", ())
        return len(LONGEST) + (not (compiles or file.startswith(("tests/e2e/", "tests/faults/"))))

    of_file: dict[str, int] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        of_file[file] = min(rank(item), of_file.get(file, len(LONGEST) + 1))
    items.sort(key=lambda item: of_file[item.nodeid.partition("::")[0]])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that takes longer than its limit, wherever it waits."""
    own = item.get_closest_marker("limit")
    long = item.get_closest_marker("long") is not None
    limit_s: float = own.args[0] if own else LONG_LIMIT_S if long else LIMIT_S

    def over(*_: object) -> None:
        pytest.fail(f"it ran {limit_s:g} s, its limit")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """Undo `command &` of a script and nohup: what they ignore, all that tests start would."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    # The emulator's core is found by its content, and takes a minute to compile: it is kept.
    kept = Path(__file__).parents[1] / "artifacts" / "native"
    kept.mkdir(parents=True, exist_ok=True)
    (home / ".cache" / "kernelrig").mkdir(parents=True)
    (home / ".cache" / "kernelrig" / "native").symlink_to(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        # Hosts of several workers have the same stand-in for a GPU: each worker leases its own.
        patch.setenv("KERNELRIG_LEASES", str(home / "leases"))
        for name in OUTSIDE:
            patch.delenv(name, raising=False)
        yield
