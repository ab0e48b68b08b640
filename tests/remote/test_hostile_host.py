"""Whatever a host says: what it may not write is not written, what it sends has an end."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError, RemoteError
from kernelrig.remote.host_files import Limits
from kernelrig.remote.host_link import HostLink, connect_host
from kernelrig.remote.protocol import LINE_LIMIT
from kernelrig.remote.ssh.session import Session
from kernelrig.remote.transfer import Missing

from tests.remote.hostile_agent import hostile_python, listing, script_of, sending
from tests.remote.local_host import Event, job, shell
from tests.remote.sshd_fixture import Sshd, start_server

pytestmark = pytest.mark.limit(60)  # where a guard is missing most of these go on for ever

JOBS = (job("smoke", shell("a", ":", 0.1), output_bytes=1000, disk_bytes=3000),)
STAGE = "stages/01-smoke"
QUIET = "host: no event of run-1 for {} s, although the connection is alive"
GOES_ON = "host: run-1 is not over after {} s, more than its commands may take"


@pytest.fixture(scope="module")
def server(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = start_server(tmp_path_factory.mktemp("hostile") / "sshd")
    yield server
    server.stop()


@contextlib.contextmanager
def linked(server: Sshd, folder: Path, script: str, answer_s: float = 60.0) -> Iterator[HostLink]:
    """Yield a link over SSH to a host that answers by the script."""
    python = hostile_python(folder / "hostile", script)
    with Session(server.remote(python=python)) as session:
        link = connect_host(session, session.remote, answer_s=answer_s)
        yield link
        link.close()


def collect(server: Sshd, folder: Path, script: str) -> Missing:
    """Collect `run-1` into `folder`/back from a host that answers by the script."""
    with linked(server, folder, script) as link:
        return link.collect("run-1", folder / "back", JOBS)


def written(folder: Path) -> dict[str, bytes]:
    back = folder / "back"
    return {str(p.relative_to(back)): p.read_bytes() for p in back.rglob("*") if p.is_file()}


OUTSIDE = "a host's results lie in the folders of the stages that it ran"
NO_NAME = "it is no name of a file inside the run"


REFUSED = {
    "run.json": OUTSIDE,
    "job.json": OUTSIDE,
    "manifest.json": OUTSIDE,
    "junit.xml": OUTSIDE,
    "build/cpu_program": OUTSIDE,
    "variants/debug/cpu_program": OUTSIDE,
    "sources/kernel/a.cu": OUTSIDE,
    "launches/0.json": OUTSIDE,
    ".git/hooks/post-checkout": OUTSIDE,
    "stages": OUTSIDE,
    "stages/run.json": OUTSIDE,
    "stages/00-check/verdict": OUTSIDE,
    "stages/02-timing/a.json": OUTSIDE,
    f"{STAGE}/.git/config": OUTSIDE,
    f"{STAGE}/.GIT/config": OUTSIDE,
    "/etc/passwd": NO_NAME,
    "": NO_NAME,
    ".": NO_NAME,
    "../run.json": NO_NAME,
    f"{STAGE}/../../run.json": NO_NAME,
    f"{STAGE}/./a": NO_NAME,
    f"{STAGE}//a": NO_NAME,
    f"{STAGE}/": NO_NAME,
    f"{STAGE}/a\0b": NO_NAME,
    f"{STAGE}/\ud800": NO_NAME,
    f"{STAGE}/{'d/' * 100}a": "it lies more than 100 folders deep",
    f"{STAGE}/{'n' * 256}": "its name has 256 bytes as it is written here, 255 are possible",
    f"{STAGE}/{'?' * 86}": "its name has 258 bytes as it is written here, 255 are possible",
    f"{STAGE}/{('d' * 200 + '/') * 21}a": "its path would have more than 4095 bytes here",
}


def test_only_results_of_stages_are_accepted(server: Sshd, tmp_path: Path) -> None:
    """What the host may send comes, whatever else it lists and sends."""
    names = [*REFUSED, f"{STAGE}/good"]
    script = script_of(manifest=listing(*((name, 5) for name in names)), fetch=sending(b"right"))
    missing = collect(server, tmp_path, script)
    said = dict(line.rsplit(": ", 1) for line in missing.names)
    assert sorted(said.values()) == sorted(REFUSED.values())
    assert said["run.json"] == OUTSIDE
    assert not missing.may_come
    assert written(tmp_path) == {f"{STAGE}/good": b"right"}


def test_a_file_that_goes_on_after_its_end_costs_itself_and_not_the_others(
    server: Sshd, tmp_path: Path
) -> None:
    """Announced with no byte, it sends until the connection is closed."""
    script = f"""
LISTED = [["{STAGE}/empty", 0], ["{STAGE}/good", 5]]
def answer(op, request):
    if op == "manifest":
        yield {{"files": LISTED, "lost": [], "other": []}}
        yield {{"end": "listed", "alive": False}}
    elif op == "fetch" and request["files"][0]["bytes"] == 0:
        yield {{"file": 0, "bytes": 0}}
        while True:
            yield b"x" * (1 << 18)
    elif op == "fetch":
        yield {{"file": 0, "bytes": 5}}
        yield b"right"
        yield {{"file": 0, "sha256": "{sha256(b"right").hexdigest()}"}}
        yield {{"end": "fetched"}}
"""
    missing = collect(server, tmp_path, script)
    (said,) = missing.names
    assert said == f"{STAGE}/empty: host: the agent sends a line over {LINE_LIMIT} bytes"
    assert written(tmp_path) == {f"{STAGE}/good": b"right"}


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([{"file": 0, "bytes": 600}], "the host listed it with 5 bytes and sends {'file': 0, 'by"),
        ([{"file": 0, "bytes": True}], "the host listed it with 5 bytes and sends "),
        ([{"file": 0, "bytes": 5.0}, b"right"], "the host listed it with 5 bytes and sends "),
        ([{"file": 1, "bytes": 5}], "the host sends what was not requested: "),
        ([{"file": 0, "same": True}], "the host listed it with 5 bytes and sends "),
        ([{"end": "fetched"}], "the host sends what was not requested: "),
        ([b'{"file": 0, "file": 1, "bytes": 5}\n'], "host: what the agent sent is not a frame: "),
        ([b"[" * 100_000 + b"\n"], "host: what the agent sent is not a frame: "),
        ([b'{"file": NaN}\n'], "host: what the agent sent is not a frame: "),
        (
            [{"file": 0, "lost": "\x1b[2J::error::x" + "y" * 9999}],
            "the host cannot read it: \\x1b[",
        ),
        (
            [*sending(b"wrong")[:2], {"file": 0, "sha256": "0" * 64}],
            "it arrived 3 times with another SHA-256 than announced",
        ),
    ],
)
def test_a_file_that_is_not_sent_as_announced_is_missing(
    server: Sshd, tmp_path: Path, answers: list[object], why: str
) -> None:
    script = script_of(manifest=listing((f"{STAGE}/a", 5)), fetch=[*answers, {"end": "fetched"}])
    missing = collect(server, tmp_path, script)
    assert [name[: len(f"{STAGE}/a: {why}")] for name in missing.names] == [f"{STAGE}/a: {why}"]
    assert all(len(name) < 300 for name in missing.names)
    assert not missing.may_come
    assert written(tmp_path) == {}


def test_more_than_a_stage_may_write_is_not_fetched(server: Sshd, tmp_path: Path) -> None:
    """The smallest come: 64 MiB beyond the limits are allowed for what is seen too late."""
    most = 3000 + 2 * 1000 + (64 << 20)
    files = [(f"{STAGE}/sparse", 8 << 40), (f"{STAGE}/most", most), (f"{STAGE}/a", 5)]
    script = script_of(manifest=listing(*files), fetch=sending(b"right"))
    missing = collect(server, tmp_path, script)
    more = f"bytes its stage has more than the {most} that it may write"
    assert sorted(missing.names) == [
        f"{STAGE}/most: with its {most} {more}",
        f"{STAGE}/sparse: with its {8 << 40} {more}",
    ]
    assert written(tmp_path) == {f"{STAGE}/a": b"right"}


def test_a_list_without_end_ends(server: Sshd, tmp_path: Path) -> None:
    script = f"""
def answer(op, request):
    if op == "manifest":
        for i in range(10**6):
            names = [["{STAGE}/%d" % (i * 1000 + k), 1] for k in range(1000)]
            yield {{"files": names, "lost": [], "other": []}}
"""
    with linked(server, tmp_path, script, 10.0) as link:
        missing = link.collect("run-1", tmp_path / "back", JOBS, Limits(files=3000))
    said = "all that did not come: the host lists more than 8000 files"
    assert missing == Missing((said,), may_come=True)


def test_a_list_of_nothing_without_end_ends(server: Sshd, tmp_path: Path) -> None:
    script = """
def answer(op, request):
    while op == "manifest":
        yield {"files": [], "lost": [], "other": []}
"""
    with linked(server, tmp_path, script, 10.0) as link:
        missing = link.collect("run-1", tmp_path / "back", JOBS, Limits(files=3000))
    said = "all that did not come: the host lists more than 8000 files"
    assert missing == Missing((said,), may_come=True)


def test_facts_without_end_are_not_recorded(server: Sshd, tmp_path: Path) -> None:
    facts = {"hostname": "h", "python": "3.11.2", "glibc": "2.36", "free_bytes": 1}
    script = script_of(facts={**facts, "driver": "9" * (1 << 20)})
    with linked(server, tmp_path, script) as link, pytest.raises(ProtocolError) as error:
        _ = link.facts
    assert error.value.message.startswith("host: the host's facts have 1048")


@pytest.mark.parametrize(
    "frame",
    [
        {"files": {"a": 1}},
        {"files": [[f"{STAGE}/a"]]},
        {"files": [[f"{STAGE}/a", "5"]]},
        {"files": [[f"{STAGE}/a", True]]},
        {"files": [[f"{STAGE}/a", -5]]},
        {"files": [[5, 5]]},
        {"files": None},
        {"lost": [[f"{STAGE}/a", 5]]},
        {"other": [None]},
    ],
)
def test_a_list_that_is_garbled_is_refused_as_a_whole(
    server: Sshd, tmp_path: Path, frame: dict[str, object]
) -> None:
    whole = {"files": [], "lost": [], "other": [], **frame}
    missing = collect(server, tmp_path, script_of(manifest=[whole, {"end": "listed"}]))
    (said,) = missing.names
    assert said.startswith("all that did not come: the host's list of files is garbled: ")


HELLO = sha256(b"hello").hexdigest()


@pytest.mark.parametrize(
    ("small", "said"),
    [
        (None, "the host's small files are garbled: None"),
        ([["a", HELLO]], "the host's small files are garbled: ['a', "),
        ([["a", HELLO, "aGVsbG8"]], "the host's small files are garbled: 'aGVsbG8'"),
        ([["a", HELLO, "h\xe9"]], "the host's small files are garbled: 'h\\xe9'"),
        (
            [[f"{STAGE}/{n}", "0" * 64, "QUFB" * 40_000] for n in range(3)],
            "the host's small files have more than 262144 bytes",
        ),
    ],
)
def test_small_files_that_are_garbled_or_too_many_are_refused(
    server: Sshd, tmp_path: Path, small: object, said: str
) -> None:
    listed, end = listing((f"{STAGE}/a", 5))
    missing = collect(server, tmp_path, script_of(manifest=[listed, {"small": small}, end]))
    (why,) = missing.names
    assert why.startswith(f"all that did not come: {said}")
    assert written(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "digest", "text"),
    [
        (f"{STAGE}/a", "0" * 64, "aGVsbG8="),  # another hash than announced
        (f"{STAGE}/a", sha256(b"hell").hexdigest(), "aGVsbA=="),  # another size than listed
        ("run.json", HELLO, "aGVsbG8="),  # what is not accepted, and not even listed
    ],
)
def test_a_small_file_that_is_not_as_listed_is_asked_for(
    server: Sshd, tmp_path: Path, name: str, digest: str, text: str
) -> None:
    listed, end = listing((f"{STAGE}/a", 5))
    small = {"small": [[name, digest, text]]}
    script = script_of(manifest=[listed, small, end], fetch=sending(b"right"))
    assert collect(server, tmp_path, script) == Missing()
    assert written(tmp_path) == {f"{STAGE}/a": b"right"}


def test_small_files_without_end_are_refused(server: Sshd, tmp_path: Path) -> None:
    script = listing_script("manifest", 'while True:\n    yield {"small": []}')
    (said,) = collect(server, tmp_path, script).names
    assert said == "all that did not come: the host lists more than 102000 files"


def test_names_that_file_systems_or_artifacts_refuse_are_encoded(
    server: Sshd, tmp_path: Path
) -> None:
    names = {
        "a\nb\r\x1b[31m": "a%0Ab%0D%1B[31m",
        'a:b"c<d>e|f*g?h\\i': "a%3Ab%22c%3Cd%3Ee%7Cf%2Ag%3Fh%5Ci",
        "100%": "100%25",
        "latin-\udce9": "latin-%E9",
        "dot.": "dot%2E",
        "two dots..": "two dots.%2E",
        "space ": "space%20",
        "\u202egnp.exe": "%E2%80%AEgnp.exe",
        "\x85next": "%C2%85next",
        "größe 尺寸": "größe 尺寸",
    }
    listed = listing(*((f"{STAGE}/{name}", 5) for name in names))
    script = script_of(manifest=listed, fetch=sending(*[b"right"] * len(names)))
    assert collect(server, tmp_path, script) == Missing()
    assert sorted(p.name for p in (tmp_path / "back" / STAGE).iterdir()) == sorted(names.values())


def test_a_link_on_the_way_is_not_followed(server: Sshd, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back/stages").symlink_to(outside)
    script = script_of(manifest=listing((f"{STAGE}/a", 5)), fetch=sending(b"right"))
    missing = collect(server, tmp_path, script)
    assert missing == Missing(
        (
            f"{STAGE}/a: it cannot be written here: stages is no folder here, but a file or a"
            " symbolic link",
        ),
        may_come=True,
    )
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced(server: Sshd, tmp_path: Path) -> None:
    target, place = tmp_path / "target", tmp_path / "back" / STAGE / "a"
    target.write_bytes(b"right")
    place.parent.mkdir(parents=True)
    place.symlink_to(target)
    same = "yield {'file': 0, 'same': True}\nyield {'end': 'fetched'}\nreturn"
    known = f"if 'sha256' in request['files'][0]:\n{textwrap.indent(same, '    ')}"
    assert collect(server, tmp_path, listing_script("fetch", known)) == Missing()
    assert not place.is_symlink()


TICKS = """
def answer(op, request):
    while op == {op!r}:
        yield {{"tick": True}}
        yield 0.01
"""


@pytest.mark.limit(20)
@pytest.mark.parametrize("op", ["facts", "need", "manifest", "fetch"])
def test_a_reply_that_never_comes_is_given_up(server: Sshd, tmp_path: Path, op: str) -> None:
    script = TICKS.format(op=op)
    if op == "fetch":
        script = script_of(manifest=listing((f"{STAGE}/a", 5))).replace(
            "def answer", "def listed"
        ) + script.replace("    while", "    yield from listed(op, request)\n    while")
    asked = {
        "facts": lambda link: link.facts,
        "need": lambda link: link.ship({}),
        "manifest": lambda link: link.collect("run-1", tmp_path / "back", JOBS),
        "fetch": lambda link: link.collect("run-1", tmp_path / "back", JOBS),
    }
    with linked(server, tmp_path, script, 0.2) as link, pytest.raises(RemoteError) as error:
        asked[op](link)
    assert error.value.message == (
        "host: the agent has not replied for 0 s, although the connection is alive"
    )


def listing_script(op: str, body: str) -> str:
    """Return the script of a host that has one file, and does `body` for an operation."""
    given = script_of(manifest=listing((f"{STAGE}/a", 5)), fetch=sending(b"right"))
    return given.replace("def answer", "def given") + (
        "def answer(op, request):\n"
        f"    if op == {op!r}:\n{textwrap.indent(body, ' ' * 8)}\n"
        "    yield from given(op, request)\n"
    )


def told(**event: object) -> str:
    return f"yield {{'event': {event!r}, 'offset': 1}}\n"


NOTES_ONLY = f"while True:\n    {told(event='note', text='x')}    yield 0.01"
TICKS_ONLY = "while True:\n    yield {'tick': True}; yield 0.01"


@pytest.mark.parametrize(
    ("body", "why"), [(TICKS_ONLY, QUIET.format(0.6)), (NOTES_ONLY, GOES_ON.format(1.2))]
)
def test_a_run_without_events_or_end_is_left_and_its_files_are_fetched(
    server: Sshd, tmp_path: Path, body: str, why: str
) -> None:
    with linked(server, tmp_path, listing_script("follow", body), 0.6) as link:
        missing = link.bring_back("run-1", tmp_path / "back", JOBS, lambda _: None)
    assert missing == Missing((why,), may_come=True)
    assert written(tmp_path) == {f"{STAGE}/a": b"right"}


def test_what_trickles_in_for_longer_than_a_reply_may_take_is_left(
    server: Sshd, tmp_path: Path
) -> None:
    """Each frame of the list, and each file, comes in time; all of them together do not."""
    listed = "yield {'files': [], 'lost': [], 'other': []}\n"
    script = listing_script("manifest", f"while True:\n    {listed}    yield 0.3")
    with linked(server, tmp_path, script, 0.6) as link, pytest.raises(RemoteError) as error:
        link.collect("run-1", tmp_path / "back", JOBS)
    assert "has not replied for 1 s" in error.value.message
    files = "for number in range(4):\n    yield {'file': number, 'lost': ''}; yield 0.55\n"
    names = script_of(manifest=listing(*((f"{STAGE}/{i}", 0) for i in range(4))))
    script = listing_script("fetch", files) + names.replace("def answer", "def given")
    with linked(server, tmp_path, script, 0.6) as link, pytest.raises(RemoteError) as error:
        link.collect("run-1", tmp_path / "back", JOBS)
    assert "less than 16384 bytes/s of files arrive" in error.value.message


def test_a_list_of_what_is_no_file_is_left_at_once(server: Sshd, tmp_path: Path) -> None:
    event = {"event": {"event": "note"}, "offset": 0}
    missing = collect(server, tmp_path, listing_script("manifest", f"yield {event!r}"))
    (said,) = missing.names
    assert said.startswith("all that did not come: the host's list of files is garbled: ")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            b'{"event": {"event": "note", "text": "' + b"x" * (1 << 20) + b'"}, "offset": 1}\n',
            "host: the journal of run-1 has no end: 32 events of ",
        ),
        (b'{"event": ["note"], "offset": 1}\n', "the host tells of no event: "),
        (b'{"event": {"event": ["note"]}, "offset": 1}\n', "the host tells of no event: "),
        (b'{"event": {"event": "note"}, "offset": -1}\n', "the host tells of no event: "),
        (b'{"event": {"event": "note"}, "offset": 1e999}\n', "host: what the agent sent is not "),
        (b'{"offset": 1}\n', "the host tells of no event: "),
    ],
)
def test_a_journal_that_has_no_end_or_no_events_is_left(
    server: Sshd, tmp_path: Path, said: bytes, why: str
) -> None:
    script = f"""
def answer(op, request):
    while op == "follow":
        yield {said!r}
"""
    events: list[Event] = []
    with linked(server, tmp_path, script) as link:
        missing = link.bring_back("run-1", tmp_path / "back", JOBS, events.append)
    assert missing.may_come
    assert missing.names[0][: len(why)] == why


def test_a_flood_of_stderr_beside_silence_ends(server: Sshd, tmp_path: Path) -> None:
    script = """
import os
def answer(op, request):
    while op == "facts":
        os.write(2, b"noise " * 1000)
        yield b""
"""
    python = hostile_python(tmp_path / "hostile", script)
    with Session(server.remote(python=python), silence_s=0.3) as session:
        link = connect_host(session, session.remote, give_up_s=0.1)
        with pytest.raises(RemoteError) as error:
            _ = link.facts
    assert "sent nothing for 0.3 s" in error.value.message


@pytest.mark.parametrize(
    "answers",
    [
        {"need": {}},
        {"need": {"missing": "abc", "corrupted": []}},
        {"need": {"missing": ["0" * 64], "corrupted": []}},
        {"need": {"missing": [], "corrupted": [1]}},
        {"need": {"missing": [], "corrupted": [[]]}},
        {"facts": {"hostname": 5}},
        {"prune": {"freed_bytes": "1"}},
        {"prune": {"freed_bytes": -1}},
        {"cancel": {}},
        {"health": {"healthy": 0, "detail": ""}},
    ],
)
def test_a_reply_of_another_form_is_unreadable(
    server: Sshd, tmp_path: Path, answers: dict[str, object]
) -> None:
    with linked(server, tmp_path, script_of(**answers)) as link, pytest.raises(ProtocolError):
        link.ship({}), link.facts, link.clean(1.0), link.cancel("run-1"), link.health()
