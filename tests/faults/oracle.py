"""What must hold after a fault: nothing lost, doubled or left behind, and nothing claimed."""

from __future__ import annotations

import contextlib
import fcntl
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernelrig.files.rundir import sha256_file
from kernelrig.model import Outcome, Run, Verdict
from kernelrig.remote.host_files import local_name

from tests.e2e.project import Answer, read_run
from tests.faults.site import STAGES, Site, processes_of

LEAVE_S = 20.0
"""What a process may take to notice that its run is over."""
COLLECTS = 3
"""How often the advice of an incomplete run is followed."""
PROGRESS = re.compile(r"(run|compiling|shipped|embedded) |[\w/ .-]+: (started|ended)|$")


@dataclass(frozen=True)
class Expected:
    """What a kind of fault may lead to.

    `exits` are the exit codes of the call that the fault met, a signal's number negative, and
    `final` those of the last `collect`. `stages` are the final outcomes, of those that are not
    `pass`; None: whatever was executed shows. Without `runs` nothing is started at all.
    `gone`: the host has lost the run's files; `forged`: it says what it likes of single stages.
    `missing`: files that cannot come, by a part of their name, each with a part of the reason that
    is to be said. `heal` is what a person does before
    the next run.
    """

    exits: tuple[int, ...] = (0,)
    final: tuple[int, ...] = (0,)
    stages: Mapping[str, Outcome] | None = field(default_factory=dict)
    runs: bool = True
    gone: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    forged: bool = False
    heal: Callable[[], object] = field(default=lambda: None)


@dataclass
class Findings:
    """What is wrong, by column of the table."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        found = vars(self).items()
        return "\n".join(f"{what}: {line}" for what, lines in found for line in lines)


def follow_advice(site: Site, answer: Answer, found: Findings) -> Answer:
    """Collect as an incomplete run says, or as whoever killed its client would; return the last."""
    run_id = run_of(answer)
    for _ in range(COLLECTS):
        ended_by_signal = answer.exit_code is None or answer.exit_code < 0
        if not run_id or not (answer.exit_code == 6 or ended_by_signal):
            break
        if answer.exit_code == 6:
            launched = read_run(site.run_folder(run_id)).state not in ("prepared", "finished")
            advised = f"invoke collect {run_id}" in answer.stdout + answer.stderr
            if launched != advised:
                heard = answer.stdout + answer.stderr
                found.wrong.append(f"exit 6 and launched: {launched}, but:\n{heard}")
            if not launched:
                break
        answer = site.ask("collect", run_id)
        check_sentences(answer, found)
    return answer


def run_of(answer: Answer) -> str:
    """Return the id of the run that a call began, empty if it came to none."""
    begun = re.search(r"^\[ *[\d.]+\] run (\S+)$", answer.stderr, re.MULTILINE)
    return begun[1] if begun else ""


def check_sentences(answer: Answer, found: Findings) -> None:
    """Check that a call ends with a sentence and no traceback, and passes only what it says."""
    everything = answer.stdout + answer.stderr
    if "Traceback" in everything:
        found.wrong.append(f"a traceback:\n{everything}")
    code = answer.exit_code
    if code not in (0, 1, 2, 3, 4, 5, 6) and (code is None or code > 0):
        found.wrong.append(f"exit {code} is not in the table")
    if code and code > 1 and not everything.strip():
        found.wrong.append(f"exit {code} without a word")
    if answer.stdout.startswith("pass") != (code == 0):
        found.wrong.append(f"exit {code} with '{answer.stdout.partition(chr(10))[0]}'")


def check_run(site: Site, run_id: str, expected: Expected, found: Findings) -> None:
    """Check the run's record against what was executed, and its files against the host's."""
    executed = site.executions(run_id)
    found.doubled += [f"{s} was started {n} times" for s, n in executed.items() if n > 1]
    folder = site.run_folder(run_id)
    if not (folder / "run.json").is_file():
        found.lost.append(f"{run_id} has no run.json")
        return
    run = read_run(folder)
    verdicts = {s.name: s.verdict for s in run.stages}
    for name in STAGES:
        verdict = verdicts.get(name, Verdict(Outcome.SKIP, "it has no record"))
        outcome, said = verdict.outcome, verdict.summary
        if outcome is Outcome.PASS and not executed[name] and not expected.forged:
            found.wrong.append(f"{name} passed and was never started")
        told = expected.gone or said.startswith("not counted: ")
        if outcome is Outcome.SKIP and executed[name] and not told:
            found.lost.append(f"{name} was started, and is reported as skipped: {said}")
        if not expected.runs:
            wanted = Outcome.SKIP
        elif expected.stages is None:
            continue
        else:
            wanted = expected.stages.get(name, Outcome.PASS)
        if outcome is not wanted:
            column = found.lost if wanted is Outcome.PASS else found.wrong
            column.append(f"{name} is {outcome}, not {wanted}: {said}")
    if not expected.runs and executed:
        found.wrong.append(f"started all the same: {dict(executed)}")
    if not expected.gone:
        check_files(site, run, expected, found)


def check_files(site: Site, run: Run, expected: Expected, found: Findings) -> None:
    """Check that each file that a stage left on the host is here, or is named as missing."""
    there, here = site.host_run(run.id) / "stages", site.run_folder(run.id) / "stages"
    for path in sorted(there.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = str(path.relative_to(there))
        why = next((w for part, w in expected.missing.items() if part in name), None)
        place = here / local_name(name)
        if why is not None and not place.is_file():
            if not any(why in missing for missing in run.missing):
                found.wrong.append(f"{name[:80]}: '{why}' is not in {run.missing}")
        elif not place.is_file():
            found.lost.append(f"stages/{name[:80]} is not here; missing: {run.missing}")
        elif sha256_file(place) != sha256_file(path):
            found.lost.append(f"stages/{name[:80]} differs from the host's")


def check_nothing_is_left(site: Site, found: Findings) -> None:
    """Check that the case has no process, no lock, no part of a file, no temporary folder."""
    site.proxy.cut("reset")  # what fell silent: TCP ends it in the end, after minutes
    deadline = time.monotonic() + LEAVE_S
    while (left := processes_of(site.folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    found.leaked += [f"process {pid}: {command}" for pid, command in left.items()]
    lock = site.workdir / "lock"
    if lock.is_file() and not is_free(lock):
        found.leaked.append(f"the lock is held, by {lock.read_text()}")
    for top in (site.project.root, site.workdir):
        found.leaked += [str(p) for p in top.rglob("*.part")]
    found.leaked += [str(p) for p in site.tmp.iterdir()]


def is_free(lock: Path) -> bool:
    with lock.open() as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def check_the_next_run(site: Site, found: Findings) -> None:
    """Check that nothing of the fault is left that a later run of the same project would meet."""
    for script in site.faults.glob("*.sh"):
        script.unlink()
    site.plan = "faults"
    answer = site.ask_for_a_test()
    check_sentences(answer, found)
    if answer.exit_code != 0:
        found.wrong.append(f"the next run exits with {answer.exit_code}:\n{answer.stderr}")
        return
    check_run(site, run_of(answer), Expected(), found)


def seconds_until_named(site: Site) -> float | None:
    """Return the seconds from the fault to the first line that is not plain progress."""
    for call in site.calls[:1]:
        for at, line in call.lines:
            text = re.sub(r"^\[ *[\d.]+\] ", "", line).strip()
            if site.struck and at >= site.struck and not PROGRESS.match(text):
                return at - site.struck
    return None
