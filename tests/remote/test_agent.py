"""The agent runs what it was given, within limits, and tells everything; no process outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from kernelrig.model import CommandResult, EndedBy
from kernelrig.remote.agent.disk import remove_tree, walk
from kernelrig.remote.journal import LOST, read_journal
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import PYTHON, Event, LocalHost, deep_folder, is_running, job, shell


def only(results: tuple[CommandResult, ...]) -> CommandResult:
    assert len(results) == 1
    return results[0]


def test_exit_codes_and_output_come_back(host: LocalHost) -> None:
    jobs = [
        job(
            "smoke",
            shell("good", "pwd; echo careful >&2"),
            shell("bad", "exit 71"),
            shell("tolerated", "exit 3", ok_exit=(0, 3)),
        )
    ]
    (result,), events = host.run(jobs)
    assert [(c.name, c.ended_by, c.exit_code) for c in result.commands] == [
        ("good", EndedBy.EXIT, 0),
        ("bad", EndedBy.EXIT, 71),
        ("tolerated", EndedBy.EXIT, 3),
    ]
    folder = host.back / "stages" / "01-smoke"
    assert (folder / "good.stdout.log").read_text().endswith("/runs/run-1/stages/01-smoke\n")
    assert (folder / "good.stderr.log").read_text() == "careful\n"
    assert [e["event"] for e in events] == [
        "run_started",
        "stage_started",
        *["command_started", "command_ended"] * 3,
        "stage_ended",
        "finished",
    ]


def test_a_command_sees_no_input_its_own_environment_and_the_marker(host: LocalHost) -> None:
    host.env = {"FROM_REMOTE": "a b", "BOTH": "remote"}
    script = 'cat; echo "$FROM_REMOTE|$BOTH|$KERNELRIG_RUN"'
    host.run([job("smoke", shell("env", script, env={"BOTH": "command"}))])
    written = (host.back / "stages/01-smoke/env.stdout.log").read_text()
    assert written == "a b|command|run-1\n"


def test_a_signal_is_told_as_a_signal(host: LocalHost) -> None:
    (result,), _ = host.run([job("smoke", shell("crash", "kill -SEGV $$"))])
    command = only(result.commands)
    assert (command.ended_by, command.signal, command.exit_code) == (EndedBy.SIGNAL, 11, None)


def test_a_program_that_is_not_there_is_told_and_the_run_goes_on(host: LocalHost) -> None:
    missing = shell("missing", "")
    jobs = [job("one", type(missing)("missing", ("./nothing",), 5.0)), job("two", shell("b", ":"))]
    (one, two), _ = host.run(jobs)
    assert only(one.commands).ended_by is EndedBy.NOT_STARTED
    assert only(one.commands).detail == "./nothing: No such file or directory"
    assert only(two.commands).exit_code == 0


def test_a_command_that_ignores_term_ends_at_its_time_limit(host: LocalHost) -> None:
    script = "trap '' TERM; echo $$; while :; do sleep 1000; done"
    (result,), _ = host.run([job("smoke", shell("hang", script, 0.2))])
    command = only(result.commands)
    assert command.ended_by is EndedBy.TIME_LIMIT
    assert command.detail == "it ran 0.2 s, its limit"
    assert not is_running(int((host.back / "stages/01-smoke/hang.stdout.log").read_text()))


def test_output_is_cut_at_its_limit(host: LocalHost) -> None:
    stage = job("smoke", shell("noisy", "while :; do echo again; done"), output_bytes=10_000)
    (result,), _ = host.run([stage])
    assert only(result.commands).ended_by is EndedBy.OUTPUT_LIMIT
    assert (host.back / "stages/01-smoke/noisy.stdout.log").stat().st_size == 10_000


def test_files_are_bounded_too(host: LocalHost) -> None:
    script = "head -c 3000000 /dev/zero > big; sleep 1000"
    (result,), _ = host.run([job("smoke", shell("writer", script), disk_bytes=2_000_000)])
    assert only(result.commands).ended_by is EndedBy.DISK_LIMIT
    assert only(result.commands).detail == "more than 2000000 bytes of files"


def test_folders_nested_deeper_than_python_calls_end_no_agent_and_can_be_removed(
    host: LocalHost,
) -> None:
    nested = deep_folder(1500)
    jobs = [job("smoke", shell("a", nested), shell("b", "exit 3"))]
    try:
        (result,), _ = host.run(jobs)
        (folder,) = host.workdir.glob("runs/*/stages/01-smoke")
        assert sum("d" in folders for _, folders, _ in walk(folder)) == 1500
        assert remove_tree(folder) >= 0
        assert not folder.exists()
    finally:  # shutil.rmtree, by which pytest removes it, takes no folder so deep
        subprocess.run(("rm", "-rf", host.workdir), check=True)
    assert [(c.ended_by, c.exit_code) for c in result.commands] == [
        (EndedBy.EXIT, 0),
        (EndedBy.EXIT, 3),
    ]


def test_a_path_too_long_to_be_named_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "outside").write_text("stays")
    at = os.open(top, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("n" * 200, dir_fd=at)
        os.symlink(tmp_path / "outside", "link", dir_fd=at)
        at, above = os.open("n" * 200, os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(at)
    remove_tree(top)
    assert [p.name for p in tmp_path.iterdir()] == ["outside"]


@pytest.mark.parametrize("then", ["sleep 1000", "exit 1"])
def test_a_full_disk_is_told_and_stops_the_run(small_host: LocalHost, then: str) -> None:
    script = f"cat /dev/zero > big; {then}"
    (one, two), events = small_host.run([job("one", shell("fill", script)), job("two")])
    assert only(one.commands).ended_by is EndedBy.DISK_FULL
    assert two.not_run.startswith("the disk is full")
    assert events[-1]["event"] == "finished"


STRAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "echo $$ > part; mv part pid; exec sleep 1000"], {})
    os._exit(0)
while not os.path.exists("pid"):
    time.sleep(0.01)
"""


def test_a_child_that_forked_away_and_dropped_the_marker_is_ended(host: LocalHost) -> None:
    stray = shell("stray", "")
    command = type(stray)("stray", (PYTHON, "-c", STRAY), 30.0)
    (result,), events = host.run([job("smoke", command)])
    assert only(result.commands).exit_code == 0
    assert next(e for e in events if e["event"] == "command_ended")["strays"] == 1
    assert not is_running(int((host.back / "stages/01-smoke/pid").read_text()))


def test_a_run_of_the_same_name_under_another_workdir_is_left_alone(
    host: LocalHost, tmp_path: Path
) -> None:
    other = LocalHost(tmp_path / "other")
    here: list[CommandResult] = []

    def run_here(event: Event) -> None:
        if event["event"] == "command_started":
            ((result,), _) = host.run([job("smoke", shell("a", ":"))])
            here.extend(result.commands)
            (other.workdir / "runs/run-1/go").touch()

    wait = "while [ ! -e ../../go ]; do sleep 0.01; done"
    ((there,), _) = other.run([job("smoke", shell("b", wait))], on_event=run_here)
    other.close()
    assert [(c.ended_by, c.exit_code) for c in [*here, *there.commands]] == [(EndedBy.EXIT, 0)] * 2


def test_a_killed_agent_shows_as_lost_and_leaves_no_process(host: LocalHost) -> None:
    """A journal that stops in mid-run says so for each command and stage that was to come."""
    pids: list[int] = []

    def kill(event: Event) -> None:
        if event["event"] == "command_started":
            agent = json.loads((host.workdir / "runs/run-1/agent.json").read_text())
            pids.extend((agent["pid"], event["pid"]))
            os.kill(agent["pid"], signal.SIGKILL)

    jobs = [
        job("one", shell("long", "sleep 1000"), shell("next", ":")),
        job("two", shell("b", ":")),
    ]
    (one, two), events = host.run(jobs, on_event=kill)
    assert events[-1]["event"] == "agent_lost", events
    assert [c.ended_by for c in one.commands] == [EndedBy.LOST, EndedBy.HELD_BACK]
    assert two.not_run == "the agent on the host was lost before it ran this"
    assert [is_running(pid) for pid in pids] == [False, False]


@pytest.mark.limit(60)
def test_a_stopped_agent_is_reported_given_up_and_collected_when_it_goes_on(
    host: LocalHost,
) -> None:
    host.silence_s, host.give_up_s = 0.5, 1.5
    agents: list[int] = []

    events: list[Event] = []

    def stop(event: Event) -> None:
        events.append(event)
        if event["event"] == "command_started":
            agents.append(json.loads((host.workdir / "runs/run-1/agent.json").read_text())["pid"])
            os.kill(agents[0], signal.SIGSTOP)
            (host.workdir / "runs/run-1/go").touch()  # not before: the run might be over by then

    wait = "while [ ! -e ../../go ]; do sleep 0.01; done"
    jobs = [job("one", shell("a", f"{wait}; echo ran >> ../../../../ran"), shell("b", ":"))]
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    missing = link.bring_back("run-1", host.back, jobs, stop)
    assert missing.may_come
    (said,) = missing.names
    begins = "host: the agent of run-1 does not answer: no heartbeat from the agent for "
    ends = f" s, process {agents[0]} there is stopped, or waits for memory or its disk"
    assert (said.startswith(begins), said.endswith(ends)) == (True, True)
    notes = [e["text"] for e in events if e["event"] == "note"]
    assert [text.startswith("no heartbeat from the agent for ") for text in notes] == [True]
    assert (host.back / "journal.jsonl").is_file()
    os.kill(agents[0], signal.SIGCONT)
    assert link.bring_back("run-1", host.back, jobs, events.append) == Missing()
    (one,) = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    assert [c.exit_code for c in one.commands] == [0, 0]
    assert (host.workdir / "ran").read_text() == "ran\n"


def test_a_clock_that_jumps_makes_no_agent_silent(host: LocalHost) -> None:
    host.silence_s, host.give_up_s = 20.0, 30.0
    jumps = "for i in 1 2 3; do touch -d 1990-01-01 ../../heartbeat ../../agent.json; done"
    (result,), events = host.run([job("one", shell("a", jumps), shell("b", "sleep 0.2"))])
    assert [c.exit_code for c in result.commands] == [0, 0]
    assert [e for e in events if e["event"] == "note"] == []


def test_a_cancelled_run_ends_at_once_and_says_so(host: LocalHost) -> None:
    def cancel(event: Event) -> None:
        if event["event"] == "command_started":
            assert host.link().cancel("run-1") is True

    jobs = [
        job("one", shell("long", "sleep 1000"), shell("next", ":")),
        job("two", shell("b", ":")),
    ]
    (one, two), events = host.run(jobs, on_event=cancel)
    assert [(c.ended_by, c.detail) for c in one.commands] == [
        (EndedBy.CANCELLED, "the run was cancelled"),
        (EndedBy.HELD_BACK, "the run was cancelled"),
    ]
    assert two.not_run == "the run was cancelled"
    assert (one.cancelled, two.cancelled) == (True, True)
    assert events[-1]["reason"] == "the run was cancelled"
    assert host.link().cancel("run-1") is False


def test_a_stage_waits_for_the_stages_it_needs(host: LocalHost) -> None:
    jobs = [
        job("checksum", shell("a", "exit 71")),
        job("timing", shell("b", ":"), needs=("checksum",)),
        job("profile", shell("c", ":"), needs=("timing",)),
        job("apart", shell("d", ":"), needs=("not in this plan",)),
    ]
    (_, timing, profile, apart), _ = host.run(jobs)
    assert timing.not_run == "needs 'checksum', which did not pass"
    assert profile.not_run == "needs 'timing', which was not run"
    assert only(apart.commands).exit_code == 0


def test_nothing_is_run_that_would_hang_as_an_earlier_stage_did(host: LocalHost) -> None:
    jobs = [
        job("smoke", shell("a", "sleep 1000", 0.1), shell("b", "echo ran >> ../../ran")),
        job("racecheck", shell("c", "echo ran >> ../../ran"), needs_end=("smoke",)),
        job("timing", shell("d", ":"), needs=("racecheck",)),
        job("apart", shell("e", ":")),
    ]
    (smoke, racecheck, timing, apart), _ = host.run(jobs)
    assert [c.ended_by for c in smoke.commands] == [EndedBy.TIME_LIMIT, EndedBy.HELD_BACK]
    assert smoke.commands[1].detail == "an earlier command was ended at its time limit"
    assert racecheck.not_run == "'smoke' was ended at its time limit: this would hang the same way"
    assert not (host.workdir / "runs/run-1/ran").exists()
    assert timing.not_run == "needs 'racecheck', which was not run"
    assert only(apart.commands).exit_code == 0


def test_a_stage_that_failed_but_ended_holds_back_only_those_that_need_it(host: LocalHost) -> None:
    jobs = [
        job("smoke", shell("a", "exit 71"), shell("b", "kill -SEGV $$")),
        job("racecheck", shell("c", ":"), needs_end=("smoke", "not in this plan")),
    ]
    (_, racecheck), _ = host.run(jobs)
    assert only(racecheck.commands).exit_code == 0


def test_stop_at_first_ends_the_run_after_the_stage_that_did_not_pass(host: LocalHost) -> None:
    jobs = [job("one", shell("a", "exit 1"), shell("b", ":")), job("two", shell("c", ":"))]
    (one, two), _ = host.run(jobs, stop_at_first=True)
    assert [c.exit_code for c in one.commands] == [1, 0]
    assert two.not_run == "stopped at the first stage that did not pass, 'one'"


FAKE_SMI = """
case "$1" in
-q) echo "==============NVSMI LOG==============" ;;
--query-gpu=*,compute_cap,*) cat "$(dirname "$0")/gpu.csv" ;;
--version) echo "NVIDIA-SMI version  : 580.159.04" ;;
esac
"""
H200 = (
    "NVIDIA H200, GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb, 580.159.04, 9.0, 00000000:00:06.0,"
    " 345, 3201, 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0\n"
)

# Speaks the CUDA driver's side of a user-triggered core dump: a pipe to read, a core to write.
HANGING = """
import os, sys, time
pipe, core = (os.environ[n].replace("%p", str(os.getpid())) for n in
              ("CUDA_COREDUMP_PIPE", "CUDA_COREDUMP_FILE"))
assert os.environ["CUDA_ENABLE_USER_TRIGGERED_COREDUMP"] == "1"
os.mkfifo(pipe)
with open(pipe, "rb") as f:
    f.read(1)
with open(core, "wb") as f:
    f.write(b"CUDA core")
sys.exit("cudaDeviceSynchronize(): unspecified launch failure")
"""


def test_a_hung_kernel_is_dumped_before_it_is_ended(host: LocalHost) -> None:
    host.on_path("nvidia-smi", FAKE_SMI)
    host.on_path("cuda-gdb", 'echo "$4"; cat "${4##* }"; echo; echo "$@"')
    hang = shell("hang", "")
    command = type(hang)("hang", (PYTHON, "-c", HANGING), 0.5, core_dump=True)
    (result,), _ = host.run([job("smoke", command)])
    folder = host.back / "stages/01-smoke"
    assert only(result.commands).ended_by is EndedBy.TIME_LIMIT
    assert only(result.commands).detail == "it ran 0.5 s, its limit; core dumped"
    assert (folder / "hang.gdb.txt").read_text().splitlines() == [
        "target cudacore hang.core",
        "CUDA core",
        "-nx -batch -ex target cudacore hang.core -ex info cuda kernels -ex info cuda threads",
    ]
    assert sorted(p.name for p in folder.iterdir()) == [
        "hang.command",
        "hang.core",
        "hang.gdb.txt",
        "hang.nvidia-smi.txt",
        "hang.stderr.log",
        "hang.stdout.log",
    ]


def test_a_hang_outside_cuda_has_no_core_and_says_why(host: LocalHost) -> None:
    (result,), _ = host.run([job("smoke", shell("hang", "sleep 1000", 0.1, core_dump=True))])
    detail = only(result.commands).detail
    assert detail == "it ran 0.1 s, its limit; no core dump: the program opened no dump pipe"


DEAD_DRIVER = """
extern "C" int cuInit(unsigned) { return 999; }
extern "C" int cuGetErrorString(int, const char **text) { *text = "unknown error"; return 0; }
"""


def test_a_gpu_that_no_longer_answers_ends_the_run(host: LocalHost) -> None:
    host.on_path("nvidia-smi", FAKE_SMI)
    host.file("tools/gpu.csv", H200)
    source = host.file("driver/cuda.cpp", DEAD_DRIVER)
    library = source.with_name("libcuda.so.1")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    host.env = {"LD_LIBRARY_PATH": str(library.parent)}
    jobs = [job("one", shell("a", "exit 70"), shell("b", ":")), job("two", shell("c", ":"))]
    (one, two), _ = host.run(jobs)
    assert one.gpu_healthy_after is False
    gone = "the GPU no longer answers after one/a: cuInit returned 999: unknown error"
    assert [(c.ended_by, c.detail) for c in one.commands] == [
        (EndedBy.EXIT, ""),
        (EndedBy.NOT_STARTED, gone),
    ]
    assert two.not_run == gone


def test_a_cached_result_is_reused_with_its_files(host: LocalHost) -> None:
    test = shell(
        "self", "echo found > report.xml; echo ran >> ../../../../ran", cache_key="tool 1.0"
    )
    (first,), _ = host.run([job("memcheck", test)], run_id="run-1")
    (second,), _ = host.run([job("memcheck", test)], run_id="run-2")
    assert only(first.commands).reused_from == ""
    assert only(second.commands).reused_from != ""
    assert only(second.commands).exit_code == 0
    assert (host.workdir / "ran").read_text() == "ran\n"
    again = host.workdir / "runs/run-2/stages/01-memcheck"
    assert (again / "report.xml").read_text() == "found\n"


def test_a_cached_result_that_was_altered_is_made_again(host: LocalHost) -> None:
    test = shell("self", "echo found > report.xml", cache_key="tool 1.0")
    host.run([job("memcheck", test)], run_id="run-1")
    (kept,) = (host.workdir / "result_cache").glob("*/files/report.xml")
    kept.write_text("none\n")
    (second,), _ = host.run([job("memcheck", test)], run_id="run-2")
    assert only(second.commands).reused_from == ""
    assert kept.read_text() == "found\n"


def test_a_cached_result_that_was_not_good_is_not_kept(host: LocalHost) -> None:
    host.run([job("memcheck", shell("self", "exit 1", cache_key="tool 1.0"))])
    assert not (host.workdir / "result_cache").exists()


def test_an_agent_without_requests_ends_and_the_next_request_connects_again(
    host: LocalHost,
) -> None:
    """As one does whose link fell silent: its sshd may hold the channel for hours."""
    link = host.link(idle_s=0.1)
    assert host.opener.channels[0].process.wait(20) == 75
    assert link.health()[0] is None
    assert host.opener.opened == 2


def test_a_client_that_follows_or_waits_for_a_reply_is_not_idle(host: LocalHost) -> None:
    """Its agent lives as long as the stage under way, which is longer than the limit."""
    jobs = (job("one", shell("a", "while [ ! -e go ]; do sleep 0.01; done", 20.0)),)
    waits = host.workdir / "runs/run-1/stages/01-one"
    host.link(idle_s=0.5)
    launched = host.link(idle_s=0.5)
    launched.launch("run-1", jobs, {}, stop_at_first=False)
    opened = host.opener.opened

    def release(event: Event) -> None:
        if event["event"] == "command_started":
            # The agent of the link that asks for nothing is idle meanwhile, and ends.
            assert host.opener.channels[opened - 2].process.wait(20) == 75
            (waits / "go").touch()

    launched.follow("run-1", release, jobs)
    assert host.opener.opened == opened
    assert launched.cancel("run-1") is False


@pytest.mark.long
def test_an_agent_that_is_stopped_is_cancelled_all_the_same(host: LocalHost) -> None:
    jobs = (job("one", shell("long", "sleep 1000")), job("two", shell("b", ":")))
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    pid = int(json.loads((host.workdir / "runs/run-1/agent.json").read_bytes())["pid"])
    os.kill(pid, signal.SIGSTOP)
    assert link.cancel("run-1") is True
    assert not is_running(pid)
    link.bring_back("run-1", host.back, jobs, lambda _: None)
    one, two = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    # It may have been stopped before it began with the command, or with the stage.
    ended = [c.ended_by for c in one.commands]
    assert ended in ([EndedBy.LOST], [EndedBy.NOT_STARTED]) or one.not_run == LOST
    assert two.not_run == LOST
