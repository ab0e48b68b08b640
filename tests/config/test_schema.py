"""The JSON Schemas are current, and our own YAML files keep to them."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.descriptions import DESCRIPTIONS
from kernelrig.config.schema import FILES, SCHEMAS, json_schema, records_of, write_schemas
from kernelrig.dev.lint import schema_files
from kernelrig.proc import Completed, run_process

ROOT = Path(__file__).parents[2]
OWN_FILES = [
    ("remotes", ROOT / "remotes.yaml"),
    ("kernels", ROOT / "kernel/kernels.yaml"),
    ("kernels", ROOT / "tests/data/cpu_program/kernels.yaml"),
    ("session", ROOT / "ci/docs/session.yaml"),
    ("plan", ROOT / "tests/data/cpu_program/quick.yaml"),
    ("plan", ROOT / "tests/data/cpu_program/guarded.yaml"),
    *(
        (name.split(".")[0], ROOT / file)
        for name, files in schema_files(ROOT).items()
        for file in files
        if "/plans/" in file
    ),
]


def check(schema: str, *paths: Path) -> Completed:
    command = Path(sys.executable).with_name("check-jsonschema")
    return run_process(
        [command, "--verbose", "--schemafile", SCHEMAS / f"{schema}.schema.json", *paths]
    )


@pytest.mark.parametrize("name", FILES)
def test_the_committed_schema_is_the_one_the_records_make(name: str, tmp_path: Path) -> None:
    write_schemas(tmp_path)
    file = f"{name}.schema.json"
    assert (SCHEMAS / file).read_text() == (tmp_path / file).read_text(), (
        "run python -m kernelrig.config"
    )


@pytest.mark.parametrize("name", FILES)
def test_every_record_and_every_key_of_a_file_has_a_description(name: str) -> None:
    schema = json_schema(FILES[name])
    for record, definition in {"the file": schema, **schema["$defs"]}.items():
        assert definition["description"].strip(), record
        for key, held in definition.get("properties", {}).items():
            assert held.get("description"), f"config/descriptions.py lacks {record}.{key}"


def test_no_description_is_of_a_record_or_key_that_is_gone() -> None:
    records = {r.__name__: r for kind in FILES.values() for r in records_of(kind)}
    for name, described in DESCRIPTIONS.items():
        assert set(described) <= {f.name for f in fields(records[name])}, name


def test_a_schema_names_what_is_needed_and_allows_nothing_unknown() -> None:
    stage = json_schema(FILES["plan"])["$defs"]["Stage"]
    assert stage["required"] == ["name", "kind"]
    assert stage["additionalProperties"] is False
    remote = json_schema(FILES["remotes"])["$defs"]["Remote"]
    assert remote["required"] == ["arch"]
    assert "name" not in remote["properties"]
    assert remote["properties"]["kind"] == {
        "default": "ssh",
        "description": DESCRIPTIONS["Remote"]["kind"],
        "enum": ["ssh", "embedded", "slurm"],
        "type": "string",
    }


@pytest.mark.parametrize("schema", FILES)
def test_our_own_files_keep_to_their_schema(schema: str) -> None:
    paths = [path for name, path in OWN_FILES if name == schema]
    checked = check(schema, *paths)
    assert checked.exit_code == 0, checked.stdout
    assert paths


@pytest.mark.parametrize(("schema", "path"), OWN_FILES, ids=lambda value: Path(value).stem)
def test_our_own_file_names_its_schema_for_editors(schema: str, path: Path) -> None:
    first = path.read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == (SCHEMAS / f"{schema}.schema.json").resolve()


def test_our_own_files_are_read_without_a_mistake() -> None:
    assert "local" in config.load_remotes(ROOT)
    assert "patch_embed" in config.load_kernels(ROOT)
    for plan in (ROOT / "ci/kernelrig/plans").glob("*.yaml"):
        if not plan.stem.startswith("profile-"):  # those are read by test_profile_plans.py
            assert config.load_plan(ROOT, plan.stem).stages


def test_a_wrong_file_does_not_keep_to_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "remotes.yaml"
    path.write_text("schema: 1\nremotes:\n  a: {arch: sm_90a, port: '22', timeout: 3}\n")
    checked = check("remotes", path)
    assert checked.exit_code == 1
    assert "'timeout' was unexpected" in checked.stdout
    assert "'22' is not of type 'integer'" in checked.stdout


def test_the_schemas_travel_as_json(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    for path in tmp_path.iterdir():
        assert json.loads(path.read_text())["$schema"] == (
            "https://json-schema.org/draft/2020-12/schema"
        )
