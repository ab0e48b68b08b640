"""What holds for every test, and the plugins whose fixtures several areas share.

The developer's home, keys and the CI runner are not there: no test reads or writes them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

pytest_plugins = (
    "tests.remote.sshd_fixture",
    "tests.toolchain_fixture",
    "tests.sass_fixture",  # after the toolchain's, which it imports
    "tests.ptx_fixture",
    "tests.emu.device_fixture",
)

OUTSIDE = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "SSH_AUTH_SOCK")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """Undo `command &` of a script: it has SIGINT ignored, and so would all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in OUTSIDE:
            patch.delenv(name, raising=False)
        yield
