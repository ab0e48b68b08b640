"""Progress of a run while it is followed: the agent's events. Verdicts are reached afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from kernelrig.model import DeviceKind
from kernelrig.terminal.log import begin, say
from kernelrig.terminal.text import one_line

_LONGEST = 2000
"""Characters of a line: a host may say more."""
_MOST_GPUS = 16


class Follower:
    """Shows the events of a run, a line for each; on a terminal also the stages under way.

    `expected_s` has the seconds that a stage took in an earlier run, by its name.
    """

    def __init__(
        self, device: DeviceKind = DeviceKind.GPU, expected_s: Mapping[str, float] | None = None
    ) -> None:
        self._emulated = "emulated: " if device is DeviceKind.EMULATOR else ""
        self._expected_s = expected_s or {}
        self._under_way: dict[str, tuple[str, Callable[[], None]]] = {}  # GPU -> stage, its end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_stages(list(self._under_way))

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Print an event of the agent's journal on stderr, if it is one that people need."""
        kind, stage = event.get("event"), str(event.get("stage", ""))
        gpu = str(event.get("gpu") or "")
        # One stage is under way on a GPU at a time, however many a host says that it has started.
        if kind == "stage_started":
            self._end_stages([gpu])
        elif kind in ("stage_ended", "interrupted"):
            self._end_stages([g for g, (name, _) in self._under_way.items() if name == stage])
        if line := progress_line(event):
            say(f"{self._emulated}{line}")
        if kind == "stage_started" and len(self._under_way) < _MOST_GPUS:
            shown = f"{self._emulated}{one_line(stage)}"
            self._under_way[gpu] = stage, begin(shown, self._expected_s.get(stage, 0.0))

    def _end_stages(self, gpus: Iterable[str]) -> None:
        for gpu in gpus:
            if found := self._under_way.pop(gpu, None):
                found[1]()


def progress_line(event: Mapping[str, Any]) -> str:
    """Return an event as a sentence, empty for one that no person needs.

    The agent may be on a host or, as `invoke emulate` starts it, on this machine.
    """
    stage = event.get("stage", "?")
    match event.get("event"):
        case "stage_started":
            line = f"{stage}: started{f' on {gpu}' if (gpu := event.get('gpu')) else ''}"
        case "command_ended":
            line = f"{stage}: {event.get('command', '?')} {_ending(event)}"
        case "stage_ended":
            # The agent compares exit codes alone: this is not the stage's verdict.
            line = f"{stage}: {'ended' if event.get('ok') else 'ended, a command did not succeed'}"
        case "stage_not_run":
            line = f"{stage}: not run: {event.get('reason', 'no reason was given')}"
        case "health" if event.get("healthy") is False:  # None: not known
            line = f"{stage}: the GPU no longer answers"
        case "queued" if event.get("text"):
            line = str(event["text"])
        case "interrupted":
            line = f"{stage}: interrupted: Slurm takes its job off node {event.get('node', '?')}"
        case "resumed":
            line = f"attempt {event.get('attempt', '?')} on node {event.get('node', '?')}"
            line += f": {event['again']} is run again" if event.get("again") else ""
            line += f": {event['lost']} was lost with its node" if event.get("lost") else ""
        case "run_started" if event.get("node"):
            line = f"job {event.get('job', '?')} runs on node {event['node']}"
        case "note":
            line = str(event.get("text", ""))
        case "agent_lost" | "agent_error":
            line = f"the agent was lost: {event.get('detail', 'no reason was given')}"
        case "finished":
            line = f"finished: {event.get('reason', 'no reason was given')}"
        case _:
            line = ""
    return one_line(line[:_LONGEST])


def _ending(event: Mapping[str, Any]) -> str:
    reused = event.get("reused_from")
    if reused:
        return f"reused the result of {reused}"
    how = event.get("ended_by", "?")
    code = f" {event.get('exit')}" if how == "exit" else ""
    seconds = event.get("seconds", 0.0)
    took = f"{seconds:.1f}" if isinstance(seconds, int | float) else "?"
    return f"ended by {how}{code} after {took} s"
