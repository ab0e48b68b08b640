"""A new kernel in a project: its source and its entry in kernels.yaml, from a template."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kernelrig.config.load import KERNELS, load_kernels
from kernelrig.config.new_project import TEMPLATES
from kernelrig.config.yaml_source import Document, parse_yaml, read_yaml
from kernelrig.errors import ConfigError
from kernelrig.files.new_files import conflicts, write_new
from kernelrig.files.record_names import is_name
from kernelrig.files.rundir import write_atomic
from kernelrig.files.validation import nearest

SOURCES = {"plain": "saxpy.cu", "elementwise": "elementwise.cu", "gemm": "gemm.cu"}
"""Template -> its source; its entry is in new-TEMPLATE.yaml."""
OPERATION = "operation"
"""The template that comes with the harness's headers and a reference."""
TEMPLATE_NAMES = (*SOURCES, OPERATION)
HARNESS = Path(__file__).parents[1] / "harness"


def add_kernel(root: Path, name: str, template: str) -> list[str]:
    """Write `kernel/NAME.cu` and its entry; return the names of the files.

    Nothing is overwritten, and the rest of kernels.yaml stays as it is. ConfigError for a name that
    is taken, and for a file that cannot be edited; then nothing is written.
    """
    if template not in TEMPLATE_NAMES:
        known = ", ".join(TEMPLATE_NAMES)
        raise ConfigError(
            f"unknown template '{template}'; templates: {known}{nearest(template, TEMPLATE_NAMES)}"
        )
    if not is_name(name):
        raise ConfigError(f"'{name}' cannot be a kernel's name", "use letters, digits, '_' and '-'")
    if name in load_kernels(root):
        raise ConfigError(f"{KERNELS} has a kernel '{name}' already", "choose another name")
    texts = _texts(Path(KERNELS).parent, name, template)
    if wrong := conflicts(root, texts):
        raise ConfigError("\n".join(["nothing was written:", *wrong]), "choose another name")
    entry = (TEMPLATES / f"new-{template}.yaml").read_text(encoding="utf-8")
    text = _with_entry(_of_schema_3(read_yaml(root / KERNELS, KERNELS)), name, entry)
    written = write_new(root, texts)
    write_atomic(root / KERNELS, text)
    return [*written, KERNELS]


def _texts(folder: Path, name: str, template: str) -> dict[str, str]:
    """Return the files of a new kernel besides its entry; of an operation the harness too."""
    if template != OPERATION:
        return {f"{folder}/{name}.cu": _read(TEMPLATES / SOURCES[template])}
    headers = sorted(HARNESS.glob("*.cuh"))
    source = _read(HARNESS / "softmax.cu").replace('"../operation.cuh"', '"harness/operation.cuh"')
    return {
        f"{folder}/{name}.cu": source,
        f"{folder}/{name}.py": _read(HARNESS / "softmax-reference.txt"),
        **{f"{folder}/harness/{header.name}": _read(header) for header in headers},
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _of_schema_3(document: Document) -> Document:
    """Return the file in the schema that its new entry needs: 3 or 4, which read all of 2."""
    schema = document.value.get("schema")
    if schema in (3, 4):
        return document
    line = document.line(("schema",))
    if schema != 2:
        raise ConfigError(
            f"{KERNELS}:{line}: a new kernel needs a file of schema 3, this is of {schema}",
            "there an entry without kernel_regex, shape, accum_tol and cases of images is a plain"
            " program: say so where it is meant, then write `schema: 3`",
        )
    lines = document.text.splitlines(keepends=True)
    lines[line - 1] = re.sub(r"(schema:\s*)2\b", r"\g<1>3", lines[line - 1], count=1)
    edited = parse_yaml("".join(lines), document.label)
    if edited.value != {**document.value, "schema": 3}:
        raise ConfigError(f"{KERNELS}:{line} cannot be edited", "write `schema: 3` there")
    return edited


def _with_entry(document: Document, name: str, template: str) -> str:
    """Return the text with the entry behind the others; comments and all else stay."""
    entry = template.replace("@NAME@", name)
    section = document.spots[("kernels",)]
    others = [spot for loc, spot in document.spots.items() if loc[:-1] == ("kernels",)]
    column = others[0].column if others else 2
    moved = "".join(" " * (column - 2) + line for line in entry.splitlines(keepends=True))
    lines = document.text.splitlines(keepends=True)
    end = max((spot.end for spot in others), default=section.end)
    while end < len(lines) and _is_comment_of_entry(lines[end], column):
        end += 1
    if end and not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    lines[end:end] = [moved]
    text = "".join(lines)
    wanted = {**document.value["kernels"], **_value(f"kernels:\n{entry}")["kernels"]}
    # The text was edited by lines: it is parsed again before anything is written.
    if section.braces or column < 2 or _value(text) != {**document.value, "kernels": wanted}:
        raise ConfigError(
            f"{KERNELS} is formatted in a way that cannot be edited",
            f"put this under 'kernels' yourself:\n{entry.rstrip()}",
        )
    return text


def _is_comment_of_entry(line: str, column: int) -> bool:
    """Return whether a line is a comment on the entry above it: it stands further to the right."""
    text = line.lstrip(" ")
    return text.startswith("#") and len(line) - len(text) > column


def _value(text: str) -> dict[str, Any]:
    try:
        value = parse_yaml(text, KERNELS).value
    except ConfigError:
        return {}
    return value if isinstance(value, dict) else {}
