"""Work items on the workers of a Dask scheduler.

Dask, not Ray: a scheduler and workers are small processes that a user starts, and dask-jobqueue
starts them on clusters. What travels are pickles, which are code: whoever reaches the scheduler can
run anything on its workers and here. So it is on this machine (a tunnel of SSH ends there too), or
it is reached by TLS with certificates on both sides.

A Dask worker runs each item in a process of its own: there an item can be ended at its time limit,
and one that crashes takes no Dask worker with it.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import multiprocessing
import queue
import time
from collections.abc import Generator, Iterable
from importlib import import_module
from typing import Any

from kernelrig.engines.local_engine import LocalEngine
from kernelrig.engines.task_registry import accept, encode
from kernelrig.engines.work import LIMIT_S, Engine, WorkItem, WorkResult, distinct
from kernelrig.errors import CiError, ConfigError, RemoteError

CONNECT_S = 10.0
AHEAD = 3
"""Items for each thread of the workers that the scheduler has: none of them idles."""
LOOK_S = 1.0
PATIENCE_S = 60.0
"""How long there may be no worker."""
_EXAMPLE = "for example --on dask://127.0.0.1:8786"


def dask_address(on: str) -> str:
    """Return the address of the scheduler that `on` names; ConfigError for another machine that
    would be reached without encryption."""
    scheme, _, rest = on.partition("://")
    host, _, port = rest.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"--on: no HOST:PORT in '{on[:80]}'", _EXAMPLE)
    if scheme == "tls":
        return f"tls://{rest}"
    if not _is_loopback(host.strip("[]")):
        raise ConfigError(
            f"--on: {host[:60]} is not this machine, and {scheme}:// is not encrypted",
            "use tls://HOST:PORT, or `ssh -L 8786:127.0.0.1:8786 HOST` and dask://127.0.0.1:8786",
        )
    return f"tcp://{rest}"


class DaskEngine(Engine):
    """The workers of the scheduler at `address`; certificates are those of Dask's configuration."""

    def __init__(self, address: str, *, limit_s: float = LIMIT_S) -> None:
        self.label = f"dask {address}"
        self._address, self._limit_s = address, limit_s
        self._client: Any = None

    def run(self, items: Iterable[WorkItem]) -> Generator[WorkResult, None, None]:
        client = self._connected()
        source = distinct(items)
        futures: dict[Any, WorkItem] = {}
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        seen = time.monotonic()
        try:
            while True:
                self._require_workers(time.monotonic() - seen)
                threads = sum(client.nthreads().values())
                while len(futures) < AHEAD * max(threads, 1):
                    item = next(source, None)
                    if item is None:
                        break
                    # pure=False: of what ran before for another client nothing is taken
                    future = client.submit(perform_apart, encode(item), self._limit_s, pure=False)
                    futures[future] = item
                    future.add_done_callback(ended.put)
                if not futures:
                    return
                try:
                    future = ended.get(timeout=LOOK_S)
                except queue.Empty:
                    seen = time.monotonic() if threads else seen
                    continue
                seen = time.monotonic()
                result = self._result(future, futures.pop(future))
                future.release()
                yield result
        finally:
            if client.status == "running":
                client.cancel(list(futures), force=True)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:  # noqa: ANN401 - distributed.Client
        """Return the client, connected to a scheduler that has a worker."""
        if self._client is None:
            distributed = import_module("distributed")
            how: dict[str, object] = {"timeout": CONNECT_S, "set_as_default": False}
            if self._address.startswith("tls:"):
                how["security"] = distributed.Security(require_encryption=True)
            try:
                self._client = distributed.Client(self._address, **how)
            except (OSError, TypeError, ValueError) as e:
                raise RemoteError(
                    f"no scheduler of Dask answers at {self._address}: {type(e).__name__}",
                    "start one: dask scheduler --host 127.0.0.1; see ci/docs/engines.md",
                ) from e
        return self._client

    def _require_workers(self, without_s: float) -> None:
        if self._client.status != "running":
            raise RemoteError(f"the scheduler at {self._address} is lost", "start it again")
        if without_s > PATIENCE_S:
            raise RemoteError(
                f"the scheduler at {self._address} has had no worker for {without_s:.0f} s",
                "start some: dask worker ADDRESS --nthreads 1 --no-nanny; see ci/docs/engines.md",
            )

    def _result(self, future: Any, item: WorkItem) -> WorkResult:  # noqa: ANN401 - a Future
        if future.status in ("cancelled", "lost"):
            raise RemoteError(f"the scheduler at {self._address} is lost", "start it again")
        error = future.exception()
        if error is None:
            found = WorkResult(**json.loads(future.result()))
            return dataclasses.replace(found, key=item.key)
        if type(error).__name__ == "KilledWorker":
            attempts = int(error.allowed_failures) + 1
            text = f"its worker died {attempts} times"
            return WorkResult(item.key, error=text, attempts=attempts, where=self.label)
        text = f"{type(error).__name__}: {error}"[:2000]
        return WorkResult(item.key, error=text, where=self.label)


def perform_apart(order: str, limit_s: float) -> str:
    """Run an item in a process of its own, on a worker of Dask; return its result as text."""
    try:
        require_children()
        item = accept(order)
    except CiError as e:
        return json.dumps({"key": "", "error": str(e)})
    with LocalEngine(1, limit_s=limit_s) as engine:
        (result,) = engine.run([item])
    return json.dumps(dataclasses.asdict(result))


def require_children() -> None:
    """Raise ConfigError where this worker may not start processes, as a nanny's may not."""
    if multiprocessing.current_process().daemon:
        raise ConfigError(
            "this worker of Dask may not start processes",
            "start it without a nanny: dask worker ADDRESS --nthreads 1 --no-nanny",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
