"""A record that was written is read back equal; anything else is refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import date
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files import serialization
from kernelrig.model import (
    AcceptedFinding,
    Budget,
    Build,
    Case,
    Check,
    Command,
    CommandResult,
    DeviceKind,
    EndedBy,
    Finding,
    Function,
    FunctionResources,
    Host,
    Kernel,
    Outcome,
    Pattern,
    Plan,
    Provenance,
    RecordedRemote,
    Run,
    Shape,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    Tool,
    Toolchain,
    TriedSet,
    Variant,
    Verdict,
)

RUN = Run(
    id="20261121T120000Z-gemm-host-00ff",
    kernel=Kernel(
        "gemm",
        sources={"sm_90a": "gemm.cu"},
        variants={
            "production": Variant(
                "production",
                "gemm",
                defines={"A": 1, "B": 0.5, "C": "text", "D": "1", "E": 2.0},
                nvcc_flags=("-lineinfo",),
                libs=("cuda",),
                archs=("sm_90a",),
                function=Function.BIAS_THEN_ADD,
            )
        },
        kernel_regex="gemm_.*",
        label={"sm_90a": "a \"label\" with 'quotes', ünïcode and \x1b[0m"},
        baseline=True,
        cases={"smoke": Case("smoke", 1, 2)},
        accum_tol={"sm_90a": 0.0005},
        shape=Shape(196, 768, 768),
        budgets={"sm_90a": {"production": Budget(registers=128)}},
        accepted=(AcceptedFinding("racecheck", "ab", "2025.3", "r", date(2027, 3, 31)),),
        args=("--x",),
        expected_lines=("ok",),
        extras=("library",),
    ),
    variant="production",
    arch="sm_90a",
    remote=RecordedRemote(
        "host", "sm_90a", device=DeviceKind.EMULATOR, host_key="SHA256:x", env=("A",)
    ),
    plan=Plan(
        "default",
        (
            Stage("pre", StageKind.PREFLIGHT),
            Stage("sum", StageKind.CHECKSUM, "smoke", (Pattern.RANDOM,), (0, 1), needs=("pre",)),
            Stage("guard", StageKind.CHECKSUM, variant="guard"),
        ),
    ),
    provenance=Provenance("abc", "", "0.1.0", "invoke x", "here", {"production": "k"}, "13.0"),
    started_utc="2026-11-21T12:00:00Z",
    state="finished",
    jobs=(
        StageJob(
            "sum",
            StageKind.CHECKSUM,
            (Command("random", ("../p", "-x"), 2.5, (0, 71), {"A": "b"}, "once", True),),
            ("pre",),
        ),
    ),
    host=Host(
        "h", "3.12.3", "2.39", 1 << 40, "580.159.04",
        gpus=({"name": "NVIDIA H200"},), gpu_processes=("1 x",), gpu_counters_admin_only=False,
        tools={"ncu": Tool("/ncu", "2025.3.1", ("--set",))}, problems=("p",),
        gpu_index=None, admin=True,
    ),
    stages=(
        StageRecord(
            "sum",
            StageKind.CHECKSUM,
            DeviceKind.GPU,
            "NVIDIA H200",
            Verdict(Outcome.FAIL, "wrong", ("row 1",)),
            (
                Check(
                    "random",
                    Verdict(Outcome.PASS, "right"),
                    1.5,
                    (Finding("memcheck", "oob", "m", "k", "f.cu", 3, "t", 2, "fp", "why"),),
                    {"worst": "1e-5"},
                ),
            ),
            (CommandResult("random", EndedBy.SIGNAL, None, 11, "2026", 0.25, "d", "r"),),
            ("note",),
            "2026",
            2.0,
            "guard",
        ),
    ),
    missing=("stages/01-sum/x",),
    finished_utc="2026-11-21T12:01:00Z",
)  # fmt: skip

BUILD = Build(
    "gemm", "sm_90a", "production", "0f", Path("/b/gemm"), "gemm", ("nvcc", "-O3"), "13.0",
    (FunctionResources("k", 32, 0, 0, 0, 1024, 1),), "2.34", "580", {"a": "1"}, {"b": "2"}, 1.5,
)  # fmt: skip

TOOLCHAIN = Toolchain(
    Path("/c"), Path("/c/nvcc"), Path("/c/o"), Path("/c/d"), Path("/usr/bin/g++"),
    "13.0.88", "13.5.37", "13.5.37", "12.2.0", "wheels", "the default",
    {"library": Path("/l/include")},
)  # fmt: skip


@pytest.mark.parametrize(
    "record", [RUN, BUILD, TOOLCHAIN, RUN.jobs[0]], ids=lambda r: type(r).__name__
)
def test_a_record_comes_back_equal(record: object, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(serialization.to_json(record), encoding="utf-8")
    assert serialization.from_json(type(record), path) == record


def test_numbers_and_texts_of_defines_keep_their_types(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(serialization.to_json(RUN), encoding="utf-8")
    defines = serialization.from_json(Run, path).kernel.variants["production"].defines
    assert [type(value) for value in defines.values()] == [int, float, str, str, float]


def test_a_name_that_is_no_text_costs_its_own_character_alone(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = CommandResult("x", EndedBy.EXIT, 0, detail="wrote a\udcffb")
    path.write_text(serialization.to_json(result), encoding="utf-8")
    assert serialization.from_json(CommandResult, path).detail == "wrote a?b"


def refusal(kind: type, path: Path) -> str:
    """Return what is said of `path`, with its folder left out."""
    with pytest.raises(ProtocolError) as caught:
        serialization.from_json(kind, path)
    assert caught.value.exit_code == 5
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "run.json is not JSON from line 1 column 1 on; it is cut short or damaged"),
        (b'{"\xff', "run.json is not JSON; it is damaged"),
        (b"[" * 100_000, "run.json cannot be read: it is nested deeper than 64 levels"),
        (b"9" * 5000, "run.json is not JSON; it is damaged"),
        (b"[]", "run.json has no schema number; it is not a file of kernelrig"),
        (b'{"id": "x"}', "run.json has no schema number; it is not a file of kernelrig"),
        (
            b'{"schema": 2}',
            "run.json has schema 2; this version of kernelrig reads schema 1; "
            "use the version that wrote it",
        ),
        (
            b'{"schema": true}',
            "run.json has schema true; this version of kernelrig reads schema 1; "
            "use the version that wrote it",
        ),
        (
            b'{"schema": 1}',
            "run.json is not a Build: at kernel: missing key 'kernel' in the file (and 13 more)",
        ),
    ],
)
def test_what_is_no_record_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    assert refusal(Build, path) == said


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    text = serialization.to_json(RUN).rstrip()
    path = tmp_path / "run.json"
    for end in range(0, len(text), 97):
        path.write_text(text[:end])
        assert refusal(Run, path).startswith("run.json is not JSON from line ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"outcome": "fail"',
            '"outcome": "fial"',
            "run.json is not a Run: at stages.0.verdict.outcome: 'outcome' must be one of "
            "pass, fail, error, skip, not 'fial'; did you mean 'fail'?",
        ),
        (
            '"free_bytes": 1099511627776',
            '"free_bytes": "1099511627776"',
            "run.json is not a Run: at host.free_bytes: 'free_bytes' must be a whole number, "
            "not '1099511627776'; take it out of its quotes",
        ),
        (
            '"variant": "production"',
            '"variant": "production", "quux": 1',
            "run.json is not a Run: at quux: unknown key 'quux'; known keys: arch, bench, "
            "cancelled, emulation, fault, finished_utc, gate_percent, gpu_busy, held_s, host, id, "
            "jobs, journal_key, kernel, missing, only, plan, price_per_hour, profiling, "
            "provenance, purpose, remote, require_device, reused, schema, seed, shipped, "
            "stage_keys, stages, started_utc, state, variant",
        ),
    ],
)
def test_a_damaged_value_is_named(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = serialization.to_json(RUN)
    assert text.count(old) == 1
    path = tmp_path / "run.json"
    path.write_text(text.replace(old, new))
    assert refusal(Run, path) == said


def test_a_record_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tried.json"
    path.write_text(serialization.to_json(BUILD))
    assert refusal(TriedSet, path).startswith("tried.json is not a TriedSet: at ")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(Run, tmp_path / "run.json") == "cannot read run.json: no such file or directory"


@pytest.mark.parametrize(
    "detail", ["plain", 'é\u2028\x7f"\\\n\x01', "NaN", "-Infinity", "half a \udcff character"]
)
def test_a_record_has_a_line_for_each_element_whatever_its_texts_hold(detail: str) -> None:
    record = CommandResult("c", EndedBy.EXIT, 0, seconds=1e-05, detail=detail)
    text = serialization.to_json(record)
    assert text.count("\n") == len(fields(CommandResult)) + 2
    kept = detail.encode(errors="replace").decode()
    assert json.loads(text) == {**serialization.to_value(record), "detail": kept}
