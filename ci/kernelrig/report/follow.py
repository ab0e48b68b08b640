"""Progress of a run while it is followed: what the agent reported. Verdicts come later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from kernelrig.model import DeviceKind
from kernelrig.terminal.log import begin, say
from kernelrig.terminal.text import one_line


class Follower:
    """Shows the events of a run: a line for each, on a terminal also the stage that is under way.

    `expected_s` is how long stages took in an earlier run, by name.
    """

    def __init__(
        self, device: DeviceKind = DeviceKind.GPU, expected_s: Mapping[str, float] | None = None
    ) -> None:
        self._emulated = "emulated: " if device is DeviceKind.EMULATOR else ""
        self._expected_s = expected_s or {}
        self._ends: dict[str, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stage in tuple(self._ends):
            self._end(stage)

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Say on stderr what an event of the agent's journal means, if it means something."""
        stage = str(event.get("stage", ""))
        if event.get("event") in ("stage_ended", "stage_not_run"):
            self._end(stage)
        if line := progress_line(event):
            say(f"{self._emulated}{line}")
        if event.get("event") == "stage_started":
            self._end(stage)
            shown = f"{self._emulated}{one_line(stage)}"
            self._ends[stage] = begin(shown, self._expected_s.get(stage, 0.0))

    def _end(self, stage: str) -> None:
        if end := self._ends.pop(stage, None):
            end()


def progress_line(event: Mapping[str, Any]) -> str:
    """Put an event into words; empty for those that only matter to machines."""
    stage = event.get("stage", "?")
    match event.get("event"):
        case "stage_started":
            line = f"{stage}: started"
        case "command_ended":
            line = f"{stage}: {event.get('command', '?')} {_ending(event)}"
        case "stage_ended":
            # the agent knows exit codes alone, so this is no verdict
            line = f"{stage}: {'ended' if event.get('ok') else 'ended, not as it should'}"
        case "stage_not_run":
            line = f"{stage}: not run: {event.get('reason', 'no reason was given')}"
        case "health" if event.get("healthy") is False:  # None: nobody knows
            line = f"{stage}: the GPU no longer answers"
        case "agent_lost" | "agent_error":
            line = f"the agent on the host was lost: {event.get('detail', 'no reason was given')}"
        case "finished":
            line = f"the host is done: {event.get('reason', 'no reason was given')}"
        case _:
            line = ""
    return one_line(line)


def _ending(event: Mapping[str, Any]) -> str:
    reused = event.get("reused_from")
    if reused:
        return f"kept from {reused}"
    how = event.get("ended_by", "?")
    code = f" {event.get('exit')}" if how == "exit" else ""
    return f"ended by {how}{code} after {event.get('seconds', 0.0):.1f} s"
