"""Files of older schemas are read as the records of today."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import (
    Bench,
    BenchResult,
    BenchVerdict,
    Check,
    Comparison,
    Environment,
    Outcome,
    Purpose,
    Run,
    Timed,
    Verdict,
)

from tests.files.test_serialization import RUN

COMPARED = Check(
    "b compared with a",
    Verdict(Outcome.PASS, "inconclusive"),
    facts={
        "result": "inconclusive",
        "MDD": "0.50%",
        "basis": "3 runs on this card",
        "host class": "H200",
        "checks": "outdated: this build has not passed smoke",
    },
)
FACTS_OF_SCHEMA_1 = {
    "word": "undecided",
    "resolves": "0.50%",
    "told from": "3 runs on this card",
    "box class": "H200",
    "checks": "stale: this build has not passed smoke",
}

RESULT = BenchResult(
    "run",
    ("a", "b"),
    (Timed(0, 1, (0.5, 0.25), environment=Environment(gpu="GPU-1"), process=1),),
    (
        Comparison(
            "a", "b", BenchVerdict.INCONCLUSIVE, 1.0, 1.01, 1.0, -1.0, 2.0, None, 0.5, 7, 3.0
        ),
    ),
)


def as_json(record: object) -> dict[str, Any]:
    value = json.loads(to_json(record))
    assert isinstance(value, dict)
    return value


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINEsmEM5229BIBq2NaBG33ZMYAT9FagVTBGSV1tg+VVJ"
FINGERPRINT = "SHA256:2p6+VRMZ3wT6TmioWEWz/SvqXkjX+JMuqdhYpQ02WFo"
"""What `ssh-keygen -lf` prints of it."""


def of_schema_2(run: Run) -> dict[str, Any]:
    """Return run.json as schema 2 had it: the remote could be connected to."""
    old = as_json(run) | {"schema": 2}
    del old["host"]["gpu_index"], old["host"]["admin"]
    old["host"]["workdir"] = "/srv/someone/.kernelrig"
    old["remote"] |= {
        "host": "203.0.113.7",
        "user": "someone",
        "port": 40022,
        "identity_file": "/srv/someone/key",
        "host_key": HOST_KEY,
        "jump": "me@gate",
        "workdir": "~/.kernelrig",
        "python": "python3",
        "connect_timeout_s": 15.0,
        "env": {"A": "b"},
    }
    return old


THEN = replace(RUN.remote, host_key=FINGERPRINT) if RUN.remote else None


@pytest.mark.parametrize(
    ("visible", "gpu_index"),
    [(None, 0), ("1", 1), ("1,0", 1), ("2", None), ("GPU-b", 1), ("", None)],
)
def test_of_a_run_of_schema_2_the_gpu_and_no_address_is_kept(
    visible: str | None, gpu_index: int | None, tmp_path: Path
) -> None:
    old = of_schema_2(RUN)
    old["host"]["gpus"] = [{"uuid": "GPU-a1"}, {"uuid": "GPU-b2"}]
    old["remote"]["user"] = "root"
    if visible is not None:
        old["remote"]["env"]["CUDA_VISIBLE_DEVICES"] = visible
    run = from_json(Run, write(tmp_path / "run.json", old))
    assert run.host is not None
    assert run.remote is not None
    assert (run.host.gpu_index, run.host.admin) == (gpu_index, True)
    assert run.remote.host_key == FINGERPRINT
    assert run.remote.env == tuple(sorted(old["remote"]["env"]))
    written = to_json(run)
    for gone in ("203.0.113.7", "someone", "40022", "me@gate", ".kernelrig", "AAAAC3"):
        assert gone not in written


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "ssh-ed25519 ???", 7, None])
def test_a_run_of_schema_2_without_a_pinned_key_has_no_fingerprint(
    key: object, tmp_path: Path
) -> None:
    old = of_schema_2(RUN)
    old["remote"]["host_key"] = key
    run = from_json(Run, write(tmp_path / "run.json", old))
    assert run.remote is not None
    assert run.remote.host_key == ""


def test_a_run_of_schema_1_is_read(tmp_path: Path) -> None:
    record = replace(RUN.stages[0], checks=(COMPARED,))
    run = replace(RUN, stages=(record,), bench=Bench((), 7, 1.2))
    old = of_schema_2(run) | {"schema": 1}
    old["box"] = old.pop("host")
    old["remote"]["tools"] = "box"
    old["bench"]["contenders"] = old["bench"].pop("candidates")
    (command,) = old["jobs"][0]["commands"]
    command["once"] = command.pop("cache_key")
    old["stages"][0]["checks"][0]["facts"] = FACTS_OF_SCHEMA_1
    assert run.host is not None
    host = replace(run.host, gpu_index=0, admin=False)
    wanted = replace(run, remote=THEN, host=host, purpose=Purpose.BENCH)
    assert from_json(Run, write(tmp_path / "run.json", old)) == wanted


def test_a_comparison_of_schema_1_is_read(tmp_path: Path) -> None:
    old = as_json(RESULT) | {"schema": 1}
    old["turns"] = old.pop("slots")
    (slot,) = old["turns"]
    slot["contender"], slot["around"] = slot.pop("candidate"), slot.pop("environment")
    (pair,) = old["comparisons"]
    pair["word"], pair["turns"] = "undecided", pair.pop("slots")
    pair["resolves_percent"] = pair.pop("mdd_percent")
    del pair["result"]
    assert from_json(BenchResult, write(tmp_path / "bench.json", old)) == RESULT


@pytest.mark.parametrize("schema", [0, 4, "1", True])
def test_a_schema_without_an_upgrade_is_refused_by_its_number(
    schema: object, tmp_path: Path
) -> None:
    path = write(tmp_path / "run.json", as_json(RUN) | {"schema": schema})
    with pytest.raises(ProtocolError) as caught:
        from_json(Run, path)
    assert caught.value.message == (
        f"{path} has schema {json.dumps(schema)}; this version of kernelrig reads schema 3"
    )
