"""The order of streams, events, graphs and the host: what is missing is found, and no more."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_verdict import exit_code
from kernelrig.emu.launch.severities import Severities
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import Ran, run_compiled

RIGHT = (
    *("pipeline", "implicit", "filled", "staging", "returned", "pageable", "pool", "graph"),
    *("captured", "atomics", "threads", "function", "freed", "kept", "frees", "idle", "behind"),
    *("reached", "moved"),
    *("reads", "rewrites", "managed", "registered", "beside", "flagged", "looked"),
)
WRONG = {
    "pipeline-waits": [("scale", "reads m.in + 0x0 (4096 bytes)", "cudaMemcpyAsync", "writes")],
    "pipeline-spares": [("cudaMemcpyAsync", "writes m.in + 0x0 (4096", "scale", "reads")],
    "implicit-wrong": [
        ("scale", "reads m.in + 0x0 (128 bytes)", "cudaMemsetAsync", "writes"),
        ("set", "writes m.in + 0x0 (128 bytes)", "scale", "reads"),
    ],
    "filled-wrong": [("scale", "reads m.in", "cudaMemset", "writes")],
    "staging-wrong": [("cudaMemcpyAsync", "writes m.pinned", "cudaMemcpyAsync", "reads")],
    "returned-wrong": [("cudaMemcpyAsync", "reads m.back", "cudaMemcpyAsync", "writes")],
    "pool-allocates": [("cudaMemcpyAsync", "writes made", "cudaMallocAsync", "allocates")],
    "pool-frees": [("cudaFreeAsync", "frees made", "cudaMemcpyAsync", "writes")],
    "graph-wrong": [("scale of graph launch", "reads m.in", "set of graph launch", "writes")],
    "captured-wrong": [("scale of graph launch", "reads m.in", "set of graph launch", "writes")],
    "atomics-wrong": [("count", "writes counter + 0x0 (4 bytes)", "count", "writes")],
    "threads-wrong": [("scale", "reads m.in", "set on the thread's default stream", "writes")],
    "function-wrong": [
        ("cudaMemcpyAsync", "writes m.in", "cudaMemcpyAsync", "reads"),
        ("cudaMemcpyAsync", "reads m.back", "cudaMemcpyAsync", "writes"),
    ],
    "freed-wrong": [("cudaFree", "frees made", "set on stream 1 (m.copies)", "writes")],
    "kept-wrong": [("cudaFree", "frees made", "set on stream 2 (m.compute)", "writes")],
    "idle-waits": [("scale", "reads m.in", "set on stream 2 (m.compute)", "writes")],
    "behind-wrong": [("scale", "reads m.in", "set on stream 2 (m.compute)", "writes")],
    "reached-wrong": [
        ("cudaMemcpyAsync", "reads m.in + 0x0", "set on stream 3 (m.apart)", "writes"),
        ("cudaMemcpyAsync", "reads m.in + 0x1000", "set on stream 3 (m.apart)", "writes"),
    ],
    "moved-wrong": [("scale", "reads m.out", "cudaMemcpy on the default stream", "writes")],
    "reads-wrong": [("the host", "reads m.back + 0xffc", "cudaMemcpyAsync", "writes")],
    "rewrites-wrong": [("the host", "writes m.pinned + 0x0", "cudaMemcpyAsync", "reads")],
    "managed-wrong": [("the host", "reads made", "set on stream 2 (m.compute)", "writes")],
    "registered-wrong": [("the host", "writes memory + 0x1004", "cudaMemcpyAsync", "writes")],
}


def races(ran: Ran, kind: Noted = Noted.STREAM_RACE) -> list[str]:
    return [note.text for note in ran.run.notes if note.kind is kind]


def test_a_program_that_is_right_has_no_race(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("streams", cuda_toolchain, *RIGHT, schedules=1)
    assert (ran.run.exit_code, ran.run.notes, exit_code(ran.run)) == (0, (), 0)


def test_each_order_that_is_missing_is_named_with_both_sides(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("streams", cuda_toolchain, *WRONG, schedules=1)
    found = races(ran)
    wanted = [parts for each in WRONG.values() for parts in each]
    assert len(found) == len(wanted), "\n".join(found)
    for text, parts in zip(found, wanted, strict=True):
        place = -1
        for part in parts:  # the second, what it does to which bytes, the first
            place = text.index(part, place + 1)
    assert exit_code(ran.run) == 1
    assert all("\n  fix: " in text for text in found)
    assert all("streams.cu:" in note.place for note in ran.run.notes)
    (text,) = races(ran, Noted.STREAM_ORDER)
    assert "cudaHostUnregister frees memory + 0x1000 (4096 bytes)" in text


def test_an_event_that_is_recorded_too_early_orders_nothing(cuda_toolchain: Toolchain) -> None:
    (text,) = races(run_compiled("streams", cuda_toolchain, "pipeline-early", schedules=1))
    assert "launch 1: scale on stream 2 (m.compute) reads m.in + 0x0 (4096 bytes), which" in text


def test_a_stream_without_work_is_not_behind_what_the_default_stream_does(
    cuda_toolchain: Toolchain,
) -> None:
    (text,) = races(run_compiled("streams", cuda_toolchain, "idle-works", schedules=1))
    assert "scale on stream 3 (m.apart) reads m.in + 0x0 (128 bytes), which" in text
    assert "set on stream 2 (m.compute)" in text


def test_what_only_drivers_order_is_a_warning(cuda_toolchain: Toolchain) -> None:
    wanted = {
        "pageable-wrong": [("launch 1: scale on stream 3 (m.apart)", "cudaMemcpy")],
        "frees-wrong": [("launch 3: scale on stream 2 (m.compute)", "launch 2: set")],
    }
    ran = run_compiled("streams", cuda_toolchain, *wanted, schedules=1)
    found = races(ran, Noted.STREAM_ORDER)
    pairs = [pair for each in wanted.values() for pair in each]
    assert len(found) == len(pairs), "\n".join(found)
    for text, (second, first) in zip(found, pairs, strict=True):
        assert text.startswith(f"stream-order: {second} reads m.in + 0x0 (128 bytes), which ")
        assert f"which {first}" in text
        assert "only what drivers usually do orders them" in text
    assert (races(ran), exit_code(ran.run)) == ([], 0)


@pytest.mark.parametrize(("said", "kinds"), [("off", []), ("warning", [Noted.STREAM_ORDER])])
def test_a_user_says_how_severe_a_race_of_streams_is(
    said: str, kinds: list[Noted], cuda_toolchain: Toolchain
) -> None:
    severities = Severities({"stream-race": "off" if said == "off" else "warning"})
    ran = run_compiled(
        "streams", cuda_toolchain, "filled-wrong", schedules=1, severities=severities
    )
    assert [note.kind for note in ran.run.notes] == kinds


def test_a_fork_of_a_capture_that_does_not_join_is_refused(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("streams", cuda_toolchain, "unjoined", schedules=1)
    assert ran.printed == "cudaErrorStreamCaptureUnjoined\n"


@pytest.mark.long
def test_the_default_stream_is_the_thread_s_where_a_program_is_compiled_so(
    cuda_toolchain: Toolchain,
) -> None:
    flags = ("--default-stream", "per-thread")
    ran = run_compiled("streams", cuda_toolchain, "implicit", schedules=1, flags=flags)
    first, second = races(ran)
    assert "scale on stream 2 (m.compute) reads m.in" in first
    assert "cudaMemsetAsync on the thread's default stream" in first
    assert "set on the thread's default stream writes m.in" in second
    assert run_compiled("streams", cuda_toolchain, "implicit", schedules=1).run.notes == ()
