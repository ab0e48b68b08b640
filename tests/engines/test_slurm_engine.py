"""Work items as job arrays of a real Slurm: whatever is lost, every item has one result."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig.engines import SlurmEngine, WorkItem, WorkResult
from kernelrig.errors import ConfigError

from tests.engines.engine_tasks import item, starts
from tests.engines.slurm_cluster import Cluster, slurm_cluster, wait_for
from tests.toolchain_fixture import REPOSITORY

pytestmark = pytest.mark.long
POLL_S = 0.2


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}:{REPOSITORY / 'ci'}")
    folder = tmp_path / "slurm"
    folder.mkdir(mode=0o755)
    with slurm_cluster(folder, monkeypatch) as started:
        yield started


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def engine_of(cluster: Cluster, **options: float) -> SlurmEngine:
    return SlurmEngine(cluster.folder / "shared", poll_s=POLL_S, **options)  # type: ignore[arg-type]


def all_of(engine: SlurmEngine, items: list[WorkItem]) -> dict[str, WorkResult]:
    ended = list(engine.run(items))
    assert sorted(r.key for r in ended) == sorted(one.key for one in items)
    return {result.key: result for result in ended}


def require_squares(items: list[WorkItem], ended: dict[str, WorkResult]) -> None:
    for number, one in enumerate(items):
        assert not ended[one.key].error, ended[one.key]
        assert ended[one.key].value["square"] == number**2  # type: ignore[index, call-overload]


def require_empty(cluster: Cluster) -> None:
    spool = cluster.folder / "shared"
    left = [p.name for f in ("items", "results", "arrays") for p in (spool / f).iterdir()]
    assert left == []
    wait_for(lambda: not cluster.ask("squeue", "--noheader"), "a job is left")


def test_every_item_of_an_array_has_its_result(cluster: Cluster, log: Path) -> None:
    hows = {3: "raises", 4: "breaks", 5: "dies", 6: "dies once"}
    items = [item(log, number, how=hows.get(number, "")) for number in range(12)]
    with engine_of(cluster) as engine:
        ended = all_of(engine, items)
    wrong = {n: ended[items[n].key] for n in (3, 4, 5)}
    assert wrong[3].error == "the item is wrong; change it"
    assert wrong[4].error.startswith("IndexError at engine_tasks.py:")
    assert wrong[5].error.startswith("its job ended 3 times, at last without a result: FAILED")
    right = [one for n, one in enumerate(items) if n not in wrong]
    assert not [ended[one.key].error for one in right if ended[one.key].error]
    assert starts(log) == {n: {5: 3, 6: 2}.get(n, 1) for n in range(12)}
    require_empty(cluster)


CLIENT = """
import sys
from pathlib import Path
from kernelrig.engines import SlurmEngine
from tests.engines.engine_tasks import item
spool, log, journal, gate, count, poll_s = sys.argv[1:]
items = [item(Path(log), number, gate=gate) for number in range(int(count))]
done = set(Path(journal).read_text().split())
with SlurmEngine(Path(spool), "low", poll_s=float(poll_s)) as engine, open(journal, "a") as file:
    for result in engine.run(one for one in items if one.key not in done):
        assert not result.error, result
        file.write(result.key + chr(10))
        file.flush()
"""


def test_every_row_once_whatever_is_killed(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    """A node is killed, a job preempted, the controller restarted, the client killed."""
    count, gate, journal = 24, tmp_path / "gate", tmp_path / "journal"
    journal.touch()
    words = [cluster.folder / "shared", log, journal, gate, count, POLL_S]
    argv = [sys.executable, "-c", CLIENT, *map(str, words)]

    def running() -> int:
        return len(cluster.ask("squeue", "--noheader", "--array", "--states=R").splitlines())

    first = subprocess.Popen(argv, cwd=REPOSITORY)
    wait_for(lambda: len(starts(log)) == 4, "4 items are not running")
    cluster.kill("slurmctld")
    cluster.start_controller()
    wait_for(lambda: running() == 4, "the controller does not answer")
    cluster.kill_node("one")
    # Of the other node one core is enough for the job that comes before the items.
    preempted = tmp_path / "preempted"
    high = ("--partition=high", "--nodelist=two", "--output=/dev/null")
    cluster.ask("sbatch", *high, f"--wrap=touch {preempted}")
    wait_for(preempted.exists, "no job was preempted")
    wait_for(lambda: sum(starts(log).values()) > 4, "no item was requeued")
    first.send_signal(signal.SIGKILL)
    first.wait()
    cluster.start_node("one")
    gate.touch()
    wait_for(lambda: len(starts(log)) == count, "without a client the jobs do not go on")
    again = subprocess.run(argv, cwd=REPOSITORY, check=False)
    assert again.returncode == 0
    rows = journal.read_text().split()
    assert sorted(rows) == sorted(item(log, n, gate=str(gate)).key for n in range(count))
    repeated = {n: times for n, times in starts(log).items() if times > 1}
    assert 0 < len(repeated) <= 4
    wait_for(lambda: not cluster.ask("squeue", "--noheader"), "a job is left")


def test_a_cancelled_run_leaves_no_job(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    items = [item(log, n, gate=str(tmp_path / "gate") if n else "") for n in range(8)]
    with engine_of(cluster) as engine:
        running = engine.run(items)
        assert next(running).key == items[0].key
    require_empty(cluster)
    (tmp_path / "gate").touch()
    with engine_of(cluster) as engine:
        require_squares(items, all_of(engine, items))


def test_what_sbatch_refuses_is_one_sentence(cluster: Cluster, log: Path) -> None:
    engine = SlurmEngine(cluster.folder / "shared", "none")
    with engine, pytest.raises(ConfigError, match="sbatch refuses the job"):
        next(engine.run([item(log, 1)]))
    assert not list((cluster.folder / "shared" / "arrays").iterdir())
