"""The host itself: its login shell, its python, its clock, its workdir."""

from __future__ import annotations

import shutil
import subprocess
import time
from random import Random

from tests.e2e.project import Answer
from tests.faults.kind import Kind
from tests.faults.oracle import Expected
from tests.faults.site import STAGES, Site

CLOCK = """\
// The wall clock of a host that is wrong, by the seconds that a file says, as of now.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset(void) {
  long long seconds = 0;
  FILE *file = fopen(getenv("CLOCK_OFFSET"), "r");
  if (file) {
    if (fscanf(file, "%lld", &seconds) != 1)
      seconds = 0;
    fclose(file);
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const long done = syscall(SYS_clock_gettime, clock, now);
  if (done == 0 && clock == CLOCK_REALTIME)
    now->tv_sec += offset();
  return (int)done;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where)
    *where = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
"""
DAY_S = 86400


def set_clock(site: Site, offset_s: int) -> None:
    """Let the agent's wall clock be wrong; files keep the times of the disk's own clock."""
    library = site.folder / "clock.so"
    if not library.exists():
        source = site.folder / "clock.c"
        source.write_text(CLOCK)
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
        )
        site.wrap("env", f"LD_PRELOAD={library}", f"CLOCK_OFFSET={site.folder}/offset")
    (site.folder / "offset").write_text(f"{offset_s}\n")


def skewed_clock(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    offsets = (3600, -3600, DAY_S, -DAY_S, 400 * DAY_S, -400 * DAY_S, -50 * 366 * DAY_S, 120, -120)
    set_clock(site, offsets[seed % len(offsets)])
    site.strike()
    with site.start_test() as call:
        return call.end(), Expected()


def jumping_clock(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Let the clock jump forth and back while stages run."""
    stage = STAGES[seed % len(STAGES)]
    set_clock(site, 0)
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        for _ in range(4):
            set_clock(site, rng.choice((-1, 1)) * rng.choice((61, 3600, 10 * DAY_S)))
            time.sleep(rng.uniform(0.1, 0.8))  # the agent looks at it in between
        site.release()
        return call.end(), Expected()


def noisy_shell(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Let the login shell print, on both streams, in every session."""
    noise = (
        "echo Welcome; echo 'last login: today' >&2",
        "printf 'no newline'",
        "printf '\\033[2J\\033]0;title\\007'",
        "head -c 200000 /dev/urandom",
        'echo \'{"error": "no"}\'; echo \'{"tick": true}\'',
        "yes | head -c 900000",
        "echo; echo; echo KERNELRIG-AGENT 2",
        "echo to stderr >&2; sleep 0.3",
        "printf '\\000\\001\\002'",
        "yes stderr | head -c 300000 >&2",
    )
    profile = site.sshd.home / ".bashrc"
    profile.write_text(f"{noise[seed % len(noise)]}\n")
    site.strike()
    with site.start_test() as call:
        answer = call.end()
    return answer, Expected(heal=profile.unlink)


def no_python(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Take the host's python away, or let it be one that does not start."""
    python = site.folder / "python"
    whole = python.read_text()
    broken = (None, "", "#!/bin/sh\nexit 3\n", "#!/nowhere/sh\n", "#!/bin/sh\nkill -SEGV $$\n")
    text = broken[seed % len(broken)]
    python.unlink() if text is None else python.write_text(text)
    if seed % len(broken) == 1:
        python.chmod(0o644)

    def heal() -> None:
        python.write_text(whole)
        python.chmod(0o755)

    site.strike()
    with site.start_test() as call:
        answer = call.end()
    return answer, Expected(exits=(4, 5), final=(4, 5), runs=False, says="python", heal=heal)


def workdir_removed(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Remove the agent's folder while a stage runs, or move it away."""
    stage = STAGES[seed % len(STAGES)]
    site.hold(stage)
    with site.start_test() as call:
        site.await_stage(call, stage)
        site.strike()
        if seed % 3 == 0:
            site.workdir.rename(site.folder / "elsewhere")
        elif seed % 3 == 1:
            shutil.rmtree(site.workdir)
        else:
            shutil.rmtree(site.host_run(call.run_id))
        site.release()
        answer = call.end()
    return answer, Expected(
        exits=(4, 5, 6), final=(4, 5), stages=None, gone=True, heal=lambda: None
    )


def cleaned(site: Site, rng: Random, seed: int) -> tuple[Answer, Expected]:
    """Prune the host, of everything, while a run is under way."""
    instants = ("stage", "put", "launch", "need", "fetch", "manifest")
    op = instants[seed % len(instants)]
    stage = rng.choice(STAGES)
    site.hold(stage) if op == "stage" else site.break_at(op, rng.choice(("before", "after")))
    with site.start_test() as call:
        site.await_stage(call, stage) if op == "stage" else site.await_break(call)
        site.strike()
        with site.start("clean", "--remote", "host", "--days", "0") as clean:
            assert clean.end().exit_code == 0, clean.heard
        site.release() if op == "stage" else site.go_on()
        answer = call.end()
    return answer, Expected()


KINDS = (
    Kind("host clock skewed", skewed_clock),
    Kind("host clock jumps", jumping_clock),
    Kind("login shell prints", noisy_shell, own_sshd=True),
    Kind("no python on the host", no_python),
    Kind("workdir removed", workdir_removed),
    Kind("clean during a run", cleaned),
)
