"""A line a step while a run is followed. It tells what the agent saw; verdicts come later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelrig.model import DeviceKind
from kernelrig.terminal.log import say
from kernelrig.terminal.text import one_line


def progress(event: Mapping[str, Any], device: DeviceKind = DeviceKind.GPU) -> None:
    """Say on stderr what an event of the agent's journal means, if it means something to people."""
    if line := progress_line(event):
        say(f"emulated: {line}" if device is DeviceKind.EMULATOR else line)


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
