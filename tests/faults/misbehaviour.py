"""Stages that misbehave: towards the run, towards later stages, towards whoever fetches files."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kernelrig.model import Outcome

from tests.e2e.project import Answer
from tests.faults.kind import Inject, Kind
from tests.faults.oracle import Expected
from tests.faults.processes import interrupted_in
from tests.faults.site import STAGES, Site

Script = Callable[[Random, int], tuple[str, ...]]


def stage_of(seed: int) -> str:
    return STAGES[seed % len(STAGES)]


def ends_with(outcome: Outcome, code: int, stage: str) -> Expected:
    """Return what is expected where one stage does not pass, and the one that needs it."""
    held_back = {"three": Outcome.SKIP} if stage == "two" else {}
    return Expected(exits=(code,), final=(code,), stages={stage: outcome, **held_back})


def misbehaves(script: Script, expected: Callable[[str], Expected], plan: str = "faults") -> Inject:
    """Let the seed's stage run a script, once its start is in the journal."""

    def inject(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
        stage = stage_of(seed)
        site.plan = plan
        site.hold(stage, *script(rng, seed))
        with site.start_test() as call:
            site.await_stage(call, stage)
            site.strike()
            site.release()
            return call.end(), expected(stage)

    return inject


def replaces_program(rng: Random, seed: int) -> tuple[str, ...]:
    """Put a program that always passes in the place of the one that was shipped."""
    stub = "printf '#!/bin/sh\\necho all is well\\n' > stub; chmod 755 stub"
    program = "../../build/staged"
    ways = (
        f"mv -f stub {program}",
        f"rm -f {program}; ln -s $PWD/stub {program}",
        f"chmod u+w {program}; cat stub > {program}",
        "mv ../../build ../../was; mkdir ../../build; mv stub ../../build/staged",
        f"cp {program} kept; printf x >> kept; mv -f kept {program}",
    )
    return stub, ways[seed % len(ways)]


def writes_later_results(rng: Random, seed: int) -> tuple[str, ...]:
    """Write what the stages after this one owe, before they are started."""
    later = "for s in 02-two 03-three 04-four; do"
    return (
        f"{later} mkdir -p ../$s 2>/dev/null && echo all is well > ../$s/program.stdout.log",
        "echo forged > ../$s/made.bin; echo forged > ../$s/forged.txt; done; true",
    )


def forges_journal(rng: Random, seed: int) -> tuple[str, ...]:
    """Write into the journal what the agent alone writes, or what is none of it."""
    journal = "../../journal.jsonl"
    ended = (
        '{"event": "command_ended", "utc": "2026-01-01T00:00:00Z", "t": 1, "stage": "four",'
        ' "command": "program", "ok": true, "started_utc": "2026-01-01T00:00:00Z", "exit": 0,'
        ' "ended_by": "exit", "signal": null, "seconds": 0.1, "detail": "", "reused_from": ""}'
    )
    lines = (
        ended,
        '{"event": "stage_started", "stage": "four", "index": 4, "folder": "04-four"}',
        '{"event": "finished", "reason": "all stages were run"}',
        '{"event": "run_started", "run": "another"}',
        "not a line of JSON",
        '{"event": "note", "text": "a", "text": "b"}',
    )
    return (f"cat >> {journal} <<'END'", lines[seed % len(lines)], "END")


def damages_journal(rng: Random, seed: int) -> tuple[str, ...]:
    journal = "../../journal.jsonl"
    ways = (
        f"printf '\\001\\377' | dd of={journal} bs=1 seek={rng.randrange(200)} conv=notrunc 2>&-",
        f": > {journal}",
        f"rm {journal}",
        f"truncate -s {rng.randrange(1, 300)} {journal}",
        f"mv {journal} was; ln -s /dev/zero {journal}",
    )
    return (ways[seed % len(ways)],)


def leaves_daemon(rng: Random, seed: int) -> tuple[str, ...]:
    """Leave a process behind, in ways that hide where it came from."""
    ways = (
        "setsid sleep 300 </dev/null >/dev/null 2>&1 &",
        "env -i setsid /bin/sleep 300 </dev/null >/dev/null 2>&1 &",
        "(cd / && env -i setsid /bin/sh -c '/bin/sleep 300 & wait' </dev/null >/dev/null 2>&1 &)",
        "trap '' TERM HUP; (while :; do /bin/sleep 1; done) </dev/null >/dev/null 2>&1 &",
        "setsid sh -c 'sleep 300 & sleep 300 & wait' &",
    )
    return (ways[seed % len(ways)],)


def many_files(rng: Random, seed: int) -> tuple[str, ...]:
    count = 30_000 if seed == 0 else rng.randrange(200, 4000)
    return (f"mkdir many; cd many; seq {count} | split -a 5 -l 1",)


def odd_names(rng: Random, seed: int) -> tuple[str, ...]:
    """Make files whose names an artifact upload refuses, or a terminal obeys."""
    names = (
        "n" * 245,
        "n" * 120 + "\\n" + "m" * 124,
        "a\\033[2Jb",
        "a:b",
        'a"b|c*d?e<f>g',
        "\\377\\376",
        "-rf",
        "a\\rb %%41 .",
        "::error::x",
        "d\\303\\251j\\303\\240",
    )
    return (f"name=$(printf -- '{names[seed % len(names)]}x'); echo content > \"./${{name%x}}\"",)


def odd_files(rng: Random, seed: int) -> tuple[str, ...]:
    """Leave what is no file to read: a pipe, a socket, a device, links that lead out."""
    ways = (
        "mkfifo pipe",
        "ln -s /etc/passwd outside; ln -s ../../../.. up; ln -s nowhere dangling",
        "ln -s . itself; ln -s $PWD loop",
        "mknod zero c 1 5 2>/dev/null; mkfifo pipe; true",
        "mkdir -p a/b/c/d; mkfifo a/b/c/d/pipe; echo x > a/b/c/d/file",
    )
    return (ways[seed % len(ways)],)


def unreadable(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Leave a file, or a folder, of mode 000 on a host where root has to obey it."""
    site.wrap("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    stage = stage_of(seed)
    ways = (
        "echo secret > closed; chmod 000 closed",
        "mkdir closed; echo secret > closed/file; chmod 000 closed",
        "mkdir -p a/closed; echo secret > a/closed/file; chmod 000 a/closed; echo x > a/open",
    )
    site.script(stage, ways[seed % len(ways)])
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        return call.end(), Expected(exits=(4,), final=(4,), missing={"closed": "closed: "})


def floods_output(rng: Random, seed: int) -> tuple[str, ...]:
    return ("yes a line that nobody reads" if seed % 2 else "yes 1>&2",)


def floods_disk(rng: Random, seed: int) -> tuple[str, ...]:
    ways = (
        "dd if=/dev/zero of=flood bs=1M count=4000 2>/dev/null; sleep 60",
        "truncate -s 2G flood; sleep 60",
        "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > flood$i; done",
        "truncate -s 8T flood; sleep 60",
        "truncate -s 1G flood; printf x >> flood; sleep 60",
    )
    return (ways[seed % len(ways)],)


def flooded(stage: str) -> Expected:
    held_back = {"three": Outcome.SKIP} if stage == "two" else {}
    return Expected(
        exits=(4,),
        final=(4,),
        stages={stage: Outcome.ERROR, **held_back},
        missing={"flood": "flood"},
    )


def damaged(_: str) -> Expected:
    return Expected(exits=(0, 4, 5), final=(0, 4, 5), stages=None)


def agent_killed_by(stage: str) -> Expected:
    return Expected(exits=(4,), final=(4,), stages=interrupted_in(stage))


def hung(stage: str) -> Expected:
    """Return what is expected where the later stages would hang the same way."""
    later = STAGES[STAGES.index(stage) + 1 :]
    stages = {stage: Outcome.FAIL, **dict.fromkeys(later, Outcome.SKIP)}
    return Expected(exits=(1,), final=(1,), stages=stages)


def tampered(stage: str) -> Expected:
    """Return what is expected where no later stage can be believed: none of them passes."""
    codes = (0, 4) if stage == STAGES[-1] else (4,)
    return Expected(exits=codes, final=codes, stages=None)


KINDS = (
    Kind("stage replaces the program", misbehaves(replaces_program, tampered)),
    Kind("stage writes later results", misbehaves(writes_later_results, tampered)),
    Kind("stage forges the journal", misbehaves(forges_journal, damaged)),
    Kind("stage damages the journal", misbehaves(damages_journal, damaged)),
    Kind("stage leaves a daemon", misbehaves(leaves_daemon, lambda _: Expected())),
    Kind("stage kills the agent", misbehaves(lambda *_: ("kill -9 $PPID",), agent_killed_by)),
    Kind("many files", misbehaves(many_files, lambda _: Expected(), plan="roomy")),
    Kind("odd names", misbehaves(odd_names, lambda _: Expected())),
    Kind("odd files", misbehaves(odd_files, lambda _: Expected())),
    Kind("unreadable files", unreadable),
    Kind(
        "output flood",
        misbehaves(floods_output, lambda stage: ends_with(Outcome.ERROR, 4, stage)),
    ),
    Kind("disk flood", misbehaves(floods_disk, flooded)),
    Kind(
        "hang",
        misbehaves(
            lambda *_: ("trap '' TERM; sleep 60 & wait; sleep 60",),
            hung,
            plan="brief",
        ),
    ),
    Kind(
        "crash",
        misbehaves(
            lambda rng, _: (f"kill -{rng.choice(('SEGV', 'ABRT', 'BUS', 'FPE', 'ILL'))} $$",),
            lambda stage: ends_with(Outcome.FAIL, 1, stage),
        ),
    ),
)
