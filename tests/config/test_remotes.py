"""Mistakes in remotes.yaml come back with file, line and what is allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.selection import choose_remote
from kernelrig.errors import ConfigError
from kernelrig.model import Remote

from tests.config.projects import Project, mistakes


def remote_mistakes(project: Project, entries: str) -> list[str]:
    root = project("remotes.yaml", f"schema: 1\nremotes:\n{entries}")
    return mistakes(lambda: config.load_remotes(root))


def test_a_remote_takes_its_name_from_its_key_and_the_rest_from_its_defaults(
    project: Project,
) -> None:
    root = project("remotes.yaml", "schema: 1\nremotes:\n  host: {arch: sm_90a, host: h}\n")
    assert config.load_remotes(root) == {"host": Remote("host", "sm_90a", host="h")}


def test_a_local_entry_replaces_the_shared_one_as_a_whole_and_says_where_it_stands(
    project: Project,
) -> None:
    project(
        "remotes.yaml",
        "schema: 1\nremotes:\n"
        "  a: {arch: sm_90a, host: shared, user: root}\n"
        "  b: {arch: sm_90a, host: b}\n",
    )
    root = project("remotes.local.yaml", "schema: 1\nremotes:\n  a: {arch: sm_100a, host: mine}\n")
    assert config.load_remotes(root)["a"] == Remote("a", "sm_100a", host="mine")
    assert config.remote_sources(root) == {
        "a": "remotes.local.yaml:3 (instead of remotes.yaml:3)",
        "b": "remotes.yaml:4",
    }


def test_a_project_without_remotes_has_none(tmp_path: Path) -> None:
    assert config.load_remotes(tmp_path) == {}


def test_remotes_that_are_all_commented_out_are_none(project: Project) -> None:
    assert config.load_remotes(project("remotes.yaml", "schema: 1\nremotes:\n  # a: {}\n")) == {}


def test_every_mistake_of_a_file_is_reported_at_once_with_its_line(project: Project) -> None:
    entries = """\
  a: {arch: sm_90a, port: "22", timeout: 3}
  b:
    arch: 90
    kind: shh
  c:
    arch: sm90
    host: root@h
  a: {}
  d:
"""
    assert remote_mistakes(project, entries) == [
        "remotes.yaml:3: 'port' must be a whole number, not '22'; take it out of its quotes",
        "remotes.yaml:3: unknown key 'timeout'; known keys: answer_s, arch, boot_s, "
        "connect_timeout_s, device, down, env, give_up_s, gpu, gpus, host, host_key, "
        "identity_file, jump, kind, max_cost, max_minutes, on_idle, port, price_per_hour, python, "
        "shared_power, silence_s, slurm, status, tags, tools, up, user, workdir",
        "remotes.yaml:5: 'arch' must be text, not 90; put it in quotes",
        "remotes.yaml:6: 'kind' must be one of ssh, embedded, slurm, not 'shh';"
        " did you mean 'ssh'?",
        "remotes.yaml:8: 'sm90' is not an arch; write it as sm_90a or sm_100a",
        "remotes.yaml:9: 'host' is the address alone, not 'root@h'; 'user' and 'port' are keys",
        "remotes.yaml:10: duplicate key 'a'; first on line 3",
        "remotes.yaml:11: 'd' must be a mapping, not empty",
    ]


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("{arch: sm_90a}", "missing key 'host' in 'a'; an ssh remote needs one"),
        ("{host: h}", "missing key 'arch' in 'a'"),
        (
            "{arch: sm_90a, kind: embedded, user: u}",
            "an embedded remote is this machine: it takes no 'user'",
        ),
        (
            "{arch: sm_90a, host: h, device: emulator}",
            "an emulator remote is this machine, whose own kernelrig it runs: 'kind: embedded'",
        ),
        (
            "{arch: sm_90a, host: h, gpus: most}",
            "'gpus' must be a number, any, all or the beginning of a UUID, as GPU-a5bd4633,"
            " not 'most'",
        ),
        (
            "{arch: sm_90a, host: h, gpus: 0, env: {CUDA_VISIBLE_DEVICES: '1'}}",
            "'gpus' says which GPUs programs see: leave CUDA_VISIBLE_DEVICES out of 'env'",
        ),
        ("{arch: sm_90a, host: h, port: 70000}", "'port' must be 1 to 65535, not 70000"),
        ("{arch: sm_90a, host: h, port: 22.5}", "'port' must be a whole number, not 22.5"),
        ("{arch: sm_90a, host: h, port: true}", "'port' must be a whole number, not true"),
        ("{arch: sm_90a, host: h, env: [X]}", "'env' must be a mapping, not a list"),
        ("{arch: sm_90a, host: h, env: {X: 1}}", "'X' must be text, not 1; put it in quotes"),
        (
            '{arch: sm_90a, host: h, env: {"X Y": z}}',
            "'X Y' cannot be a name in 'env'; use letters, digits and '_'",
        ),
        (
            '{arch: sm_90a, host: h, env: {X: "a\\0b"}}',
            "'\\x00' is a control character, which no name or argument may hold",
        ),
        (
            '{arch: sm_90a, host: h, env: {"-S sh -c id": x}}',
            "'-S sh -c id' cannot be a name in 'env'; use letters, digits and '_'",
        ),
        (
            "{arch: sm_90a, host: h, host_key: SHA256:abc}",
            "'host_key' is 'SHA256:abc'; it must be the key itself, as `ssh-ed25519 AAAA...`: "
            "`invoke remote-add` writes it",
        ),
        (
            "{arch: sm_90a, host: h, connect_timeout_s: 0}",
            "'connect_timeout_s' must be more than 0, not 0",
        ),
        (
            "{arch: sm_90a, host: h, silence_s: 2}",
            "'silence_s' must be more than 2, for the agent shows every 2 s that it is alive, "
            "not 2",
        ),
        (
            "{arch: sm_90a, host: h, boot_s: -1}",
            "'boot_s' must be from 0 to 1000000000, not -1",
        ),
        (
            "{arch: sm_90a, host: h, give_up_s: -1}",
            "'give_up_s' must be more than 0, not -1",
        ),
        ("{arch: sm_90a, host: h, answer_s: 0}", "'answer_s' must be more than 0, not 0"),
        ("{arch: sm_90a, host: h, max_minutes: 0}", "'max_minutes' must be more than 0, not 0"),
        (
            "{arch: sm_90a, host: h, max_cost: 2}",
            "'max_cost' needs 'price_per_hour', which says its minutes",
        ),
        (
            "{arch: sm_90a, host: h, on_idle: [halt]}",
            "'on_idle' is a command: it may be in remotes.local.yaml only",
        ),
        (
            "{arch: sm_90a, host: h, connect_timeout_s: 1:30}",
            "'connect_timeout_s' must be a number, not '1:30'",
        ),
        (
            "{arch: sm_90a, host: h, name: a}",
            "unknown key 'name'; known keys: answer_s, arch, boot_s, connect_timeout_s, device, "
            "down, env, give_up_s, gpu, gpus, host, host_key, identity_file, jump, kind, max_cost, "
            "max_minutes, on_idle, port, price_per_hour, python, shared_power, "
            "silence_s, slurm, status, tags, tools, up, user, workdir",
        ),
        (
            "{arch: sm_90a, kind: slurm}",
            "missing key 'host' in 'a'; it is the cluster's login node",
        ),
        ("{arch: sm_90a, host: h, slurm: {qos: x}}", "'slurm' is for remotes of 'kind: slurm'"),
        (
            "{arch: sm_90a, kind: slurm, host: h, gpus: 1}",
            "Slurm gives each job its GPUs: ask for them with 'gres', as gpu:1",
        ),
        (
            "{arch: sm_90a, kind: slurm, host: h, slurm: {partition: '--wrap=id'}}",
            "'partition' is '--wrap=id'; sbatch takes no such word",
        ),
        (
            "{arch: sm_90a, kind: slurm, host: h, slurm: {nodelist: 'a b'}}",
            "'nodelist' is 'a b'; it is a list of nodes",
        ),
        (
            "{arch: sm_90a, kind: slurm, host: h, slurm: {time_minutes: 0}}",
            "'time_minutes' must be more than 0, not 0",
        ),
        ("!!python/name:os.system x", "'x' cannot be a tag:yaml.org,2002:python/name:os.system"),
    ],
)
def test_a_remote_is_refused_with_its_reason(project: Project, entry: str, mistake: str) -> None:
    assert f"remotes.yaml:3: {mistake}" in remote_mistakes(project, f"  a: {entry}\n")


def test_a_remote_that_cannot_name_a_folder_is_refused(project: Project) -> None:
    assert remote_mistakes(project, '  "../x": {arch: sm_90a, host: h}\n') == [
        "remotes.yaml:3: '../x' cannot be a name; use letters, digits, '.', '_' and '-': "
        "it names folders"
    ]


def test_tools_box_of_schema_1_is_tools_host(project: Project) -> None:
    entry = "remotes:\n  a: {arch: sm_90a, host: h, tools: box}\n"
    old = config.load_remotes(project("remotes.yaml", f"schema: 1\n{entry}"))
    assert old == {"a": Remote("a", "sm_90a", host="h", tools="host")}
    with pytest.raises(ConfigError) as caught:
        config.load_remotes(project("remotes.yaml", f"schema: 2\n{entry}"))
    assert caught.value.message == ("remotes.yaml:3: 'tools' must be one of host, ship, not 'box'")


def test_words_that_yaml_1_1_reads_as_something_else_are_text(project: Project) -> None:
    entries = "  no: {arch: sm_90a, host: on, user: yes, gpu: 1:30, python: 2027-03-31}\n"
    root = project("remotes.yaml", f"schema: 1\nremotes:\n{entries}")
    assert config.load_remotes(root) == {
        "no": Remote("no", "sm_90a", host="on", user="yes", gpu="1:30", python="2027-03-31")
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["remotes.yaml:1: the file must be a mapping, not empty"]),
        ("- a\n", ["remotes.yaml:1: the file must be a mapping, not a list"]),
        ("remotes: {}\n", ["remotes.yaml:1: missing key 'schema' in the file"]),
        ("schema: 3\n", ["remotes.yaml:1: 'schema' must be one of 1, 2, not 3"]),
        (
            "schema: 1\nremote: {}\n",
            [
                "remotes.yaml:2: unknown key 'remote'; known keys: remotes, schema; "
                "did you mean 'remotes'?"
            ],
        ),
        ("schema: 1\nremotes: [a]\n", ["remotes.yaml:2: 'remotes' must be a mapping, not a list"]),
        (
            "schema: 1\nremotes:\n\ta: 1\n",
            [
                "remotes.yaml:3: not YAML: found character '\\t' that cannot start any token; "
                "indent with spaces, not with a tab"
            ],
        ),
        (
            "schema: 1\nremotes: a: 1\n",
            [
                "remotes.yaml:2: not YAML: mapping values are not allowed here; "
                "put text that has ': ' in it in quotes"
            ],
        ),
        ("schema: 1\n\n\x07\n", ["remotes.yaml:3: not YAML: character 0x7"]),
        ("schema: 1\n---\nschema: 1\n", ["remotes.yaml:2: not YAML: but found another document"]),
        (
            "schema: 1\nremotes: &r\n  a: *r\n",
            [
                "remotes.yaml:3: the alias at 'a' contains itself",
                "remotes.yaml:3: 'a' must be a mapping, not empty",
            ],
        ),
    ],
)
def test_a_file_of_another_form_is_refused(
    project: Project, text: str, expected: list[str]
) -> None:
    root = project("remotes.yaml", text)
    assert sorted(mistakes(lambda: config.load_remotes(root))) == sorted(expected)


def test_a_file_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "remotes.yaml").write_bytes(b"schema: 1 # \xff\n")
    assert mistakes(lambda: config.load_remotes(tmp_path)) == [
        "remotes.yaml: not UTF-8 text; save it as UTF-8"
    ]


RENTED = {
    "arch": "sm_90a",
    "up": ["rent", "{request}"],
    "status": ["ask", "{request}"],
    "down": ["drop", "{id}"],
}


def local_mistakes(root: Path, **changes: object) -> list[str]:
    text = f"schema: 2\nremotes:\n  r: {json.dumps({**RENTED, **changes})}\n"
    (root / "remotes.local.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load_remotes(root)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"down": []}, "'up' needs 'down': what is rented must be found and given back"),
        ({"status": ["ask"]}, "'status' must ask for {request}"),
        ({"tags": False}, "'status' must ask for {id} (tags: false)"),
        ({"down": ["drop"]}, "'down' must name {id} or {request}: the host to give back"),
        ({"up": ["rent", ""]}, "'up' is a list of words, none of them empty"),
        ({"kind": "embedded"}, "an embedded remote is this machine: it takes no 'up'"),
    ],
)
def test_a_rental_that_could_be_lost_is_refused(
    tmp_path: Path, changes: dict[str, object], mistake: str
) -> None:
    assert local_mistakes(tmp_path, **changes) == [f"remotes.local.yaml:3: {mistake}"]


def test_a_rented_remote_has_an_address_only_while_it_is_up(tmp_path: Path) -> None:
    text = f"schema: 2\nremotes:\n  r: {json.dumps(RENTED)}\n"
    (tmp_path / "remotes.local.yaml").write_text(text)
    remotes = config.load_remotes(tmp_path)
    with pytest.raises(ConfigError, match=r"^remote 'r' is not up; `invoke up r` rents it$"):
        choose_remote(remotes, "r")
    up = replace(remotes["r"], host="203.0.113.7", port=40022)
    config.add_remote(tmp_path, up, replace=True)
    assert choose_remote(config.load_remotes(tmp_path), "r") == up


@pytest.mark.parametrize(
    ("price", "minutes", "cost", "limit"),
    [
        (None, None, None, None),
        (5.0, None, None, None),
        (5.0, None, 1.0, 12.0),
        (5.0, 9.0, 1.0, 9.0),
    ],
)
def test_the_minutes_of_a_run_follow_from_its_time_and_its_cost(
    price: float | None, minutes: float | None, cost: float | None, limit: float | None
) -> None:
    remote = Remote("r", "sm_90a", price_per_hour=price, max_minutes=minutes, max_cost=cost)
    assert remote.limit_minutes == limit
