"""`remote-add` sets one entry of remotes.local.yaml and leaves the rest of the file as it was."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ConfigError
from kernelrig.model import Remote, SlurmOptions

WRITTEN = """\
# my hosts
schema: 2
remotes:
    # the cheap one
    cheap:      # by the hour
        arch: sm_90a
        host: 198.51.100.4

    # the good one
    good: {arch: sm_100a,
           host: 203.0.113.7, port: 40022}  # gone after tonight

# the end
"""


def add(root: Path, remote: Remote, *, replace: bool = False) -> str:
    path = config.add_remote(root, remote, replace=replace)
    assert path == root / "remotes.local.yaml"
    return path.read_text()


def test_the_first_remote_makes_the_file(tmp_path: Path) -> None:
    text = add(tmp_path, Remote("host", "sm_90a", host="203.0.113.7", user="root", port=22))
    assert text.endswith(
        "schema: 2\nremotes:\n  host:\n    arch: sm_90a\n"
        '    host: "203.0.113.7"\n    user: root\n    port: 22\n'
    )


def test_everything_an_entry_can_say_comes_back_as_it_went_in(tmp_path: Path) -> None:
    remote = Remote(
        "host", "sm_100a", kind="ssh", host="2001:db8::1", user="no", port=40022,
        identity_file="~/.ssh/id a", host_key="ssh-rsa a+/b=", jump="me@gate", workdir="/w # x",
        gpu="1e5", tools="ship", python="python3.12",
        connect_timeout_s=2.5, boot_s=0.5, silence_s=5.5, give_up_s=60.0, answer_s=90.0,
        env={"A": "1", "B": "täglich: \"x\"\n", "C": ""},
        price_per_hour=4.5, max_minutes=30.0, max_cost=2.0, tags=False,
        up=("rent", "--tag={request}", "# no"), status=("ask", "{id}"), down=("drop", "{id}"),
        on_idle=("shutdown", "-h", "now"),
    )  # fmt: skip
    add(tmp_path, remote)
    assert config.load_remotes(tmp_path) == {"host": remote}
    asked = SlurmOptions(
        "gpu,long", "a", qos="q", reservation="r", gres="gpu:b200:1", constraint="[a|b]",
        nodelist="n[1-4]", exclude="n2", cpus=4, memory_mb=100, time_minutes=5, requeue=False,
    )  # fmt: skip
    cluster = Remote("cluster", "sm_90a", kind="slurm", host="login", slurm=asked)
    add(tmp_path, cluster)
    assert config.load_remotes(tmp_path) == {"host": remote, "cluster": cluster}


def test_a_new_entry_goes_to_the_end_and_keeps_every_comment(tmp_path: Path) -> None:
    (tmp_path / "remotes.local.yaml").write_text(WRITTEN)
    text = add(tmp_path, Remote("new", "sm_90a", host="h"))
    assert text == WRITTEN.replace(
        "# gone after tonight\n",
        "# gone after tonight\n    new:\n      arch: sm_90a\n      host: h\n",
    )


def test_an_update_replaces_its_own_lines_alone(tmp_path: Path) -> None:
    (tmp_path / "remotes.local.yaml").write_text(WRITTEN)
    text = add(
        tmp_path, Remote("cheap", "sm_90a", host="198.51.100.4", host_key="ssh-ed25519 AAAA+/=")
    )
    assert text == WRITTEN.replace(
        "    cheap:      # by the hour\n        arch: sm_90a\n        host: 198.51.100.4\n",
        "    cheap:\n      arch: sm_90a\n"
        '      host: "198.51.100.4"\n      host_key: "ssh-ed25519 AAAA+/="\n',
    )


def test_another_address_under_the_same_name_is_refused_unless_it_replaces(
    tmp_path: Path,
) -> None:
    (tmp_path / "remotes.local.yaml").write_text(WRITTEN)
    moved = Remote("good", "sm_100a", host="203.0.113.9", port=40023)
    with pytest.raises(ConfigError) as caught:
        config.add_remote(tmp_path, moved)
    assert str(caught.value) == (
        "remote 'good' is 203.0.113.7:40022 already: remotes.local.yaml:10; "
        "choose another name, or pass --replace: 203.0.113.9:40023 takes its place"
    )
    assert (tmp_path / "remotes.local.yaml").read_text() == WRITTEN
    text = add(tmp_path, moved, replace=True)
    assert text == WRITTEN.replace(
        "    good: {arch: sm_100a,\n"
        "           host: 203.0.113.7, port: 40022}  # gone after tonight\n",
        '    good:\n      arch: sm_100a\n      host: "203.0.113.9"\n      port: 40023\n',
    )


def test_a_shared_remote_of_that_name_is_a_clash_too(tmp_path: Path) -> None:
    (tmp_path / "remotes.yaml").write_text(
        "schema: 1\nremotes:\n  local: {kind: embedded, arch: sm_90a}\n"
    )
    with pytest.raises(ConfigError) as caught:
        config.add_remote(tmp_path, Remote("local", "sm_90a", host="h"))
    assert str(caught.value) == (
        "remote 'local' is this machine already: remotes.yaml:3; "
        "choose another name, or pass --replace: h takes its place"
    )


def test_an_update_starts_from_the_entry_of_that_name_and_address(tmp_path: Path) -> None:
    (tmp_path / "remotes.local.yaml").write_text(WRITTEN)
    here = Remote("good", "sm_90a", host="203.0.113.7", port=40022)
    assert config.known_entry(tmp_path, here) == replace(here, arch="sm_100a")
    assert config.known_entry(tmp_path, replace(here, port=40023)) is None
    assert config.known_entry(tmp_path, replace(here, name="new")) is None


@pytest.mark.parametrize(
    "empty",
    [
        "schema: 1",
        "schema: 1\nremotes:\n",
        "schema: 1\nremotes: {}\n",
        "schema: 1\nremotes:\n# -\n",
    ],
)
def test_a_file_without_entries_gets_its_first(tmp_path: Path, empty: str) -> None:
    (tmp_path / "remotes.local.yaml").write_text(empty)
    add(tmp_path, Remote("host", "sm_90a", host="h"))
    assert config.load_remotes(tmp_path) == {"host": Remote("host", "sm_90a", host="h")}


def test_entries_in_braces_are_left_to_the_user(tmp_path: Path) -> None:
    text = "schema: 1\nremotes: {a: {arch: sm_90a, host: h}}\n"
    (tmp_path / "remotes.local.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.add_remote(tmp_path, Remote("host", "sm_90a", host="h"))
    assert str(caught.value) == (
        "remotes.local.yaml:2: the entries are written in braces; "
        "write each on its own lines, so that one can be added"
    )
    assert (tmp_path / "remotes.local.yaml").read_text() == text


def test_an_entry_others_lean_on_is_not_edited_away(tmp_path: Path) -> None:
    text = "schema: 1\nremotes:\n  a: &a {arch: sm_90a, host: h}\n  b: *a\n"
    (tmp_path / "remotes.local.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.add_remote(tmp_path, Remote("a", "sm_90a", host="h", user="u"))
    assert str(caught.value) == (
        "remotes.local.yaml is formatted in a way that cannot be edited; put this under 'remotes' "
        "yourself:\n  a:\n    arch: sm_90a\n    host: h\n    user: u"
    )
    assert (tmp_path / "remotes.local.yaml").read_text() == text


def test_a_remote_that_breaks_the_rules_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.add_remote(tmp_path, Remote("host", "sm90a", host="h"))
    assert str(caught.value) == (
        "remote 'host' cannot be added: 'sm90a' is not an arch; write it as sm_90a or sm_100a"
    )
    assert not (tmp_path / "remotes.local.yaml").exists()


def test_processes_that_add_at_once_keep_one_anothers_entries(tmp_path: Path) -> None:
    def fill(prefix: str) -> None:
        for number in range(8):
            add(tmp_path, Remote(f"{prefix}{number}", "sm_90a", host="203.0.113.7"))

    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=fill, args=(prefix,)) for prefix in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(config.load_remotes(tmp_path)) == [f"{p}{n}" for p in "ab" for n in range(8)]
