"""What a run left is collected as far as it is, and cleaned when nobody needs it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kernelrig.files.rundir import sha256_file
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import (
    Event,
    LocalHost,
    age,
    is_running,
    job,
    shell,
)

# collecting


def stamps(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*.log")}


def test_a_second_collect_brings_only_what_is_missing_or_altered(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "echo one"), shell("b", "echo two"))]
    host.run(jobs)
    folder = host.back / "stages/01-smoke"
    (folder / "a.stdout.log").unlink()
    (folder / "b.stderr.log").write_text("altered\n")
    before = stamps(folder)
    assert host.link().collect("run-1", host.back, jobs) == Missing()
    after = stamps(folder)
    assert {name for name in after if after[name] != before.get(name)} == {
        "a.stdout.log",
        "b.stderr.log",
    }
    assert (folder / "a.stdout.log").read_text() == "one\n"


def test_a_collect_over_a_link_that_drops_goes_on_with_the_next_file(host: LocalHost) -> None:
    script = "for i in 1 2 3 4; do head -c 50000 /dev/zero > $i; done"
    jobs = [job("smoke", shell("a", script))]
    host.run(jobs)
    again = host.folder / "again"
    host.opener.reads = [120_000]
    opened = host.opener.opened
    assert host.link().collect("run-1", again, jobs) == Missing()
    assert host.opener.opened == opened + 2
    assert [(again / f"stages/01-smoke/{i}").stat().st_size for i in range(1, 5)] == [50_000] * 4
    assert list(again.rglob("*.part")) == []


def test_a_run_that_is_still_going_can_be_collected_as_far_as_it_is(host: LocalHost) -> None:
    link = host.link()
    grow = shell("a", "echo begun; while :; do echo more; done", 60.0)
    jobs = [job("smoke", grow, output_bytes=1 << 40)]
    link.launch("run-1", jobs, {}, stop_at_first=False)
    log = host.workdir / "runs/run-1/stages/01-smoke/a.stdout.log"
    while not (log.is_file() and log.stat().st_size):
        os.sched_yield()
    assert link.collect("run-1", host.back, jobs) == Missing()
    assert link.cancel("run-1") is True
    assert (host.back / "stages/01-smoke/a.stdout.log").read_bytes().startswith(b"begun\nmore\n")


# cleaning


def test_clean_removes_old_runs_and_blobs_that_no_kept_run_uses(host: LocalHost) -> None:
    old, new = host.file("old", b"o" * 100_000, 0o755), host.file("new", b"n" * 1000, 0o755)
    host.run([job("smoke")], run_id="run-1", files={"build/p": old})
    host.run([job("smoke")], run_id="run-2", files={"build/p": new})
    age(host.workdir, 10)
    age(host.workdir / "runs/run-2", 1)
    freed = host.link().clean(5)
    assert [p.name for p in (host.workdir / "runs").iterdir()] == ["run-2"]
    assert [p.name for p in (host.workdir / "blobs").iterdir()] == [sha256_file(new)]
    assert 100_000 <= freed < 1_000_000


def test_work_folders_of_single_gpus_are_listed_and_cleaned_and_no_link_is_followed(
    host: LocalHost, tmp_path: Path
) -> None:
    host.run([job("smoke")], run_id="run-1", files={"build/p": host.file("old", b"o", 0o755)})
    own, elsewhere = host.workdir / "gpus/GPU-1", tmp_path / "elsewhere"
    for name in ("runs", "blobs"):
        shutil.copytree(host.workdir / name, own / name)
        shutil.copytree(host.workdir / name, elsewhere / name)
    (own / "runs/run-1").rename(own / "runs/run-2")
    (host.workdir / "gpus/GPU-2").symlink_to(elsewhere)
    listed, count = host.link().runs(20)
    assert ({r.id for r in listed}, count) == ({"run-1", "run-2"}, 2)
    age(host.workdir, 10)
    age(elsewhere, 10)
    host.link().clean(5)
    left = [p.name for folder in ("runs", "blobs") for p in (own / folder).iterdir()]
    assert left == []
    assert (elsewhere / "runs/run-1").is_dir()


def test_clean_keeps_a_run_that_has_just_ended_for_whoever_collects_it(host: LocalHost) -> None:
    jobs = [job("smoke", shell("a", "echo ran >> ../../../../ran"))]
    first = host.link()
    first.launch("run-1", jobs, {}, stop_at_first=False)
    first.follow("run-1", lambda _: None, ())
    assert first.clean(0) == 0
    # The reply to the launch was lost with its connection: the client asks again.
    host.link().launch("run-1", jobs, {}, stop_at_first=False)
    assert (host.workdir / "ran").read_text() == "ran\n"


def test_clean_leaves_a_run_that_goes_on_alone(host: LocalHost) -> None:
    link = host.link()
    link.launch("run-1", [job("smoke", shell("a", "sleep 1000"))], {}, stop_at_first=False)
    age(host.workdir, 10)
    link.clean(0)
    assert (host.workdir / "runs/run-1/job.json").is_file()
    pids: list[int] = []

    def stop(event: Event) -> None:
        if event["event"] == "command_started":
            pids.append(event["pid"])
            assert host.link().cancel("run-1") is True

    link.follow("run-1", stop, ())
    assert [is_running(pid) for pid in pids] == [False]
