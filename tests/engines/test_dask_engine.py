"""Work items on a real scheduler of Dask and its workers, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from kernelrig.engines import DaskEngine, open_engine
from kernelrig.engines.dask_engine import dask_address
from kernelrig.errors import ConfigError, RemoteError

from tests.engines.engine_tasks import item, starts
from tests.engines.slurm_cluster import free_ports, wait_for
from tests.toolchain_fixture import REPOSITORY


@pytest.mark.parametrize(
    ("on", "address"),
    [
        ("dask://127.0.0.1:8786", "tcp://127.0.0.1:8786"),
        ("tcp://localhost:1", "tcp://localhost:1"),
        ("dask://[::1]:8786", "tcp://[::1]:8786"),
        ("tls://cluster.example:8786", "tls://cluster.example:8786"),
    ],
)
def test_a_scheduler_is_on_this_machine_or_reached_by_tls(on: str, address: str) -> None:
    assert dask_address(on) == address


@pytest.mark.parametrize(
    ("on", "complaint"),
    [
        ("dask://10.0.0.1:8786", "10.0.0.1 is not this machine, and dask:// is not encrypted"),
        ("tcp://cluster.example:8786", "cluster.example is not this machine"),
        ("tcp://127.0.0.1.example:1", "127.0.0.1.example is not this machine"),
        ("tcp://0.0.0.0:1", "0.0.0.0 is not this machine"),
        ("dask://127.0.0.1", "no HOST:PORT in"),
        ("tls://:8786", "no HOST:PORT in"),
        ("dask://127.0.0.1:99999", "no HOST:PORT in"),
    ],
)
def test_no_pickle_crosses_a_network_in_the_clear(on: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_engine(on)
    assert complaint in raised.value.message


@contextmanager
def dask(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of Dask in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'ci'}"}
    words = [sys.executable, "-m", "dask", *arguments]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, start_new_session=True, **silent) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)


@contextmanager
def scheduler() -> Iterator[str]:
    assert find_spec("distributed"), "pip install -r ci/kernelrig/locks/engines.txt"
    (port,) = free_ports(1)
    with dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"):
        yield f"tcp://127.0.0.1:{port}"


def worker(address: str, *more: str) -> list[str]:
    return ["worker", address, "--nthreads", "1", "--no-dashboard", *more]


@pytest.mark.long
def test_every_item_has_its_result_also_when_workers_die(tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    log.mkdir()
    hows = {3: "raises", 4: "dies", 5: "dies once"}
    items = [item(log, n, how=hows.get(n, ""), gate=str(gate) if n else "") for n in range(12)]
    with scheduler() as address, DaskEngine(address) as engine:
        running = engine.run(items)
        with dask(*worker(address, "--no-nanny")) as dying:
            ended = [next(running)]
            wait_for(lambda: len(starts(log)) > 1, "the next item does not start")
            os.killpg(dying.pid, signal.SIGKILL)
            dying.wait()
        gate.touch()
        with dask(*worker(address, "--no-nanny")), dask(*worker(address, "--no-nanny")):
            ended += running
    by_key = {result.key: result for result in ended}
    assert len(ended) == len(by_key) == len(items)
    assert by_key[items[3].key].error == "the item is wrong; change it"
    assert by_key[items[4].key].error == "its worker died 3 times, of signal SIGKILL"
    for number in {*range(12)} - {3, 4}:
        value = by_key[items[number].key].value
        assert isinstance(value, dict)
        assert value["square"] == number**2
    assert sum(starts(log).values()) == 12 + 2 + 1 + 1


@pytest.mark.long
def test_a_worker_that_may_not_start_processes_says_so(tmp_path: Path) -> None:
    with scheduler() as address, DaskEngine(address) as engine, dask(*worker(address)):
        (result,) = engine.run([item(tmp_path, 1)])
    assert result.error.startswith("this worker of Dask may not start processes; start it without")


@pytest.mark.long
def test_a_scheduler_that_is_not_there_or_is_lost_ends_the_run(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    one = item(tmp_path, 1)
    absent = pytest.raises(RemoteError, match="no scheduler of Dask answers at tcp://127")
    with DaskEngine(f"tcp://127.0.0.1:{port}") as engine, absent:
        next(engine.run([one]))
    with scheduler() as address, DaskEngine(address) as engine:
        running = engine.run([one])
        engine._connected().shutdown()
        with pytest.raises(RemoteError, match=f"the scheduler at {address} is lost"):
            list(running)
