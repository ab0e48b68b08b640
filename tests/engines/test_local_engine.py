"""The local engine: every item once, a worker that dies costs its own item, nothing is left."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig.engines import LocalEngine, WorkItem, WorkResult, open_engine, register
from kernelrig.engines.task_registry import encode, perform
from kernelrig.errors import ConfigError

from tests.engines.engine_tasks import item, run_item, starts


def results(engine: LocalEngine, items: list[WorkItem]) -> dict[str, WorkResult]:
    ended = list(engine.run(items))
    assert len({result.key for result in ended}) == len(ended)
    return {result.key: result for result in ended}


def test_every_item_is_run_once_and_those_of_one_key_are_one(tmp_path: Path) -> None:
    items = [item(tmp_path, number) for number in range(20)]
    with LocalEngine(2) as engine:
        ended = results(engine, [*items, *items[:5]])
        again = results(engine, items[:1])
    squares = [ended[one.key].value["square"] for one in items]  # type: ignore[index, call-overload]
    assert squares == [number**2 for number in range(20)]
    assert again[items[0].key].value == ended[items[0].key].value
    assert starts(tmp_path) == {number: 1 + (number == 0) for number in range(20)}
    assert len({result.where for result in ended.values()}) == 2


@pytest.mark.parametrize(
    ("how", "error", "attempts"),
    [
        ("dies", "its worker died 3 times, of signal SIGKILL", 3),
        ("exits", "its worker died 3 times, of exit code 3", 3),
        ("raises", "the item is wrong; change it", 1),
        ("breaks", r"IndexError at engine_tasks.py:\d+: list index out of range", 1),
        ("odd", r"TypeError at encoder.py:\d+: Object of type set is not JSON serializable", 1),
        ("dies once", "", 2),
    ],
)
def test_what_ends_an_item_costs_no_other(
    how: str, error: str, attempts: int, tmp_path: Path
) -> None:
    items = [item(tmp_path, number, how=how if number == 2 else "") for number in range(5)]
    with LocalEngine(2) as engine:
        ended = results(engine, items)
    assert set(ended) == {one.key for one in items}
    wrong = ended.pop(items[2].key)
    assert re.fullmatch(error, wrong.error)
    assert (wrong.attempts, wrong.value is None) == (attempts, bool(error))
    assert starts(tmp_path) == {number: attempts if number == 2 else 1 for number in range(5)}
    assert not any(result.error for result in ended.values())


def test_an_item_that_hangs_is_ended_and_not_tried_again(tmp_path: Path) -> None:
    with LocalEngine(1, limit_s=0.2) as engine:
        (ended,) = engine.run([item(tmp_path, 0, how="hangs")])
        assert not engine._running
    assert (ended.error, ended.attempts) == ("it did not end within 0.2 s", 1)
    assert starts(tmp_path) in ({0: 1}, {})


def test_items_are_taken_as_workers_get_free(tmp_path: Path) -> None:
    taken: list[int] = []

    def source() -> Iterator[WorkItem]:
        for number in range(9):
            taken.append(number)
            yield item(tmp_path, number)

    with LocalEngine(1) as engine:
        running = engine.run(source())
        next(running)
        assert taken == [0, 1]


def is_running(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.limit(60)
def test_what_is_cancelled_ends_with_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    ready = tmp_path / "ready"
    items = [item(log, 0), item(log, 1, how="starts", ready=str(ready))]
    with LocalEngine(1) as engine:
        running = engine.run(items)
        next(running)
        (worker,) = [r.worker for r in engine._running]
        pid = worker._process.pid
        while not ready.exists():
            worker._process.join(0.01)
        (started,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        folder = Path(engine._folder.name)
        running.close()
        assert not engine._running
        while is_running(started):
            time.sleep(0.01)
    assert not folder.exists()


def test_an_engine_is_named_by_a_text() -> None:
    with open_engine("local:3") as engine:
        assert isinstance(engine, LocalEngine)
        assert engine.count == 3
    for text in ("", "local:", "local:0", "local:x", "remote", "ray://127.0.0.1:1"):
        with pytest.raises(ConfigError, match="--on: unknown engine"):
            open_engine(text)


def test_without_slurm_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for text in ("slurm", "slurm:gpu"):
        with pytest.raises(ConfigError, match="no sbatch on PATH"):
            open_engine(text, tmp_path)
    with pytest.raises(ConfigError, match="unknown engine"):
        open_engine("slurm:--export=ALL", tmp_path)


def test_a_worker_of_other_code_refuses(tmp_path: Path) -> None:
    order = json.loads(encode(item(tmp_path, 1)))
    said = json.loads(perform(json.dumps({**order, "code": "0"})))
    assert said["error"] == "the worker runs other code of kernelrig; use one version everywhere"
    assert starts(tmp_path) == {}


def test_a_name_belongs_to_one_task() -> None:
    assert register("test-item")(run_item) is run_item
    with pytest.raises(ValueError, match="two tasks are called 'test-item'"):
        register("test-item")(starts)  # type: ignore[type-var]
    with LocalEngine(1) as engine, pytest.raises(ValueError, match="no task is called 'other'"):
        next(engine.run([WorkItem.of("other", {})]))
