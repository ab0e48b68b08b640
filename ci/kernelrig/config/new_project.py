"""The files of a new project, from the templates that come with the package."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kernelrig.config.program_needs import ProgramNeeds, needs_of
from kernelrig.config.yaml_source import scalar
from kernelrig.errors import ConfigError
from kernelrig.files.new_files import conflicts, write_new
from kernelrig.files.record_names import is_name
from kernelrig.files.regular_file import read_regular

TEMPLATES = Path(__file__).parents[1] / "templates"
_FILES = {
    "kernel/kernels.yaml": "kernels.yaml",
    "remotes.yaml": "remotes.yaml",
    "tasks.py": "tasks.txt",
    ".github/workflows/kernels.yml": "workflow.yml",
    ".gitignore": "gitignore",
}
"""File of the project -> its template."""
_EXAMPLE = "kernel/saxpy.cu"
MAX_SOURCE_BYTES = 64 << 20
_PART = r"[A-Za-z0-9_][A-Za-z0-9._+-]*"


def init_project(root: Path, program: Path | None = None) -> list[str]:
    """Write what a project in `root` needs to build and check `program`; return the files' names.

    Without a program, one that passes is written too. No file is overwritten: ConfigError, which
    lists each one that is in the way, and nothing is written.
    """
    path = _EXAMPLE if program is None else _path_of(root, program)
    name = _name_of(path)
    # Words of a path need no quotes in YAML or a shell: `_path_of` allows no others.
    words = {"@NAME@": scalar(name)}
    words |= _shown(program_needs(program), os.path.relpath(path, "kernel"))
    texts = {to: _filled(_template(of), words) for to, of in _FILES.items()}
    if program is None:
        texts[_EXAMPLE] = _template("saxpy.cu")
    ignored = root / ".gitignore"
    if _ignores(ignored, texts[".gitignore"]):
        del texts[".gitignore"]
    if wrong := conflicts(root, texts):
        hint = "move them away, and take over what you need from them afterwards"
        if any(c.startswith(".gitignore is") for c in wrong):
            lines = ", ".join(texts[".gitignore"].split())
            hint += f"; a .gitignore may stay that has these lines: {lines}"
        raise ConfigError("\n".join(["nothing was written:", *wrong]), hint)
    try:
        return write_new(root, texts)
    except OSError as e:
        raise ConfigError(f"nothing was written: {e.filename}: {e.strerror}") from e


def program_needs(program: Path | None) -> ProgramNeeds:
    """Return what the source of a program shows that it needs, as far as it can be read."""
    if program is None:
        return needs_of("")
    try:
        data = read_regular(program, MAX_SOURCE_BYTES)
    except OSError as e:
        raise ConfigError(f"cannot read '{program}': {(e.strerror or str(e)).lower()}") from e
    return needs_of(data.decode("utf-8", "replace"))


def _shown(needs: ProgramNeeds, source: str) -> dict[str, str]:
    """Return what kernels.yaml says of a program's archs, libraries and arguments."""
    if len(needs.archs) == 1:
        sources = (
            f"{{{needs.archs[0]}: {source}}}  # by its instructions, or the arch that it names"
        )
    else:
        both = "compiled for sm_100a (B200) and sm_90a (H200); one alone: {sm_90a: FILE}"
        sources = f"{source}  # {both}"
    libs = "# libs: [cuda, curand]             # CUDA's libraries that it links"
    if needs.libs:
        libs = f"libs: [{', '.join(needs.libs)}]  # by the functions that it calls"
    return {"@SOURCES@": sources, "@LIBS@": libs}


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def _path_of(root: Path, program: Path) -> str:
    """Return the path of the program below `root`; ConfigError if a project cannot hold it."""
    if not program.is_file():
        raise ConfigError(f"no file '{program}'", "name the source of a CUDA program, as prog.cu")
    if program.suffix != ".cu":
        raise ConfigError(f"'{program}' is no CUDA source", "its name must end in .cu")
    if not program.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"'{program}' is not in {root}: no commit of the project would have it",
            "move it there, or pass `kernelrig --root DIR init PROGRAM`",
        )
    path = program.resolve().relative_to(root.resolve()).as_posix()
    if not re.fullmatch(rf"{_PART}(/{_PART})*", path):
        raise ConfigError(
            f"'{path}' cannot be named in kernels.yaml and a workflow",
            "rename it: letters, digits, '.', '_', '+' and '-', and none of the last four first",
        )
    return path


def _name_of(path: str) -> str:
    """Return the kernel's name: the file's, without what a name may not have."""
    name = Path(path).stem.replace("+", "_")
    if not is_name(name):
        raise ConfigError(f"'{name}' cannot be a kernel's name", f"rename {path}")
    return name


def _ignores(path: Path, wanted: str) -> bool:
    """Return whether a .gitignore of the project's own has every line that is wanted."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 20:
        return False
    has = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return set(wanted.splitlines()) <= {line.strip() for line in has}
