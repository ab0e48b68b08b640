"""A rental is on file before it is made, found again, and gone only when its provider says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernelrig import config
from kernelrig.errors import CiError, ConfigError, ProtocolError, RemoteError
from kernelrig.model import Remote
from kernelrig.rental import billed, life_cycle, rental_file
from kernelrig.rental.billed import still_billed
from kernelrig.rental.provider import Listed, State, parse_hosts

from tests.rental.stand_in import StandIn
from tests.toolchain_fixture import REPOSITORY

NOWHERE = Remote("nowhere", "sm_90a", host="203.0.113.7", port=40022, user="root")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMPV2mTkbTNhbEwqyvqMMQxbEkNGhkeEVLKOmQDYzDmr"


def nobody(_: str) -> str:
    return ""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A provider whose hosts answer to nobody: their keys count as compared."""
    monkeypatch.setattr(life_cycle.LifeCycle, "reach", lambda *_: None)
    own = StandIn.make(tmp_path / "state", NOWHERE)
    own.write(tmp_path, answer_s=0.3, boot_s=0.1)
    return own


def up(root: Path) -> str:
    return life_cycle.up(root, "rented", nobody)


def test_a_second_up_finds_the_host_of_the_first(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = up(tmp_path)
    assert first == "'rented' is up at 203.0.113.7:40022; try `invoke remote-test --remote rented`"
    assert up(tmp_path) == first
    assert (len(stand_in.hosts), stand_in.most_hosts) == (1, 1)
    (record,) = (tmp_path / "artifacts/rentals").glob("*.json")
    asked = datetime.fromisoformat(json.loads(record.read_text())["asked_utc"])
    with monkeypatch.context() as later:
        later.setattr(billed, "time", SimpleNamespace(time=lambda: asked.timestamp() + 30 * 60))
        (said,) = still_billed(tmp_path)
    assert said.startswith("still billed: remote 'rented' since 20")
    assert f", 30 min, up to 2.50 at 5.00 an hour ({stand_in.hosts[0]}, request kernelrig-" in said
    assert said.endswith("; `invoke down rented` gives it back")


@pytest.mark.parametrize("words", [("show", "nothing"), ("--list",)])
@pytest.mark.parametrize("program", ["kernelrig", "invoke"])
def test_each_exit_of_each_program_says_once_what_is_billed(
    tmp_path: Path, stand_in: StandIn, program: str, words: tuple[str, ...]
) -> None:
    """Plain invoke runs our tasks with a program of its own, which lists them by itself."""
    up(tmp_path)
    (tmp_path / "tasks.py").write_text("from kernelrig.cli.tasks import ns\n")
    done = subprocess.run(
        [sys.executable, "-m", program, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "ci")},
        capture_output=True,
        text=True,
        check=False,
    )
    of_a_task = program == "kernelrig" or words[0] == "show"
    assert done.stderr.count("still billed: remote 'rented' since 20") == of_a_task


def test_down_is_confirmed_by_the_provider_however_often(tmp_path: Path, stand_in: StandIn) -> None:
    up(tmp_path)
    for _ in range(2):
        said = life_cycle.down(tmp_path, "rented", nobody)
        assert said == "'rented' is down: its provider lists no host of it"
    assert (stand_in.hosts, still_billed(tmp_path)) == ([], ())
    assert len(list((tmp_path / "artifacts/rentals/ended").iterdir())) == 1


def test_a_host_that_stays_is_named_until_it_is_gone(tmp_path: Path, stand_in: StandIn) -> None:
    up(tmp_path)
    (own,) = stand_in.hosts
    stand_in.fault("down", "begin", "fails")
    with pytest.raises(RemoteError) as caught:
        life_cycle.down(tmp_path, "rented", nobody)
    (rental,) = rental_file.open_of(tmp_path, "rented")
    assert str(caught.value) == (
        f"'rented' may still be billed (request {rental.request}): it is {own} (running);"
        " look at the provider's page; `invoke down rented` tries again"
    )
    assert len(still_billed(tmp_path)) == 1


def test_what_could_not_be_rented_is_asked_for_again_under_the_same_request(
    tmp_path: Path, stand_in: StandIn
) -> None:
    stand_in.fault("up", "begin", "fails")
    with pytest.raises(RemoteError) as caught:
        up(tmp_path)
    assert str(caught.value) == (
        "'up' of 'rented' exited 1: no capacity: no host of it is known so far; `invoke up rented`"
        " looks again before it asks again; `invoke down rented` gives back what is there"
    )
    (asked,) = rental_file.open_of(tmp_path, "rented")
    (said,) = still_billed(tmp_path)
    assert said.startswith("perhaps billed: remote 'rented' was asked for, and what became of it")
    up(tmp_path)
    (again,) = rental_file.open_of(tmp_path, "rented")
    assert (asked.request, "up") == (again.request, again.state)
    assert stand_in.most_hosts == 1


def test_two_hosts_of_one_request_are_both_named_and_both_given_back(
    tmp_path: Path, stand_in: StandIn
) -> None:
    up(tmp_path)
    (rental,) = rental_file.open_of(tmp_path, "rented")
    (stand_in.state / "hosts/i-twin").write_text(rental.request)
    with pytest.raises(RemoteError, match=r"^'rented' has 2 hosts: .*i-twin \(running\); `invoke"):
        up(tmp_path)
    life_cycle.down(tmp_path, "rented", nobody)
    assert stand_in.hosts == []


def test_a_host_that_its_provider_took_is_no_longer_billed_and_rented_anew(
    tmp_path: Path, stand_in: StandIn
) -> None:
    up(tmp_path)
    (first,) = stand_in.hosts
    (stand_in.state / "hosts" / first).unlink()
    up(tmp_path)
    assert stand_in.hosts != [first]
    assert len(still_billed(tmp_path)) == 1


def test_without_tags_the_user_is_asked_before_anything_is_rented(
    tmp_path: Path, stand_in: StandIn
) -> None:
    (tmp_path / "remotes.local.yaml").unlink()
    stand_in.write(tmp_path, tags=False, answer_s=0.3, boot_s=0.1)
    stand_in.fault("up", "done", "provider")
    with pytest.raises(RemoteError, match=r"^'up' of 'rented' exited -9: no output: no host of it"):
        up(tmp_path)
    for task in (life_cycle.up, life_cycle.down):
        with pytest.raises(ConfigError, match=r"is not known, and its provider has no tags"):
            task(tmp_path, "rented", nobody)
    (own,) = stand_in.hosts
    life_cycle.up(tmp_path, "rented", lambda _: own)
    assert stand_in.hosts == [own]
    life_cycle.down(tmp_path, "rented", nobody)
    assert stand_in.hosts == []


def test_beside_a_host_that_the_user_knows_none_is_rented(
    tmp_path: Path, stand_in: StandIn
) -> None:
    with pytest.raises(ConfigError, match=r"^no request of 'rented' is open: --id i-1 would be"):
        life_cycle.up(tmp_path, "rented", nobody, known_host="i-1")
    assert stand_in.hosts == []
    life_cycle.up(tmp_path, "rented", nobody, known_host="none")
    assert len(stand_in.hosts) == 1


def test_the_word_of_the_user_confirms_nothing(tmp_path: Path, stand_in: StandIn) -> None:
    (tmp_path / "remotes.local.yaml").unlink()
    stand_in.write(tmp_path, tags=False, answer_s=0.3, boot_s=0.1)
    rental_file.save(tmp_path, rental_file.new_rental("rented", None))
    with pytest.raises(RemoteError, match="is filed as gone on your word: its provider has not"):
        life_cycle.down(tmp_path, "rented", lambda _: "none")
    assert still_billed(tmp_path) == ()


def test_only_one_up_or_down_of_a_remote_is_at_work(tmp_path: Path, stand_in: StandIn) -> None:
    with (
        rental_file.held(tmp_path, "rented"),
        pytest.raises(RemoteError, match="is at work, or a comm"),
    ):
        up(tmp_path)
    assert stand_in.hosts == []


def test_a_host_that_is_to_end_itself_must_know_how_before_it_is_rented(
    tmp_path: Path, stand_in: StandIn
) -> None:
    with pytest.raises(ConfigError, match="--down-after needs 'on_idle' of 'rented'"):
        life_cycle.up(tmp_path, "rented", nobody, down_after=5.0)
    assert (stand_in.hosts, still_billed(tmp_path)) == ([], ())


def test_a_damaged_record_is_named_and_never_passed_over(tmp_path: Path, stand_in: StandIn) -> None:
    (tmp_path / "artifacts/rentals").mkdir(parents=True)
    (tmp_path / "artifacts/rentals/kernelrig-x.json").write_text("{")
    assert still_billed(tmp_path) == (
        "perhaps billed: artifacts/rentals/kernelrig-x.json cannot be read: look for kernelrig-x"
        " at the provider",
    )
    with pytest.raises(ProtocolError, match="cannot be read: it may be of 'rented'"):
        up(tmp_path)
    assert stand_in.hosts == []


def test_a_remote_without_commands_is_not_rented(tmp_path: Path) -> None:
    config.add_remote(tmp_path, NOWHERE)
    with pytest.raises(ConfigError, match="'nowhere' is not rented by commands"):
        life_cycle.up(tmp_path, "nowhere", nobody)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("[]", ()),
        ("state=none\n", (Listed(State.GONE, "none"),)),
        ('[{"id": 7, "state": "shutting-down"}]', (Listed(State.OTHER, "shutting-down", "7"),)),
        ('{"state": "Terminated"}', (Listed(State.GONE, "Terminated"),)),
        (
            "id = i-7\nstate=RUNNING\naddress=2001:db8::1\nport=40022\nuser=root\nprice=5\n",
            (Listed(State.RUNNING, "RUNNING", "i-7", "2001:db8::1", 40022, "root"),),
        ),
        (json.dumps({"state": "running", "address": None}), (Listed(State.RUNNING, "running"),)),
    ],
)
def test_what_a_command_prints_is_read(text: str, hosts: tuple[Listed, ...]) -> None:
    assert parse_hosts(text, "status") == hosts


@pytest.mark.parametrize(
    "text",
    [
        "", "  \n", "no hosts found", "[[]]", "[1]", "[", '{"state": NaN}', '{"id": "-rf"}',
        '{"id": "a b"}', '{"address": "-oProxyCommand=x"}', '{"address": "a/b"}', '{"port": 70000}',
        '{"port": "22x"}', '{"user": "-l"}', "state=running\nstate=none\n",
        "[" + "{}," * 100 + "{}]",
    ],
)  # fmt: skip
def test_what_is_no_listing_never_means_that_nothing_is_there(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_hosts(text, "status")


def test_a_command_that_prints_without_end_is_ended(tmp_path: Path, stand_in: StandIn) -> None:
    text = (tmp_path / "remotes.local.yaml").read_text()
    endless = '["sh", "-c", "yes #{request}"]'
    start, end = text.index("    status:"), text.index("    down:")
    (tmp_path / "remotes.local.yaml").write_text(
        f"{text[:start]}    status: {endless}\n{text[end:]}"
    )
    rental_file.save(tmp_path, rental_file.new_rental("rented", None))
    with pytest.raises(CiError, match=r"^'status' of 'rented': sh printed more than 262144 bytes"):
        up(tmp_path)
