"""Tasks by name, and how a worker of any engine runs one: JSON text in, JSON text out.

An item travels with the name of the module that registered its task: a worker in another process
or on another machine imports that, and finds the task as it is there.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeVar

from kernelrig.engines.work import Json, WorkItem, WorkResult
from kernelrig.errors import CiError, ConfigError, ProtocolError
from kernelrig.files.package_content import package_digest
from kernelrig.proc.workers import raised_at

Task = Callable[[Mapping[str, Json]], Json]
Registered = TypeVar("Registered", bound=Task)
_TASKS: dict[str, Task] = {}
MOST_TEXT = 2000


def register(name: str) -> Callable[[Registered], Registered]:
    """Register a function of a module as the task `name`; items call it with their payload.

    It may be called more than once with the same, also at the same time.
    """

    def add(task: Registered) -> Registered:
        known = _TASKS.setdefault(name, task)
        if (known.__module__, known.__qualname__) != (task.__module__, task.__qualname__):
            raise ValueError(f"two tasks are called '{name}'")
        return task

    return add


def encode(item: WorkItem) -> str:
    """Return the item as text for a worker; ValueError for a task that is not registered."""
    if item.task not in _TASKS:
        raise ValueError(f"no task is called '{item.task}'")
    order = {
        "key": item.key,
        "task": item.task,
        "module": _TASKS[item.task].__module__,
        "code": package_digest(),
        "payload": dict(item.payload),
    }
    return json.dumps(order, allow_nan=False)


def perform(order: str) -> str:
    """Run the item `order` here and return its result as text. What its task raises is in it."""
    began = time.monotonic()
    said = json.loads(order)
    answer: dict[str, object] = {
        "key": said["key"],
        "where": f"{socket.gethostname()}:{os.getpid()}",
    }
    try:
        value = _find(said["task"], said["module"], said["code"])(said["payload"])
        # To text at once: a value that is no JSON is a mistake of the task's.
        answer["value"] = json.loads(json.dumps(value, allow_nan=False))
    except CiError as e:
        answer["error"] = str(e)
    except Exception as e:
        answer["error"] = f"{type(e).__name__} at {raised_at(e)}: {e}"[:MOST_TEXT]
    return json.dumps({**answer, "seconds": round(time.monotonic() - began, 3)})


def accept(order: str) -> WorkItem:
    """Return the item of an order whose task this process can run; ConfigError for other code."""
    said = json.loads(order)
    _find(said["task"], said["module"], said["code"])
    return WorkItem(said["key"], said["task"], said["payload"])


def decode(text: str, item: WorkItem, attempts: int) -> WorkResult:
    """Return the result that a worker wrote as text; ProtocolError for any other text."""
    try:
        said = json.loads(text)
        result = WorkResult(
            key=str(said["key"]),
            value=said.get("value"),
            error=str(said.get("error", "")),
            attempts=attempts,
            seconds=float(said["seconds"]),
            where=str(said["where"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise ProtocolError(f"a worker's result of '{item.task}' cannot be read: {e}") from e
    if result.key != item.key:
        raise ProtocolError(f"a worker's result of '{item.task}' is that of another item")
    return result


def _find(name: str, module: str, code: str) -> Task:
    if code != package_digest():
        raise ConfigError("the worker runs other code of kernelrig", "use one version everywhere")
    if name not in _TASKS:
        import_module(module)
    if name not in _TASKS:
        raise ConfigError(f"{module} registers no task '{name}'", "use one version everywhere")
    return _TASKS[name]
