"""The on-box agent: one stdlib-only file, Python 3.9 or newer, shipped with every connection.

    serve     what the client talks to, over stdin and stdout: facts, blobs, launch, follow, fetch
    run DIR   the detached daemon that runs the stages of DIR/job.json and writes DIR/journal.jsonl
    health    allocate, add and synchronise on the GPU, and say whether it answered

The daemon gates on exit codes alone; verdicts are made by the client from the files. It promises
that every command has limits, ends with all its processes, and is in the journal, come what may.

Frames are a line of JSON, followed by as many payload bytes as its key `bytes` says.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

MARKER = b"KERNELRIG-AGENT 1"
RUN_VARIABLE = "KERNELRIG_RUN"
CHUNK = 1 << 18
QUIET_S = 60.0  # the daemon's heart beats every second
TICK_S = 2.0  # the client takes longer silence for a dead link
POLL_S = 0.05
GRACE_S = 2.0  # between TERM and KILL
KILL_WAIT_S = 10.0  # a process in a driver call may take this long to die, or never
CORE_WAIT_S = 20.0  # measured on an H200: the core stands within 2 s
CORE_STABLE_S = 0.5
GDB_S = 60.0
SMI_S = 20.0
HEALTH_S = 30.0
PROBE_S = 10.0
BALLAST_BYTES = 256 << 10
FLOOR_BYTES = 64 << 20  # below this much free disk nothing goes on (1% of a small disk)
FRESH_BLOB_S = 600.0  # a blob this new may belong to a run that is about to be launched
# The bootstrap leaves our own text here, so that launch can write it beside the run.
SOURCE: bytes = globals().get("KERNELRIG_SOURCE", b"")

Json = dict[str, Any]


class Refused(Exception):
    """What was asked for cannot be had; the text is one sentence for the user."""

    def __init__(self, text: str, kind: str = "refused") -> None:
        super().__init__(text)
        self.kind = kind


# --- small things --------------------------------------------------------------------------------


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def sha256_head(path: Path, size: int) -> str:
    """Hash the first `size` bytes: a log may grow while it is being fetched."""
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while size > 0:
            chunk = f.read(min(CHUNK, size))
            if not chunk:
                break
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def free_bytes(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def floor_bytes(path: Path) -> int:
    disk = os.statvfs(path)
    return min(FLOOR_BYTES, disk.f_blocks * disk.f_frsize // 100)


def tree_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{parent}/{name}").st_size
    return total


def remove_tree(path: Path) -> int:
    """Remove a file or folder; return the bytes that came free (a hard link's with its last)."""
    freed = 0
    if path.is_dir() and not path.is_symlink():
        for child in list(path.iterdir()):
            freed += remove_tree(child)
        path.rmdir()
        return freed
    status = path.lstat()
    path.unlink()
    return status.st_size if status.st_nlink == 1 else 0


def write_file(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)


def safe_relative(text: str) -> Path:
    path = Path(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Refused(f"'{text}' is no path inside the run")
    return path


# --- processes -----------------------------------------------------------------------------------


def all_pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def process_stat(pid: int) -> tuple[str, int, int] | None:
    """Return (state, parent, start time in ticks since boot), None for no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """A pid is used again after a while; with its start time it names one process."""
    stat = process_stat(pid)
    return stat is not None and stat[0] not in "ZX" and stat[2] == start


def marks() -> dict[int, str]:
    """Return pid -> run id of every process (that we may look at) that carries the marker."""
    wanted = f"{RUN_VARIABLE}=".encode()
    found = {}
    for pid in all_pids():
        with contextlib.suppress(OSError):
            for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if word.startswith(wanted) and pid != os.getpid():
                    found[pid] = word[len(wanted) :].decode(errors="replace")
    return found


def descendants(root: int) -> set[int]:
    stats = {pid: process_stat(pid) for pid in all_pids()}
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        if stat is not None and stat[0] not in "ZX":
            children.setdefault(stat[1], []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def is_running(pid: int) -> bool:
    stat = process_stat(pid)
    return stat is not None and stat[0] not in "ZX"


def kill_all(find: Callable[[], Iterable[int]], beat: Callable[[], None]) -> int:
    """Kill what `find` finds until it finds nothing more; return how many processes that were."""
    seen: set[int] = set()
    limit = time.monotonic() + KILL_WAIT_S
    while True:
        found = [pid for pid in find() if is_running(pid)]
        if not found or time.monotonic() > limit:
            return len(seen)
        seen.update(found)
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        beat()
        time.sleep(0.002)


def run_tool(argv: list[str], limit_s: float) -> tuple[int | None, str]:
    """Run a short tool; (None, why) when it cannot start or does not end in time."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as e:
        return None, f"{argv[0]} cannot be started: {e.strerror}"
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        signal_group(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        return None, f"{argv[0]} did not end within {limit_s:.0f} s"
    return process.returncode, output.decode(errors="replace")


# --- the wire ------------------------------------------------------------------------------------


class Wire:
    """Frames over stdin and stdout. While we work a tick goes out every few seconds."""

    def __init__(self) -> None:
        self.input = cast(io.BufferedReader, sys.stdin.buffer)
        self.output = os.dup(1)
        os.dup2(2, 1)  # a stray print must not garble the frames
        self.sending = threading.Lock()
        self.working = False
        self._write(b"\n" + MARKER + b"\n")
        threading.Thread(target=self._tick, daemon=True).start()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.output, view) :]

    def _tick(self) -> None:
        with contextlib.suppress(OSError):  # a client that left is noticed by the main thread
            while True:
                time.sleep(TICK_S)
                if self.working:
                    self.send({"tick": True})

    def receive(self) -> Json | None:
        line = self.input.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def payload(self, size: int) -> Iterator[bytes]:
        while size > 0:
            chunk = self.input.read(min(CHUNK, size))
            if not chunk:
                raise EOFError
            size -= len(chunk)
            yield chunk

    def send(self, header: Json, payload: Iterable[bytes] = ()) -> None:
        with self.sending:
            self._write(json.dumps(header).encode() + b"\n")
            for chunk in payload:
                self._write(chunk)

    def interrupted(self, wait_s: float) -> bool:
        """Wait; true as soon as the client left or asks for something else."""
        ready, _, _ = select.select([self.input], [], [], wait_s)
        if ready and not self.input.peek(1):
            raise EOFError
        return bool(ready)


# --- blobs ---------------------------------------------------------------------------------------


class Blobs:
    """Files under their SHA-256. A name without .part is whole and was verified on arrival."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{64}", sha):
            raise Refused(f"'{sha}' is no SHA-256")
        return self.folder / sha

    def check(self, sha: str, size: int) -> str:
        """Say whether a blob is `good`, `missing` or `corrupted` (and then remove it)."""
        path = self.path(sha)
        try:
            if path.stat().st_size == size and sha256_head(path, size) == sha:
                os.utime(path)  # in use: prune leaves it alone for a while
                return "good"
        except FileNotFoundError:
            return "missing"
        path.unlink()
        return "corrupted"

    def receive(self, sha: str, chunks: Iterator[bytes]) -> bool:
        """Store one blob from the stream; false when what came is not what was announced."""
        path = self.path(sha)
        part = path.with_name(f"{sha}.{os.getpid()}.part")
        digest = hashlib.sha256()
        try:
            with part.open("wb") as f:
                for chunk in chunks:
                    digest.update(chunk)
                    f.write(chunk)
                f.flush()
                os.fsync(f.fileno())
            if digest.hexdigest() != sha:
                return False
            part.chmod(0o555)  # runs get hard links to programs: nobody is to write through one
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return True

    def remove_stale_parts(self) -> None:
        for part in self.folder.glob("*.part"):
            if process_stat(int(part.name.split(".")[1])) is None:
                part.unlink(missing_ok=True)


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack regular files, folders and inner links; anything else in the archive is refused."""
    with tarfile.open(archive) as tar:
        for member in tar:
            target = folder / safe_relative(member.name)
            content = tar.extractfile(member) if member.isreg() else None
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                with target.open("wb") as f:
                    shutil.copyfileobj(content, f, CHUNK)
                target.chmod(member.mode & 0o777)
            elif member.issym():
                target.symlink_to(safe_relative(member.linkname))
            else:
                raise Refused(f"'{member.name}' in {archive.name} is no file, folder or link")


# --- facts ---------------------------------------------------------------------------------------

GPU_CORE_FIELDS = ("name", "uuid", "driver_version")
GPU_FIELDS = (
    *GPU_CORE_FIELDS,
    "compute_cap",
    "pci.bus_id",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "clocks_event_reasons.active",
    "mig.mode.current",
    "memory.used",
    "memory.total",
    "ecc.errors.uncorrected.volatile.total",
)
TOOL_VERSIONS = {
    "compute-sanitizer": r"Version (\d[\w.]*)",
    "ncu": r"Version (\d[\w.]*)",
    "cuda-gdb": r"(?:cuda-gdb|CUDA Debugger)\s+(\d[\w.]*)",
    "nvidia-smi": r"NVIDIA-SMI version\s*:\s*(\d[\w.]*)",
}
TOOLS_WITH_OPTIONS = ("compute-sanitizer", "ncu")


def newest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], reverse=True)


def find_tool(name: str) -> str | None:
    """Look on PATH, then where CUDA and Nsight Compute install themselves off PATH."""
    folders = [Path(f) for f in os.environ.get("PATH", "").split(":") if f.startswith("/")]
    folders += [Path("/usr/local/cuda/bin"), *newest_first(Path("/usr/local").glob("cuda-*/bin"))]
    folders += newest_first(Path("/opt/nvidia/nsight-compute").glob("*"))
    for folder in folders:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def query_gpus(smi: str, problems: list[str]) -> list[dict[str, str]]:
    for fields in (GPU_FIELDS, GPU_CORE_FIELDS):
        argv = [smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        code, output = run_tool(argv, PROBE_S)
        rows = [
            [v.strip() for v in line.split(",")] for line in output.splitlines() if line.strip()
        ]
        if code == 0 and rows and all(len(row) == len(fields) for row in rows):
            return [{name: row[i] for i, name in enumerate(fields)} for row in rows]
        first = output.strip().splitlines()[0] if output.strip() else "no output"
        problems.append(f"nvidia-smi does not tell of the GPUs (exit {code}): {first}")
        if code is None:
            break
    return []


def query_gpu_processes(smi: str, problems: list[str]) -> list[str]:
    argv = [smi, "--query-compute-apps=pid,process_name,used_memory"]
    code, output = run_tool([*argv, "--format=csv,noheader,nounits"], PROBE_S)
    if code != 0:
        problems.append(f"nvidia-smi does not tell who uses the GPU (exit {code})")
        return []
    return [line.strip() for line in output.splitlines() if line.strip()]


def describe_tool(name: str, path: str, problems: list[str]) -> Json:
    code, output = run_tool([path, "--version"], PROBE_S)
    found = re.search(TOOL_VERSIONS[name], output)
    if found is None:
        problems.append(f"{path} --version says no version (exit {code})")
    options: list[str] = []
    if name in TOOLS_WITH_OPTIONS:
        code, output = run_tool([path, "--help"], PROBE_S)
        options = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", output)))
        if not options:
            problems.append(f"{path} --help lists no options (exit {code})")
    return {"path": path, "version": found.group(1) if found else "", "options": options}


def driver_version(gpus: list[dict[str, str]]) -> str:
    if gpus:
        return gpus[0]["driver_version"]
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        found = re.search(r"Kernel Module\D*?(\d+\.[\d.]+)", text)
        return found.group(1) if found else ""
    return ""


def counters_admin_only() -> bool | None:
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/params").read_text()
        found = re.search(r"RmProfilingAdminOnly: (\d)", text)
        return found.group(1) != "0" if found else None
    return None


def libc_version() -> str:
    """`2.39` on glibc, empty on another libc (whose name no glibc binary can use)."""
    with contextlib.suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return version if name == "glibc" else ""
    return ""


def gather_facts(workdir: Path) -> Json:
    problems: list[str] = []
    if os.statvfs(workdir).f_flag & os.ST_NOEXEC:
        problems.append(f"programs cannot be run from {workdir}: it is mounted noexec")
    paths = {name: path for name in TOOL_VERSIONS for path in [find_tool(name)] if path}
    smi = paths.get("nvidia-smi")
    with ThreadPoolExecutor() as pool:
        tools = {n: pool.submit(describe_tool, n, p, problems) for n, p in paths.items()}
        gpus = pool.submit(query_gpus, smi, problems) if smi else None
        users = pool.submit(query_gpu_processes, smi, problems) if smi else None
    found = gpus.result() if gpus else []
    return {
        "hostname": platform.node(),
        "python": platform.python_version(),
        "glibc": libc_version(),
        "workdir": str(workdir),
        "free_bytes": free_bytes(workdir),
        "driver": driver_version(found),
        "gpus": found,
        "gpu_processes": users.result() if users else [],
        "gpu_counters_admin_only": counters_admin_only(),
        "tools": {name: tool.result() for name, tool in tools.items()},
        "problems": sorted(problems),
    }


# --- serve: what the client may ask --------------------------------------------------------------


class Server:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.workdir = Path()
        self.operations: dict[str, Callable[[Json], Json]] = {
            "hello": self.hello,
            "facts": lambda _: gather_facts(self.workdir),
            "need": self.need,
            "put": self.put,
            "launch": self.launch,
            "follow": self.follow,
            "manifest": self.manifest,
            "fetch": self.fetch,
            "cancel": self.cancel,
            "prune": self.prune,
            "health": self.health,
        }

    def loop(self) -> None:
        """Answer until the client closes its end; an operation that fails is an answer too."""
        while True:
            request = self.wire.receive()
            if request is None:
                return
            self.wire.working = True
            reply = self.answer(request)
            self.wire.working = False
            self.wire.send(reply)

    def answer(self, request: Json) -> Json:
        try:
            return self.operations[request["op"]](request)
        except (EOFError, BrokenPipeError):
            raise
        except Refused as e:
            return {"error": str(e), "kind": e.kind}
        except OSError as e:
            kind = "full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "refused"
            if kind == "full":
                return {"error": self.full_text(), "kind": kind}
            return {"error": f"{e.filename or request['op']}: {e.strerror}", "kind": kind}
        except Exception as e:
            traceback.print_exc()
            return {"error": f"the agent failed at {request['op']}: {e!r}", "kind": "bug"}

    def full_text(self) -> str:
        disk = os.statvfs(self.workdir)
        no_inodes = disk.f_files and not disk.f_favail  # where f_files is 0 nobody counts them
        left = "no inode" if no_inodes else f"{free_bytes(self.workdir)} bytes"
        return f"the disk is full: {left} free under {self.workdir}"

    def hello(self, request: Json) -> Json:
        self.workdir = Path.home() / Path(request["workdir"]).expanduser()
        self.workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.workdir, os.W_OK):
            raise Refused(f"{self.workdir} cannot be written to")
        (self.workdir / "runs").mkdir(exist_ok=True)
        self.blobs = Blobs(self.workdir / "blobs")
        return {"workdir": str(self.workdir), "python": platform.python_version()}

    def run_folder(self, run_id: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
            raise Refused(f"'{run_id}' is no run id")
        return self.workdir / "runs" / run_id

    def known_run(self, request: Json) -> Path:
        run = self.run_folder(request["run"])
        if not (run / "journal.jsonl").is_file():
            raise Refused(f"run {run.name} is not under {self.workdir}", "unknown run")
        return run

    # shipping

    def need(self, request: Json) -> Json:
        self.blobs.remove_stale_parts()
        states = {sha: self.blobs.check(sha, size) for sha, size in request["blobs"].items()}
        missing = [sha for sha, state in states.items() if state != "good"]
        wanted = sum(request["blobs"][sha] for sha in missing)
        free = free_bytes(self.workdir)
        if wanted > free - floor_bytes(self.workdir):
            text = f"{wanted} bytes to ship, but only {free} bytes free under {self.workdir}"
            raise Refused(text, "full")
        corrupted = [sha for sha, state in states.items() if state == "corrupted"]
        return {"missing": missing, "corrupted": corrupted}

    def put(self, request: Json) -> Json:
        bad = []
        trouble: OSError | None = None
        for blob in request["blobs"]:
            chunks = self.wire.payload(blob["bytes"])
            if trouble is None:
                try:
                    if not self.blobs.receive(blob["sha256"], chunks):
                        bad.append(blob["sha256"])
                except OSError as e:
                    trouble = e
            for _ in chunks:  # the rest of a stream nobody can store, so that the next frame is one
                pass
        if trouble is not None:
            raise trouble
        return {"bad": bad}

    # runs

    def take_lock(self, run_id: str) -> int:
        """Take the box lock: one run a box at a time. The daemon inherits it and holds it."""
        lock = os.open(self.workdir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 4096, 0).decode(errors="replace").strip()
            os.close(lock)
            raise Refused(f"run {holder} is using this box", "busy") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, run_id.encode(), 0)
        return lock

    def end_orphans(self) -> int:
        """End processes of runs of this workdir whose agent is gone; return how many."""
        runs = self.workdir / "runs"

        def find() -> list[int]:
            mine = ((pid, runs / run) for pid, run in marks().items())
            return [pid for pid, run in mine if run.is_dir() and agent_of(run) is None]

        return kill_all(find, lambda: None)

    def launch(self, request: Json) -> Json:
        job = request["job"]
        run = self.run_folder(job["run"])
        if (run / "journal.jsonl").is_file():
            # The first answer was lost with its link: the same job launched twice runs once.
            if json.loads((run / "job.json").read_bytes()) == job:
                return {"already": True}
            raise Refused(f"run {run.name} is already on this box, with another job")
        lock = self.take_lock(run.name)
        try:
            self.end_orphans()
            shutil.rmtree(run, ignore_errors=True)
            self.materialise(run, job)
            self.start_daemon(run, lock)
        except BaseException:
            shutil.rmtree(run, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        return {"already": False}

    def materialise(self, run: Path, job: Json) -> None:
        (run / "stages").mkdir(parents=True)
        for entry in job["files"]:
            blob = self.blobs.path(entry["sha256"])
            target = run / safe_relative(entry["path"])
            target.parent.mkdir(parents=True, exist_ok=True)
            if not blob.is_file():
                raise Refused(f"the blob of {entry['path']} is not on the box", "missing blob")
            if entry.get("unpack"):
                unpack_tar(blob, target)
            elif entry["mode"] & 0o111:
                os.link(blob, target)
            else:
                shutil.copyfile(blob, target)
                target.chmod(entry["mode"])
        (run / "ballast").write_bytes(os.urandom(BALLAST_BYTES))
        write_file(run / "agent.py", SOURCE)
        write_file(run / "job.json", json.dumps(job).encode())

    def start_daemon(self, run: Path, lock: int) -> None:
        """Start the daemon and wait for its first journal line, so that `launched` means it."""
        argv = [sys.executable or "python3", str(run / "agent.py"), "run", str(run), str(lock)]
        env = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
        with (run / "agent.log").open("ab") as log:
            subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=run,
                env=env,
                pass_fds=(lock,),
                start_new_session=True,
                check=False,
                timeout=30,
            )
        limit = time.monotonic() + 10
        journal = run / "journal.jsonl"
        while not (journal.is_file() and journal.stat().st_size):
            if time.monotonic() > limit:
                said = (run / "agent.log").read_text(errors="replace").strip().splitlines()
                raise Refused(f"the agent did not start: {said[-1] if said else 'it says nothing'}")
            time.sleep(0.005)

    def follow(self, request: Json) -> Json:
        """Stream journal lines from a byte offset on, until the run is over or its agent is."""
        run = self.known_run(request)
        offset = request["offset"]
        told = False
        while True:
            agent = agent_of(run)  # asked before reading: its last words are read after its death
            for event, behind in list(journal_events(run / "journal.jsonl", offset)):
                offset = behind
                self.wire.send({"event": event, "offset": offset})
                if event["event"] == "finished":
                    return {"end": "finished"}
            if not agent:
                return {"end": "lost", "detail": self.bury(run)}
            quiet = seconds_since_beat(run)
            if quiet > QUIET_S and not told:
                told = True  # stopped, or in a system call that hangs: alive, but no more
                event = {"event": "note", "text": f"the agent shows no life for {quiet:.0f} s"}
                self.wire.send({"event": event, "offset": offset})
            if self.wire.interrupted(POLL_S):
                return {"end": "interrupted"}

    def bury(self, run: Path) -> str:
        left = self.end_orphans()
        ended = f"; {left} processes that it left were ended" if left else ""
        return f"the agent of run {run.name} died{ended}"

    def manifest(self, request: Json) -> Json:
        run = self.known_run(request)
        files = []
        paths = [run / name for name in ("job.json", "journal.jsonl", "agent.log")]
        for path in [*paths, *sorted((run / "stages").rglob("*"))]:
            if path.is_file() and not path.is_symlink():
                size = path.stat().st_size
                name = str(path.relative_to(run))
                files.append({"path": name, "bytes": size, "sha256": sha256_head(path, size)})
        return {"files": files, "alive": agent_of(run) is not None}

    def fetch(self, request: Json) -> Json:
        run = self.known_run(request)
        for wanted in request["files"]:
            path = run / safe_relative(wanted["path"])
            try:
                with path.open("rb") as f:
                    self.wire.send(
                        {"path": wanted["path"], "bytes": wanted["bytes"]},
                        exactly(f, wanted["bytes"]),
                    )
            except FileNotFoundError as e:
                self.wire.send({"path": wanted["path"], "lost": str(e.strerror)})
        return {"end": "fetched"}

    def cancel(self, request: Json) -> Json:
        run = self.known_run(request)
        agent = agent_of(run)
        if agent is None:
            return {"cancelled": False}
        os.kill(agent[0], signal.SIGTERM)
        limit = time.monotonic() + 2 * (GRACE_S + KILL_WAIT_S)
        while is_alive(*agent) and time.monotonic() < limit:
            time.sleep(POLL_S)
        return {"cancelled": not is_alive(*agent)}

    def prune(self, request: Json) -> Json:
        """Remove what is older than `keep_s`: ended runs, blobs of no kept run, once results."""
        oldest = time.time() - request["keep_s"]
        freed = 0
        removed: list[str] = []
        used: set[str] = set()
        for run in sorted((self.workdir / "runs").iterdir()):
            touched = [p.stat().st_mtime for p in (run, run / "journal.jsonl") if p.exists()]
            if agent_of(run) is None and max(touched) <= oldest:
                freed += remove_tree(run)
                removed.append(run.name)
                continue
            with contextlib.suppress(OSError, ValueError):
                job = json.loads((run / "job.json").read_bytes())
                used.update(entry["sha256"] for entry in job["files"])
        fresh = time.time() - FRESH_BLOB_S
        self.blobs.remove_stale_parts()
        for blob in (self.workdir / "blobs").iterdir():
            if blob.name not in used and blob.stat().st_mtime <= min(oldest, fresh):
                freed += remove_tree(blob)
        once = self.workdir / "once"
        for kept in list(once.iterdir()) if once.is_dir() else []:
            if kept.stat().st_mtime <= oldest:
                freed += remove_tree(kept)
        return {"freed_bytes": freed, "runs": removed}

    def health(self, _: Json) -> Json:
        argv = [sys.executable or "python3", "-c", SOURCE.decode(), "health"]
        return parse_health(*run_tool(argv, HEALTH_S))


def agent_of(run: Path) -> tuple[int, int] | None:
    """Return (pid, start time) of the run's living daemon, None when there is none."""
    try:
        entry = json.loads((run / "agent.json").read_bytes())
        found = int(entry["pid"]), int(entry["start"])
    except (OSError, ValueError, KeyError):
        return None
    return found if is_alive(*found) else None


def seconds_since_beat(run: Path) -> float:
    with contextlib.suppress(FileNotFoundError):  # a disk full from the start has no place for it
        return time.time() - (run / "heartbeat").stat().st_mtime
    return 0.0


def journal_events(path: Path, offset: int) -> Iterator[tuple[Json, int]]:
    """Yield (event, offset behind it) for whole lines only; the last may still be under way."""
    with path.open("rb") as f:
        f.seek(offset)
        for line in f:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield json.loads(line), offset


def exactly(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield `size` bytes whatever the file does; the client sees by the hash if it shrank."""
    while size > 0:
        chunk = file.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
        size -= len(chunk)
        yield chunk


# --- run: the daemon -----------------------------------------------------------------------------


class Journal:
    """One fsynced JSON line an event. The ballast goes so that a full disk can be told of."""

    def __init__(self, run: Path) -> None:
        self.ballast = run / "ballast"
        self.began = time.monotonic()
        self.file = os.open(
            run / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def write(self, event: str, **fields: object) -> None:
        seconds = round(time.monotonic() - self.began, 3)
        line = json.dumps({"event": event, "utc": utc_now(), "t": seconds, **fields}) + "\n"
        try:
            self._append(line.encode())
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.ballast.unlink(missing_ok=True)
            self._append(line.encode())

    def _append(self, line: bytes) -> None:
        whole = os.fstat(self.file).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self.file, view) :]
            os.fsync(self.file)
        except OSError:
            os.ftruncate(self.file, whole)  # never half a line before another
            raise


class Ending:
    """How a command ended, as the journal words it."""

    def __init__(self, ended_by: str, detail: str = "") -> None:
        self.ended_by = ended_by
        self.detail = detail
        self.exit: int | None = None
        self.signal: int | None = None
        self.seconds = 0.0
        self.reused_from = ""
        self.strays = 0

    def add(self, detail: str) -> None:
        self.detail = f"{self.detail}; {detail}" if self.detail else detail

    def fields(self) -> Json:
        return dict(vars(self))


class Runner:
    """Runs the stages of one job in order. Single-threaded: every wait goes through `wait`."""

    def __init__(self, run: Path, lock: int) -> None:
        self.run = run
        self.lock = lock
        self.job: Json = json.loads((run / "job.json").read_bytes())
        self.journal = Journal(run)
        self.cancelled = False
        self.stop = ""  # why no further stage is run
        self.beaten = 0.0
        self.once = Once(run.parent.parent / "once")

    def beat(self) -> None:
        if time.monotonic() - self.beaten >= 1.0:
            self.beaten = time.monotonic()
            with contextlib.suppress(OSError):
                (self.run / "heartbeat").touch()

    def main(self) -> None:
        """Run everything; whatever happens, the journal's last line says how it ended."""
        start = process_stat(os.getpid())
        me = {"pid": os.getpid(), "start": start[2] if start else 0}
        write_file(self.run / "agent.json", json.dumps(me).encode())
        signal.signal(signal.SIGTERM, self.on_cancel)
        for ignored in (signal.SIGHUP, signal.SIGINT):
            signal.signal(ignored, signal.SIG_IGN)
        LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: double-forked children come back to us
        self.beat()
        self.journal.write("run_started", run=self.run.name, python=platform.python_version(), **me)
        try:
            self.run_stages()
        except Exception as e:
            traceback.print_exc()
            self.stop = f"the agent failed: {e!r}"
            self.journal.write("agent_error", detail=traceback.format_exc())
        self.end_strays()
        os.close(self.lock)  # whoever reads `finished` may launch the next run
        self.journal.write("finished", reason=self.stop or "all stages were run")

    def on_cancel(self, *_: object) -> None:
        self.cancelled = True
        self.stop = "the run was cancelled"

    # stages

    def run_stages(self) -> None:
        unmet: dict[str, str] = {}
        for index, stage in enumerate(self.job["stages"], 1):
            name = stage["name"]
            needed = [f"needs '{n}', which {unmet[n]}" for n in stage["needs"] if n in unmet]
            reason = self.stop or self.disk_reason() or "".join(needed[:1])
            if reason:
                self.journal.write("stage_not_run", stage=name, index=index, reason=reason)
                unmet[name] = "was not run"
            elif not self.run_stage(index, stage):
                unmet[name] = "did not pass"
                if self.job["stop_at_first"] and not self.stop:
                    self.stop = f"stopped at the first stage that did not pass, '{name}'"

    def disk_reason(self) -> str:
        free = free_bytes(self.run)
        return f"the disk is full: {free} bytes free" if free < floor_bytes(self.run) else ""

    def run_stage(self, index: int, stage: Json) -> bool:
        folder = self.run / "stages" / f"{index:02d}-{stage['name']}"
        folder.mkdir(exist_ok=True)
        self.journal.write("stage_started", stage=stage["name"], index=index, folder=folder.name)
        passed = True
        for command in stage["commands"]:
            began_utc = utc_now()
            ending = self.run_or_reuse(stage, command, folder)
            ok = ending.ended_by == "exit" and ending.exit in command["ok_exit"]
            self.journal.write(
                "command_ended",
                stage=stage["name"],
                command=command["name"],
                ok=ok,
                started_utc=began_utc,
                **ending.fields(),
            )
            passed = passed and ok
            if ending.ended_by == "disk full":
                self.stop = self.stop or ending.detail
            if not ok and not self.stop:
                self.check_health(stage, command)
        self.journal.write("stage_ended", stage=stage["name"], ok=passed)
        return passed

    def check_health(self, stage: Json, command: Json) -> None:
        """Ask the GPU for an addition; one that no longer answers ends the run."""
        if not self.job["gpu"]:
            return
        began = time.monotonic()
        argv = [sys.executable or "python3", str(self.run / "agent.py"), "health"]
        log = self.run / "health.log"
        code = self.run_beside(argv, log, HEALTH_S)
        found = parse_health(code, log.read_text(errors="replace"))
        seconds = round(time.monotonic() - began, 3)
        self.journal.write(
            "health", stage=stage["name"], command=command["name"], seconds=seconds, **found
        )
        if found["healthy"] is False:
            where = f"{stage['name']}/{command['name']}"
            self.stop = f"the GPU no longer answers after {where}: {found['detail']}"

    def run_or_reuse(self, stage: Json, command: Json, folder: Path) -> Ending:
        if self.stop:
            return Ending("not started", self.stop)
        ending = self.once.reuse(command, folder) if command["once"] else None
        if ending is not None:
            return ending
        before = set(folder.rglob("*"))
        ending = Attempt(self, stage, command, folder).run()
        if command["once"] and ending.ended_by == "exit" and ending.exit in command["ok_exit"]:
            trouble = self.once.keep(command, folder, set(folder.rglob("*")) - before, ending)
            if trouble:
                self.journal.write("note", text=trouble)
        return ending

    # processes

    def start(
        self, argv: list[str], folder: Path, env: dict[str, str], out: BinaryIO, err: BinaryIO
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **self.job["env"], **env, RUN_VARIABLE: self.run.name},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=die_with_agent,
        )

    def wait(self, process: subprocess.Popen[bytes], limit_s: float) -> bool:
        """Wait for the end of a process, heart beating; false when it did not come in time."""
        deadline = time.monotonic() + limit_s
        pause = 0.001
        while process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.beat()
            time.sleep(min(pause, left))
            pause = min(pause * 2, POLL_S)
        return True

    def run_beside(self, argv: list[str], output: Path, limit_s: float) -> int | None:
        """Run a tool of ours, its output into a file; None when it did not end in time."""
        try:
            with output.open("wb") as out:
                process = self.start(argv, output.parent, {}, out, out)
        except OSError as e:
            output.write_text(f"{argv[0]}: {e.strerror}\n")
            return None
        if self.wait(process, limit_s):
            return process.returncode
        signal_group(process.pid, signal.SIGKILL)
        self.wait(process, 1.0)
        with output.open("a") as f:
            f.write(f"{argv[0]} did not end within {limit_s:.0f} s\n")
        return None

    def end_strays(self) -> int:
        """Kill what a command left behind: what carries our marker, and what we have inherited."""

        def find() -> set[int]:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            mine = {pid for pid, run in marks().items() if run == self.run.name}
            return mine | descendants(os.getpid())

        return kill_all(find, self.beat)


class Attempt:
    """One command, from its start to the end of the last process that it left."""

    def __init__(self, runner: Runner, stage: Json, command: Json, folder: Path) -> None:
        self.runner = runner
        self.stage = stage
        self.command = command
        self.folder = folder
        self.logs = [self.file(f"{stream}.log") for stream in ("stdout", "stderr")]
        self.process: subprocess.Popen[bytes]
        self.ending: Ending

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.command['name']}.{kind}"

    def files(self, kind: str) -> list[Path]:
        prefix = self.file(kind).name
        return sorted(p for p in self.folder.iterdir() if p.name.startswith(prefix))

    def run(self) -> Ending:
        runner, argv = self.runner, self.command["argv"]
        env = self.environment()
        began = time.monotonic()
        try:
            with self.logs[0].open("wb") as out, self.logs[1].open("wb") as err:
                self.process = runner.start(argv, self.folder, env, out, err)
        except OSError as e:
            return Ending("not started", f"{argv[0]}: {e.strerror}")
        names = {"stage": self.stage["name"], "command": self.command["name"]}
        runner.journal.write("command_started", pid=self.process.pid, **names)
        self.ending = self.watch()
        self.ending.seconds = round(time.monotonic() - began, 3)
        dumped = False
        if self.ending.ended_by == "time limit":
            dumped = self.command["core_dump"] and self.take_core()
            self.note_gpu()
        self.end()
        self.ending.strays = runner.end_strays()
        if dumped and not runner.cancelled:
            self.read_core()
        self.tidy()
        if self.ending.ended_by == "exit":
            self.judge_exit()
        return self.ending

    def environment(self) -> dict[str, str]:
        env: dict[str, str] = dict(self.command["env"])
        if self.command["core_dump"]:
            env["CUDA_ENABLE_USER_TRIGGERED_COREDUMP"] = "1"
            env["CUDA_COREDUMP_PIPE"] = str(self.file("pipe_%p"))
            env["CUDA_COREDUMP_FILE"] = str(self.file("core_%p"))
            env["CUDA_COREDUMP_GENERATION_FLAGS"] = (
                "skip_nonrelocated_elf_images,skip_global_memory,skip_local_memory,skip_abort"
            )
        return env

    def watch(self) -> Ending:
        """Wait until the command ends or passes a limit; what to do about it is the caller's."""
        time_s, stage = self.command["time_s"], self.stage
        deadline = time.monotonic() + time_s
        at_start = tree_bytes(self.folder)
        floor = floor_bytes(self.folder)
        look_at = 0.0
        pause = 0.001
        while not self.runner.wait(self.process, min(pause, max(0.0, deadline - time.monotonic()))):
            pause = min(pause * 2, POLL_S)
            now = time.monotonic()
            if self.runner.cancelled:
                return Ending("signal", "cancelled")
            if now >= deadline:
                return Ending("time limit", f"it ran {time_s:g} s, all it may")
            if sum(log.stat().st_size for log in self.logs) > stage["output_bytes"]:
                return Ending("output limit", f"more than {stage['output_bytes']} bytes of output")
            if free_bytes(self.folder) < floor:
                return Ending("disk full", f"the disk is full: less than {floor} bytes free")
            if now >= look_at:
                grown = tree_bytes(self.folder) - at_start
                # A folder of many files takes a while to measure: spend a tenth of the time on it.
                look_at = time.monotonic() + max(0.2, 10 * (time.monotonic() - now))
                if grown > stage["disk_bytes"]:
                    return Ending("disk limit", f"more than {stage['disk_bytes']} bytes of files")
        return Ending("exit")

    def end(self) -> None:
        """End the command's process group: TERM, a grace, KILL."""
        process, ending = self.process, self.ending
        if process.poll() is None:
            signal_group(process.pid, signal.SIGTERM)
            if not self.runner.wait(process, GRACE_S):
                signal_group(process.pid, signal.SIGKILL)
                self.runner.wait(process, KILL_WAIT_S)
        if process.returncode is None:
            ending.add(f"process {process.pid} does not die of KILL")
        elif process.returncode < 0 and ending.ended_by == "signal":
            ending.signal = -process.returncode

    def judge_exit(self) -> None:
        code, ending = self.process.returncode, self.ending
        full = self.runner.disk_reason()
        if code not in self.command["ok_exit"] and full:
            ending.ended_by, ending.detail = "disk full", full
        elif code < 0:
            ending.ended_by, ending.signal = "signal", -code
        else:
            ending.exit = code

    def tidy(self) -> None:
        """Cut what a log got past its limit before we looked, and remove the dump pipes."""
        for log in self.logs:
            if log.stat().st_size > self.stage["output_bytes"]:
                os.truncate(log, self.stage["output_bytes"])
        for pipe in self.files("pipe_"):
            pipe.unlink()

    # a hang: core dump, nvidia-smi, cuda-gdb

    def take_core(self) -> bool:
        """Ask the CUDA driver for a core of the hung kernel: one byte into its pipe."""
        asked = False
        for pipe in self.files("pipe_"):
            with contextlib.suppress(OSError):  # ENXIO: nobody reads this one any more
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                asked = os.write(descriptor, b"1") == 1 or asked
                os.close(descriptor)
        if not asked:
            self.ending.add("no core dump: the program opened no dump pipe")
            return False
        cores = self.wait_for_cores()
        if not cores:
            self.ending.add(f"no core dump within {CORE_WAIT_S:.0f} s")
            return False
        cores[0].replace(self.file("core"))
        return True

    def wait_for_cores(self) -> list[Path]:
        """Wait for a core that has stopped growing (the driver writes it in pieces)."""
        limit = time.monotonic() + CORE_WAIT_S
        sizes: dict[Path, int] = {}
        stable_since = time.monotonic()
        while time.monotonic() < limit and not self.runner.cancelled:
            now = {p: p.stat().st_size for p in self.files("core_")}
            if now != sizes:
                sizes, stable_since = now, time.monotonic()
            stable = time.monotonic() - stable_since >= CORE_STABLE_S
            if stable and (any(sizes.values()) or self.process.poll() is not None):
                break
            self.runner.beat()
            time.sleep(POLL_S)
        return [path for path, size in sizes.items() if size]

    def note_gpu(self) -> None:
        smi = find_tool("nvidia-smi")
        if smi:
            self.runner.run_beside([smi, "-q"], self.file("nvidia-smi.txt"), SMI_S)

    def read_core(self) -> None:
        """Let cuda-gdb say which warps wait at which line."""
        gdb = find_tool("cuda-gdb")
        if gdb is None:
            self.ending.add("core dumped, but there is no cuda-gdb to read it")
            return
        argv = [gdb, "-batch", "-ex", f"target cudacore {self.file('core').name}"]
        for what in ("kernels", "warps", "threads"):
            argv += ["-ex", f"info cuda {what}"]
        code = self.runner.run_beside(argv, self.file("gdb.txt"), GDB_S)
        said = "core dumped" if code == 0 else f"core dumped, cuda-gdb exited with {code}"
        self.ending.add(said)


class Once:
    """Good results of `once` commands, kept on the box with their files for later runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, command: Json) -> Path:
        return self.folder / hashlib.sha256(command["once"].encode()).hexdigest()[:32]

    def reuse(self, command: Json, folder: Path) -> Ending | None:
        """Bring back the files of an earlier good run of the same thing, if they are all whole."""
        kept = self.path(command)
        try:
            record = json.loads((kept / "result.json").read_bytes())
            for name, sha in record["files"].items():
                path = kept / "files" / name
                if sha256_head(path, path.stat().st_size) != sha:
                    return None
            for name in record["files"]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(kept / "files" / name, folder / name)
        except (OSError, ValueError, KeyError):
            return None
        ending = Ending("exit", record["detail"])
        ending.exit, ending.seconds = record["exit"], record["seconds"]
        ending.reused_from = record["utc"]
        return ending

    def keep(self, command: Json, folder: Path, files: set[Path], ending: Ending) -> str:
        """Keep the files a command made; what goes wrong with that is returned, and no harm."""
        kept = self.path(command)
        part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        record: Json = {"key": command["once"], "utc": utc_now(), "files": {}}
        record.update(exit=ending.exit, seconds=ending.seconds, detail=ending.detail)
        try:
            for path in sorted(files):
                if path.is_file() and not path.is_symlink():
                    name = str(path.relative_to(folder))
                    target = part / "files" / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    record["files"][name] = sha256_head(path, path.stat().st_size)
            write_file(part / "result.json", json.dumps(record).encode())
            shutil.rmtree(kept, ignore_errors=True)
            part.replace(kept)
        except OSError as e:
            shutil.rmtree(part, ignore_errors=True)
            return f"'{command['once']}' could not be kept for later runs: {e}"
        return ""


LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_agent() -> None:
    """In the child, before exec: a killed agent takes its command along; no host core dumps."""
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def run_daemon(folder: str, lock: str) -> NoReturn:
    """Leave the client's session for good, then run; the lock goes when this process goes."""
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(lock), False)
    Runner(Path(folder), int(lock)).main()
    sys.exit(0)


# --- health: does the GPU still answer? ----------------------------------------------------------

ADD_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data)
{
  .reg .u64 %rd<4>;
  .reg .u32 %r<4>;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.u32 %r3, %r2, %r1;
  st.global.u32 [%rd3], %r3;
  ret;
}
"""


class NoDriver(Exception):
    """There is no CUDA driver here."""


def add_on_gpu() -> None:
    """Allocate, copy, add, synchronise, compare; raises at the first thing that fails."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise NoDriver(str(e)) from e

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            cuda.cuGetErrorString(code, ctypes.byref(text))
            said = (text.value or b"unknown error").decode()
            raise RuntimeError(f"{name} gave {code}: {said}")

    count = 32
    device, context, data = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    values = (ctypes.c_uint32 * count)(*range(100, 100 + count))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4 * count))
    call("cuMemcpyHtoD_v2", data, values, ctypes.c_size_t(4 * count))
    call("cuModuleLoadData", ctypes.byref(module), ADD_PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(data), ctypes.c_void_p))
    call("cuLaunchKernel", function, 1, 1, 1, count, 1, 1, 0, None, parameters, None)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", values, data, ctypes.c_size_t(4 * count))
    if list(values) != [100 + 2 * i for i in range(count)]:
        raise RuntimeError(f"the GPU adds wrongly: {list(values)[:4]}")


def health() -> None:
    """Print one JSON line: healthy true, false, or null where there is no GPU to ask."""
    answer: Json = {"healthy": True, "detail": "allocated, added and synchronised"}
    try:
        add_on_gpu()
    except NoDriver as e:
        answer = {"healthy": None, "detail": f"no CUDA driver: {e}"}
    except Exception as e:
        answer = {"healthy": False, "detail": str(e)}
    os.write(1, json.dumps(answer).encode() + b"\n")


def parse_health(code: int | None, output: str) -> Json:
    if code is None:
        return {"healthy": False, "detail": f"no answer within {HEALTH_S:.0f} s"}
    with contextlib.suppress(ValueError, IndexError):
        answer = json.loads(output.strip().splitlines()[-1])
        return {"healthy": answer["healthy"], "detail": answer["detail"]}
    return {"healthy": False, "detail": f"the probe exited with {code}"}


# --- main ----------------------------------------------------------------------------------------


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "run":
        run_daemon(sys.argv[2], sys.argv[3])
    elif mode == "health":
        health()
    else:
        with contextlib.suppress(EOFError, BrokenPipeError):
            Server(Wire()).loop()


if __name__ == "__main__":
    main()
