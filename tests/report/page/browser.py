"""Headless Chromium, driven over a pipe by its DevTools protocol; it reaches no address.

It is Debian's: installed with apt if we are root, as openssh-server is. A machine without it has
not passed these tests, so that they fail there with the command to type.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelrig.errors import CiError
from kernelrig.proc import run_process

PACKAGE = "chromium-headless-shell"
_NAMES = (PACKAGE, "chromium", "chromium-browser", "google-chrome")
_LIMIT_S = 60.0


def require_browser() -> str:
    """Return the path of a browser; CiError with the command to type where there is none."""
    if found := _find():
        return found
    by_hand = f"install it with: sudo apt-get install {PACKAGE}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CiError("no Chromium on PATH, and the tests of report.html need it", by_hand)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGE)
    if run_process(install, env=env).exit_code:
        run_process(("apt-get", "update", "-q"), env=env)
        run_process(install, env=env)
    if found := _find():
        return found
    raise CiError(f"apt-get could not install {PACKAGE}", by_hand)


def _find() -> str:
    return next((path for name in _NAMES if (path := shutil.which(name))), "")


class Page:
    """A tab. `requests` are the addresses that it asked for, `complaints` what its console says."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._buffer = read, write, b""
        self._last, self._session = 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False
        self._urls: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions",
            **{"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
        )

    def call(self, method: str, /, **params: object) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, file: Path, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Load a file in a window of that size, with the user's wish for light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.requests, self.complaints, self._loaded = [], [], False
        self.call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._receive()

    def evaluate(self, script: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the value of an expression of JavaScript."""
        how = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def move_to(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + _LIMIT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            got = os.read(self._read, 1 << 16)
            assert got, "the browser has ended"
            self._buffer += got
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
            self._urls[params["requestId"]] = params["request"]["url"]
        elif method == "Network.loadingFailed" and params.get("blockedReason") == "csp":
            self.requests.remove(self._urls[params["requestId"]])  # it was never sent
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(params))
        elif method == "Page.loadEventFired":
            self._loaded = True


@contextlib.contextmanager
def open_browser(home: Path) -> Iterator[Page]:
    """Start a browser with an empty profile below `home`; it is gone at the end."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # The browser reads descriptor 3 and writes descriptor 4: the shell puts the pipes there.
    script = f'exec "$@" 3<&{commands_out} 4>&{answers_in}'
    flags = ["--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
    flags += [f"--user-data-dir={home}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    process = subprocess.Popen(
        ["bash", "-c", script, "browser", require_browser(), *flags],
        pass_fds=(commands_out, answers_in),
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(commands_out)
    os.close(answers_in)
    try:
        yield Page(answers_out, commands_in)
    finally:
        os.close(commands_in)
        os.close(answers_out)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
