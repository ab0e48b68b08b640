"""A session carries out its entries back to back, whatever dies on the way: each is run once."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.files.serialization import from_json
from kernelrig.model import Outcome, Remote, SessionResult
from lxml import etree

from tests.e2e.host import LoopbackHost, await_that
from tests.e2e.project import _SCHEMA, Answer, MakeProject, Project, read_run
from tests.remote.sshd_fixture import Sshd
from tests.rental.stand_in import StandIn

QUICK = """\
schema: 1
entries:
  made: {task: build, kernel: passes, arch: sm_90a}
  good: {task: remote-test, kernel: passes, plan: quick}
  bad: {task: remote-test, kernel: fails, plan: quick}
  behind-bad: {task: remote-test, kernel: passes, plan: quick, needs: [bad]}
  last: {task: remote-test, kernel: passes, plan: quick, needs: [made, good]}
"""
WAITS = """\
schema: 1
entries:
  first: {task: remote-test, kernel: passes, plan: quick}
  waits: {task: remote-test, kernel: waits, plan: patient}
  last: {task: remote-test, kernel: passes, plan: quick, needs: [waits]}
"""


def write(project: Project, text: str) -> None:
    (project.root / "night.yaml").write_text(text)


def result_of(project: Project) -> SessionResult:
    (path,) = project.root.glob("artifacts/sessions/*/session.json")
    return from_json(SessionResult, path)


def outcomes(project: Project) -> dict[str, Outcome | None]:
    return {row.name: row.outcome for row in result_of(project).rows}


def events(project: Project) -> list[dict[str, object]]:
    (path,) = project.root.glob("artifacts/sessions/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def junit(project: Project) -> dict[str, list[str]]:
    """Return what each case of each suite is, of a valid file."""
    (path,) = project.root.glob("artifacts/sessions/*/junit.xml")
    document = etree.parse(path)
    etree.XMLSchema(etree.parse(_SCHEMA)).assertValid(document)
    return {
        suite.get("name"): [
            next((e.tag for e in case if e.tag in ("failure", "error", "skipped")), "pass")
            for case in suite.iterfind("testcase")
        ]
        for suite in document.getroot().iterfind("testsuite")
    }


def session(project: Project, *words: str) -> Answer:
    return project.invoke("session", "night.yaml", *words)


def started(host: LoopbackHost) -> int:
    """Return how many commands were started on the host, in all runs."""
    runs = [p.name for p in host.workdir.glob("runs/*")]
    return sum(host.events(run).count("command_started") for run in runs)


def reused(planned: Answer) -> dict[str, str]:
    """Return the minutes of entries that a dry run calls reused."""
    rows = (line.split() for line in planned.stdout.splitlines() if "(reused:" in line)
    return {row[0]: " ".join(row[row.index("0") : -1]) for row in rows}


def test_a_failed_entry_stops_those_that_need_it_and_no_others(
    project: Project, host: LoopbackHost
) -> None:
    write(project, QUICK)
    planned = session(project, "--remote", "host", "--dry-run")
    assert planned.exit_code == 0, planned.stderr
    assert "minutes on hosts: unknown: good, bad, behind-bad, last" in planned.stdout
    assert not (project.root / "artifacts/sessions").exists()
    answer = session(project, "--remote", "host")
    assert (answer.exit_code, answer.sentences) == (1, []), answer.stderr
    assert answer.stdout.startswith("fail: session night-")
    assert outcomes(project) == {
        "made": Outcome.PASS,
        "good": Outcome.PASS,
        "bad": Outcome.FAIL,
        "behind-bad": Outcome.SKIP,
        "last": Outcome.PASS,
    }
    suites = junit(project)
    assert list(suites) == ["made", "good", "bad", "behind-bad", "last"]
    assert "failure" in suites["bad"]
    assert suites["behind-bad"] == ["skipped"]
    assert suites["made"] == ["pass"]
    runs = [row.runs for row in result_of(project).rows]
    assert [len(r) for r in runs] == [0, 1, 1, 0, 1]
    folder = project.root / "artifacts/runs"
    assert all((folder / name / "junit.xml").is_file() for names in runs for name in names)
    again = session(project, "--remote", "host")
    assert again.exit_code == 1
    assert "every entry has its verdict: nothing is left to do" in again.stderr
    assert "minutes on hosts" not in again.stderr


@pytest.mark.long
def test_what_has_ended_is_not_done_again_unless_it_is_asked_for(
    project: Project, host: LoopbackHost
) -> None:
    write(project, QUICK)
    assert session(project, "--remote", "host").exit_code == 1
    before = started(host)
    again = session(project, "--remote", "host", "--json")
    assert json.loads(again.stdout)["session"]["rows"][2]["exit_code"] == again.exit_code == 1
    assert started(host) == before
    assert reused(session(project, "--remote", "host", "--dry-run")) == {
        "good": "0 (reused: pass)",
        "bad": "0 (reused: did not pass)",
        "last": "0 (reused: pass)",
    }
    planned = session(project, "--remote", "host", "--again", "good", "--dry-run")
    assert list(reused(planned)) == ["bad", "last"]
    assert "in earlier runs)" in planned.stdout
    more = session(project, "--remote", "host", "--again", "good")
    assert more.exit_code == 1
    assert started(host) > before


@pytest.mark.long
def test_nothing_is_connected_to_before_all_entries_were_tried_here(
    project: Project, host: LoopbackHost
) -> None:
    broken = "  broken: {task: remote-test, kernel: breaks, plan: quick}\n"
    write(project, QUICK.replace("  made:", broken + "  made:"))
    kernels = project.root / "kernel/kernels.yaml"
    (project.root / "kernel/breaks.cpp").write_text("int main() { return 0 }\n")
    kernels.write_text(
        kernels.read_text()
        + "  breaks: {level: 0, cuda: false, sources: {sm_90a: breaks.cpp},"
        + " variants: {production: {program: breaks}}}\n"
    )
    answer = session(project, "--remote", "host")
    assert answer.exit_code == 1, answer.stderr
    said = answer.progress
    tried = [i for i, line in enumerate(said) if line.endswith("what needs no host")]
    (first, *_) = (i for i, line in enumerate(said) if line.startswith("host "))
    assert len(tried) == 6
    assert max(tried) < first
    rows = {row.name: row for row in result_of(project).rows}
    assert (rows["broken"].outcome, rows["broken"].exit_code) == (Outcome.FAIL, 3)
    assert rows["broken"].remote == ""
    assert len(rows["broken"].runs) == 1
    assert rows["last"].outcome is Outcome.PASS


def test_a_client_killed_in_mid_stage_is_gone_on_with(project: Project, host: LoopbackHost) -> None:
    write(project, WAITS)
    with project.start("session", "night.yaml", "--remote", "host") as client:
        client.hear("host waits: program: started")
        client.process.kill()
    (opened,) = (str(e["run"]) for e in events(project) if e.get("entry") == "waits")
    host.await_event(opened, "command_started")
    host.go()
    answer = session(project, "--remote", "host")
    assert (answer.exit_code, answer.sentences) == (0, []), answer.stderr
    require_once(project)
    assert host.events(opened).count("command_started") == 1


@pytest.mark.long
def test_a_run_of_an_entry_that_has_changed_since_is_no_verdict_on_it(
    project: Project, host: LoopbackHost
) -> None:
    write(project, WAITS)
    with project.start("session", "night.yaml", "--remote", "host") as client:
        client.hear("host waits: program: started")
        client.process.kill()
    kernels = project.root / "kernel/kernels.yaml"
    text = kernels.read_text()
    assert text.count('"--say", "after"]') == 1
    kernels.write_text(text.replace('"--say", "after"]', '"--exit", "3"]'))
    host.go()
    answer = session(project, "--remote", "host")
    assert answer.exit_code == 1, answer.stderr
    assert outcomes(project) == {
        "first": Outcome.PASS,
        "waits": Outcome.FAIL,
        "last": Outcome.SKIP,
    }
    ended = [e for e in events(project) if e["event"] == "ended" and e["entry"] == "waits"]
    assert [e["outcome"] for e in ended] == ["pass", "fail"]


@pytest.mark.long
def test_an_open_run_on_a_remote_that_is_not_named_is_said(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    other = LoopbackHost(host.sshd, tmp_path / "other")
    project = make(host.remote(), other.remote(name="other"))
    write(project, WAITS)
    with project.start("session", "night.yaml", "--remote", "host") as client:
        client.hear("host waits: program: started")
        client.process.kill()
    other.workdir.mkdir(exist_ok=True)
    other.go()
    answer = session(project, "--remote", "other")
    assert answer.exit_code == 6, answer.stderr
    assert answer.shows("is open on host: name that remote, or give it up with --again waits")
    answer = session(project, "--remote", "other", "--again", "waits")
    assert answer.exit_code == 0, answer.stderr
    host.go()


def require_once(project: Project) -> None:
    """Each entry has one verdict, of one run, and every run of the host is one of them."""
    rows = result_of(project).rows
    assert {row.outcome for row in rows} == {Outcome.PASS}
    runs = [r for row in rows for r in row.runs]
    assert len(runs) == len(set(runs)) == len(rows)
    ended = Counter(str(e["entry"]) for e in events(project) if e["event"] == "ended")
    assert set(ended.values()) == {1}


@pytest.mark.long
def test_an_interrupted_session_leaves_its_run_to_the_host(
    project: Project, host: LoopbackHost
) -> None:
    write(project, WAITS)
    with project.start("session", "night.yaml", "--remote", "host") as client:
        client.hear("host waits: program: started")
        client.process.send_signal(signal.SIGTERM)
        answer = client.end()
    assert answer.exit_code == 6
    assert "incomplete" in {read_run(run).state for run in project.runs()}
    assert outcomes(project) == {"first": Outcome.PASS, "waits": None, "last": None}
    assert junit(project)["waits"][0] == "error"
    host.go()
    assert session(project, "--remote", "host").exit_code == 0
    require_once(project)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_clients_killed_at_any_instant_lose_nothing_and_double_nothing(
    project: Project, host: LoopbackHost, seed: int
) -> None:
    """A client is killed at a line that a seed chooses, until one reaches the end."""
    rng = random.Random(seed)
    write(project, WAITS.replace("patient", "quick").replace("kernel: waits", "kernel: passes"))
    for _ in range(8):
        lines = rng.randint(1, 40)
        with project.start("session", "night.yaml", "--remote", "host") as client:
            while lines and client.process.stderr and client.process.stderr.readline():
                lines -= 1
            client.process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
            client.process.wait()
    answer = session(project, "--remote", "host")
    assert answer.exit_code == 0, answer.stderr
    require_once_on_host(project, host)


def require_once_on_host(project: Project, host: LoopbackHost) -> None:
    rows = result_of(project).rows
    assert {row.outcome for row in rows} == {Outcome.PASS}
    for row in rows:
        begun = [r for r in row.runs if "command_started" in host.events(r)]
        assert len(begun) == 1, row
    known = {r for row in rows for r in row.runs}
    on_host = {
        p.name for p in host.workdir.glob("runs/*") if "command_started" in host.events(p.name)
    }
    assert on_host <= known


@pytest.mark.long
def test_a_dead_host_takes_no_entry_with_it(
    make: MakeProject, host: LoopbackHost, sshd: Sshd, tmp_path: Path
) -> None:
    dead = sshd.remote(name="dead", connect_timeout_s=2.0)
    sshd.stop()
    project = make(host.remote(), dead)
    write(project, QUICK)
    alone = session(project, "--remote", "dead")
    assert alone.exit_code == 6, alone.stderr
    assert outcomes(project)["good"] is None
    answer = session(project, "--remote", "dead,host")
    assert answer.exit_code == 1, answer.stderr
    assert any(line.startswith("dead is not used any more: ") for line in answer.progress)
    rows = result_of(project).rows
    assert {row.remote for row in rows if row.runs} == {"host"}
    assert outcomes(project)["last"] is Outcome.PASS


@pytest.mark.long
def test_entries_are_spread_over_hosts(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    other = LoopbackHost(host.sshd, tmp_path / "other")
    project = make(host.remote(), other.remote(name="other"))
    text = "schema: 1\nentries:\n" + "".join(
        f"  e{i}: {{task: remote-test, kernel: waits, plan: patient}}\n" for i in range(2)
    )
    write(project, text)
    with project.start("session", "night.yaml", "--remote", "host,other") as client:
        client.hear("program: started")
        client.hear("program: started")  # while the first one waits
        await_that(lambda: started(host) == started(other) == 1, "both commands")
        host.go()
        other.go()
        answer = client.end()
    assert answer.exit_code == 0, answer.stderr
    assert {row.remote for row in result_of(project).rows} == {"host", "other"}


@pytest.mark.long
def test_the_limits_hold_over_the_whole_session(project: Project, host: LoopbackHost) -> None:
    write(project, QUICK.replace("schema: 1\n", "schema: 1\nmax_minutes: 0.0001\n"))
    answer = session(project, "--remote", "host")
    assert answer.exit_code == 6, answer.stderr
    assert "raise max_minutes or max_cost" in " ".join(answer.stdout.split())
    known = outcomes(project)
    assert known["last"] is None
    write(project, QUICK.replace("schema: 1\n", "schema: 1\nmax_minutes: 60\n"))
    assert session(project, "--remote", "host").exit_code == 1
    assert outcomes(project)["last"] is Outcome.PASS


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_host_is_rented_around_the_entries(
    make: MakeProject, host: LoopbackHost, tmp_path: Path, killed: bool
) -> None:
    project, provider = make(), StandIn.make(tmp_path / "state", host.remote())
    at = {"identity_file": str(host.sshd.identity), "workdir": str(host.workdir)}
    provider.write(project.root, **at, boot_s=5.0)
    write(project, WAITS.replace("schema: 1\n", "schema: 1\nrent: true\n"))
    if killed:
        with project.start("session", "night.yaml", "--remote", "rented") as client:
            client.hear("rented waits: program: started")
            client.process.kill()
        assert len(provider.hosts) == 1
    host.workdir.mkdir(exist_ok=True)
    host.go()
    answer = session(project, "--remote", "rented")
    assert (answer.exit_code, answer.sentences) == (0, []), answer.stderr
    assert (provider.most_hosts, provider.hosts) == (1, [])
    assert config.load_remotes(project.root)["rented"].host == ""
    result = result_of(project)
    assert result.billed_minutes > result.minutes > 0
    assert f"; those it rented were billed for {result.billed_minutes:.1f} min" in answer.stdout
    assert result_of(project).cost is not None


@pytest.mark.long
def test_no_host_is_rented_for_entries_that_fail_here(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    project, provider = make(), StandIn.make(tmp_path / "state", host.remote())
    provider.write(project.root)
    (project.root / "kernel/cpu_program.cpp").write_text("int main() { return 0 }\n")
    (project.root / "artifacts/builds").unlink()
    write(project, QUICK.replace("schema: 1\n", "schema: 1\nrent: true\n"))
    answer = session(project, "--remote", "rented")
    assert answer.exit_code == 3, answer.stderr
    assert provider.most_hosts == 0


@pytest.mark.long
def test_a_remote_that_is_not_there_is_named_before_anything_is_compiled(
    make: MakeProject,
) -> None:
    project = make(
        Remote("rental", "sm_90a", up=("x",), status=("x", "{request}"), down=("x", "{id}"))
    )
    write(project, QUICK)
    for words, said in (
        ((), "no remote was named, and entry 'good' needs one"),
        (("--remote", "nowhere"), "unknown remote 'nowhere'"),
        (("--remote", "rental"), "remote 'rental' is not up"),
    ):
        answer = session(project, *words)
        assert (answer.exit_code, len(answer.sentences)) == (2, 1)
        assert answer.sentences[0].startswith(said)
    assert not (project.root / "artifacts/sessions").exists()


def test_a_verdict_on_an_entry_is_of_the_input_files_that_its_program_read(
    project: Project, host: LoopbackHost
) -> None:
    (project.root / "kernel/reads.cpp").write_text(
        "#include <fstream>\n"
        "int main(int, char **argv) { return std::ifstream(argv[1]).get() - '0'; }\n"
    )
    kernels = project.root / "kernel/kernels.yaml"
    kernels.write_text(
        kernels.read_text().replace("schema: 1", "schema: 3")
        + "  reads: {level: 0, cuda: false, sources: {sm_90a: reads.cpp}, args: [input.txt],"
        + " files: [input.txt], variants: {production: {program: reads}}}\n"
    )
    write(
        project,
        "schema: 1\nentries:\n  only: {task: remote-test, kernel: reads, plan: quick}\n",
    )
    text = project.root / "kernel/input.txt"
    text.write_text("0")
    assert session(project, "--remote", "host").exit_code == 0
    text.write_text("1")
    answer = session(project, "--remote", "host")
    assert answer.exit_code == 1, answer.stderr
    assert outcomes(project) == {"only": Outcome.FAIL}
