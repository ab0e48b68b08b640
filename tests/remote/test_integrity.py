"""A program of a run that changes what the run rests on ends the run; nothing false is counted."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Command, EndedBy, Outcome, Stage, StageResult
from kernelrig.remote.journal import read_journal
from kernelrig.stages import read_stage

from tests.remote.local_host import PYTHON, Event, LocalHost, deep_folder, job, shell
from tests.stages.bench import context

REPLACED = "printf '#!/bin/sh\\nexit 0\\n' > stub; chmod 755 stub; mv stub ../../build/program"


def program(host: LocalHost) -> dict[str, Path]:
    return {"build/program": host.file("program", "#!/bin/sh\nexit 71\n", 0o755)}


def changed(results: tuple[StageResult, ...]) -> list[str]:
    return [r.changed for r in results]


@pytest.mark.parametrize(
    "script",
    [
        REPLACED,
        "chmod u+w ../../build/program; printf '#!/bin/sh\\nexit 0\\n' > ../../build/program",
        "chmod 777 ../../build/program",
        "mv ../../build/program real; ln -s $PWD/real ../../build/program",
        "mv ../../build aside; ln -s $PWD/aside ../../build",
        "rm ../../build/program",
    ],
)
def test_a_program_that_a_stage_replaced_is_not_started(host: LocalHost, script: str) -> None:
    files = program(host)
    jobs = [
        job("smoke", shell("a", script), shell("b", "../../build/program")),
        job("checksum", shell("c", "../../build/program")),
    ]
    (smoke, checksum), events = host.run(jobs, files=files)
    text = "build/program was changed on the host during the run"
    assert [(c.ended_by, c.detail) for c in smoke.commands] == [
        (EndedBy.EXIT, ""),
        (EndedBy.NOT_STARTED, text),
    ]
    assert (smoke.changed, checksum.not_run) == (text, text)
    assert events[-1]["reason"] == text
    (sha,) = {sha256_file(path) for path in files.values()}
    blob = host.workdir / "blobs" / sha
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == sha


def test_a_change_by_the_last_command_counts_too(host: LocalHost) -> None:
    (only,), _ = host.run([job("smoke", shell("a", REPLACED))], files=program(host))
    assert only.changed == "build/program was changed on the host during the run"


@pytest.mark.parametrize("code", [0, 71])
def test_a_stage_that_changed_a_file_is_an_error_whatever_it_exits_with(
    tmp_path: Path, code: int
) -> None:
    host = LocalHost(tmp_path)
    jobs = [job("smoke", shell("a", f"{REPLACED}; exit {code}"))]
    (result,), _ = host.run(jobs, files=program(host))
    host.close()
    stage = Stage("smoke", jobs[0].kind, patterns=())
    record = read_stage(stage, jobs[0], result, host.back / "stages/01-smoke", context())
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "build/program was changed on the host during the run: nothing of this stage counts"
    )


@pytest.mark.parametrize(
    ("script", "text", "both"),
    [
        (
            "mkdir ../03-timing; echo fast > ../03-timing/timing.json",
            "stages/03-timing was put there on the host during the run",
            False,
        ),
        (
            "echo good > ../01-smoke/a.stdout.log",
            "stages/01-smoke/a.stdout.log was changed on the host during the run",
            True,
        ),
        (
            "touch ../01-smoke/new.json",
            "stages/01-smoke/new.json was changed on the host during the run",
            True,
        ),
        (
            "mv ../../stages ../../aside; ln -s aside ../../stages",
            "run-1/stages was replaced on the host during the run",
            False,
        ),
    ],
)
def test_a_stage_writes_into_no_folder_but_its_own(
    host: LocalHost, script: str, text: str, both: bool
) -> None:
    jobs = [
        job("smoke", shell("a", "echo bad; exit 1")),
        job("checksum", shell("b", script)),
        job("timing", shell("c", ":")),
    ]
    (smoke, checksum, timing), _ = host.run(jobs)
    assert (checksum.changed, timing.not_run) == (text, text)
    assert smoke.changed == (text if both else "")


def test_a_journal_that_a_stage_forges_is_written_anew(host: LocalHost) -> None:
    forged = (
        'sed "s/smoke/timing/g; s/\\"index\\": 1/\\"index\\": 2/" ../../journal.jsonl > j;'
        ' echo \'{"event": "finished", "reason": "all stages were run"}\' >> j;'
        " cp j ../../journal.jsonl"
    )
    jobs = [job("smoke", shell("a", forged)), job("timing", shell("b", ":"))]
    (smoke, timing), _ = host.run(jobs)
    text = "journal.jsonl was changed on the host during the run"
    assert (smoke.changed, timing.not_run) == (text, text)


def test_the_end_that_a_stage_forges_is_not_believed_while_the_agent_lives(
    host: LocalHost,
) -> None:
    def release(event: Event) -> None:
        if event["event"] == "command_started":
            (host.workdir / "runs/run-1/go").touch()

    forged = (
        "while [ ! -e ../../go ]; do sleep 0.01; done;"
        ' echo \'{"event": "finished", "reason": "all stages were run"}\' >> ../../journal.jsonl;'
        " sleep 0.3; exit 3"
    )
    (smoke,), events = host.run([job("smoke", shell("a", forged))], on_event=release)
    assert smoke.commands[0].exit_code == 3
    assert smoke.changed == "journal.jsonl was changed on the host during the run"
    assert events[-1]["reason"] == smoke.changed


def test_the_agent_writes_nothing_through_a_link_that_a_stage_left(host: LocalHost) -> None:
    (host.folder / "elsewhere").mkdir()
    target = host.folder / "elsewhere"
    (target / "b.stdout.log").write_text("kept\n")
    script = f"cd ..; mv 01-smoke aside; ln -s {target} 01-smoke"
    jobs = [job("smoke", shell("a", script), shell("b", "echo lost"))]
    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False)
    link.bring_back("run-1", host.back, jobs, lambda _: None)
    (smoke,) = read_journal(host.back / "journal.jsonl", jobs, "run-1")
    assert smoke.changed == "stages/01-smoke was replaced on the host during the run"
    assert {p.name: p.read_text() for p in target.iterdir()} == {"b.stdout.log": "kept\n"}


def test_what_stands_where_a_log_belongs_is_removed_not_followed(host: LocalHost) -> None:
    target = host.file("elsewhere", "kept\n")
    script = f"ln -s {target} table.csv"
    table = replace(shell("b", "echo here"), stdout="table.csv")
    (smoke,), _ = host.run([job("smoke", shell("a", script), table)])
    assert [c.exit_code for c in smoke.commands] == [0, 0]
    assert target.read_text() == "kept\n"
    assert (host.back / "stages/01-smoke/table.csv").read_text() == "here\n"


def test_a_stage_that_removes_its_logs_and_locks_its_folder_keeps_its_limits(
    host: LocalHost,
) -> None:
    script = "rm a.stdout.log a.stderr.log; chmod 000 .; while :; do echo again; done"
    stage = job("smoke", shell("a", script), shell("b", "echo fine"), output_bytes=10_000)
    (smoke,), _ = host.run([stage])
    assert [c.ended_by for c in smoke.commands] == [EndedBy.OUTPUT_LIMIT, EndedBy.EXIT]
    assert (host.back / "stages/01-smoke/b.stdout.log").read_text() == "fine\n"


def test_a_cached_result_that_a_stage_plants_is_not_reused(host: LocalHost) -> None:
    """The name of an entry is a hash of its key, and the job with the key lies beside the run."""
    name = hashlib.sha256(b"tool 1.0").hexdigest()[:32]
    entry = f"../../../../result_cache/{name}"
    record = '{"files": {}, "exit": 0, "seconds": 1.0, "detail": "", "utc": "2026-01-01T00:00:00Z"}'
    script = f"mkdir -p {entry}; echo '{record}' > {entry}/result.json"
    jobs = [
        job("smoke", shell("a", script)),
        job("memcheck", shell("self", "exit 86", cache_key="tool 1.0")),
    ]
    (smoke, memcheck), _ = host.run(jobs)
    assert smoke.changed == f"result_cache/{name} was changed on the host during the run"
    assert memcheck.not_run == smoke.changed
    ((later,), _) = host.run([jobs[1]], run_id="run-2")
    assert later.commands[0].exit_code == 86


def archive(host: LocalHost) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in {
            "bin/tool": "#!/bin/sh\ncat ../../tools/lib\n",
            "lib": "found\n",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return host.file("tools.tar", packed.getvalue())


def test_a_shipped_tool_is_compared_with_all_its_files(host: LocalHost) -> None:
    use = replace(shell("tool", ""), argv=("../../tools/bin/tool",))
    jobs = [
        job("memcheck", use),
        job("smoke", shell("a", "echo nothing > ../../tools/lib"), replace(use, name="again")),
    ]
    (memcheck, smoke), _ = host.run(jobs, files={"tools/": archive(host)})
    assert (host.back / "stages/01-memcheck/tool.stdout.log").read_text() == "found\n"
    assert memcheck.commands[0].exit_code == 0
    assert smoke.commands[1].ended_by is EndedBy.NOT_STARTED
    assert smoke.changed == "tools/lib was changed on the host during the run"


def test_a_tool_of_the_host_that_a_stage_replaced_is_not_started(host: LocalHost) -> None:
    host.on_path("compute-sanitizer", "exit 86")
    tool = host.folder / "here/tools/compute-sanitizer"
    use = replace(shell("tool", ""), argv=("compute-sanitizer", "--tool", "memcheck"))
    jobs = [job("smoke", shell("a", f"echo exit 0 > {tool}")), job("memcheck", use)]
    (_, memcheck), _ = host.run(jobs)
    assert memcheck.changed == f"{tool} was changed on the host during the run"


def test_a_run_that_changes_nothing_is_whole(host: LocalHost) -> None:
    files = {**program(host), "tools/": archive(host)}
    keyed = shell("self", "echo found > report.xml", cache_key="tool 1.0")
    for name in ("run-1", "run-2"):
        jobs = [job("one", shell("a", "../../tools/bin/tool; ../../build/program"), keyed)]
        results, _ = host.run(jobs, files=files, run_id=name)
        assert changed(results) == [""]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo 'sample_ms 9' > 00-a.samples", "00-a.samples was changed"),
        (
            "touch -r 00-a.samples t; echo 'sample_ms 8' > 00-a.samples; touch -r t 00-a.samples",
            "00-a.samples was changed",
        ),
        ("rm 00-a.samples; echo 'sample_ms 1' > 00-a.samples", "00-a.samples was changed"),
        ("echo 'sample_ms 9' >> 00-a.stdout.log", "00-a.stdout.log was changed"),
        ("echo 'sample_ms 9' > 02-a.samples", "02-a.samples was put there"),
        ("ln -s 01-b.stdout.log 02-a.json", "02-a.json was put there"),
    ],
)
def test_a_candidate_of_a_bench_writes_no_result_of_another(
    host: LocalHost, script: str, text: str
) -> None:
    """All of them share the stage's folder, and run one after the other."""
    measured = "echo 'sample_ms 1' > {}.samples"
    slots = (
        shell("00-a", measured.format("00-a")),
        shell("01-b", f"{measured.format('01-b')}; {script}"),
        shell("02-a", measured.format("02-a")),
    )
    (bench,), _ = host.run([job("bench", *slots)])
    assert bench.changed == f"stages/01-bench/{text} on the host during the run"
    assert [c.ended_by for c in bench.commands] == [
        *(EndedBy.EXIT, EndedBy.EXIT),
        EndedBy.NOT_STARTED,
    ]


def test_the_last_candidate_writes_no_result_of_another_either(host: LocalHost) -> None:
    slots = (shell("00-a", "echo 1 > 00-a.samples"), shell("01-b", "echo 9 > 00-a.samples"))
    (bench,), _ = host.run([job("bench", *slots)])
    assert bench.changed == "stages/01-bench/00-a.samples was changed on the host during the run"


@pytest.mark.parametrize(
    "hide",
    [
        "rm ../../job.json; mkdir ../../job.json",
        "echo > ../../job.json",
        "mkdir ../03-timing",
        "mv ../02-checksum ../../aside; mkdir ../02-checksum",
        "rm ../../journal.jsonl; mkdir ../../journal.jsonl",
        f"mkdir -p ../../../../result_cache/x; cd ../../../../result_cache/x; {deep_folder(1200)}",
    ],
    ids=["folder for a file", "own file", "new folder", "own folder", "journal", "deep folder"],
)
def test_one_change_hides_no_other_nor_keeps_it_from_being_found(
    host: LocalHost, hide: str
) -> None:
    """What a stage had left is rewritten by a later one, which draws attention to something else,
    or sees to it that the comparison cannot be made."""
    script = f"echo good > ../01-smoke/a.stdout.log; {hide}"
    jobs = [job("smoke", shell("a", "echo bad; exit 1")), job("checksum", shell("b", script))]
    try:
        (smoke, checksum), _ = host.run(jobs)
    except ProtocolError:  # no journal came: nothing is a verdict
        return
    finally:  # shutil.rmtree, by which pytest removes it, takes no folder so deep
        subprocess.run(("rm", "-rf", host.workdir / "result_cache"), check=True)
    assert smoke.changed or not smoke.commands
    assert checksum.changed or not checksum.commands


FORGES = """
import json, os, signal, time
if os.fork() == 0:
    os.setsid()
    agent = json.load(open("../../agent.json"))["pid"]
    os.kill(agent, signal.SIGSTOP)  # whoever sees that it died ends what it left behind
    named = {"utc": UTC, "t": 1.0, "stage": "smoke"}
    ended = {"command": "a", "ok": True, "started_utc": UTC, "ended_by": "exit", "detail": "",
             "exit": 0, "signal": None, "seconds": 0.5, "reused_from": "", "strays": 0}
    with open("../../journal.jsonl", "a") as journal:
        for event in (
            {"event": "command_ended", **named, **ended},
            {"event": "stage_ended", "ok": True, **named},
            {"event": "finished", "reason": "all stages were run", **named},
        ):
            journal.write(json.dumps(event) + "\\n")
    os.kill(agent, signal.SIGKILL)
    os._exit(0)
time.sleep(20)
os._exit(71)
"""


def test_a_program_that_kills_the_agent_cannot_write_its_journal_on(host: LocalHost) -> None:
    """It is wrong (exit 71), and says in the agent's name that it was right."""
    script = f"UTC = '2026-11-27T07:00:00Z'\n{FORGES}"
    jobs = [job("smoke", Command("a", (PYTHON, "-c", script), 60.0))]
    with pytest.raises(ProtocolError) as error:
        host.run(jobs)
    assert error.value.message == (
        f"{host.back / 'journal.jsonl'}:4: not sealed by the agent of the run:"
        " a program of the run, or its host, wrote it"
    )
