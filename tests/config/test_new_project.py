"""`kernelrig init`: a project that loads, from files that overwrite nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.new_project import init_project
from kernelrig.config.shipped_selftest import shipped_selftest
from kernelrig.errors import ConfigError
from kernelrig.files.new_files import conflicts, write_new

ROOT = Path(__file__).parents[2]
ALL = [
    "kernel/kernels.yaml",
    "remotes.yaml",
    "tasks.py",
    ".github/workflows/kernels.yml",
    ".gitignore",
]


def contents(root: Path) -> dict[str, str]:
    """Return the text of every file below `root`, and where each link points."""
    return {
        str(p.relative_to(root)): str(p.readlink()) if p.is_symlink() else p.read_text()
        for p in root.rglob("*")
        if p.is_symlink() or p.is_file()
    }


def refused(root: Path, program: Path | None = None) -> str:
    """Return what `init_project` complains of, and check that it has written nothing."""
    before = contents(root)
    with pytest.raises(ConfigError) as caught:
        init_project(root, program)
    assert contents(root) == before
    return str(caught.value)


def test_an_empty_folder_becomes_a_project_with_a_program(tmp_path: Path) -> None:
    assert init_project(tmp_path) == [*ALL, "kernel/saxpy.cu"]
    (kernel,) = config.load_kernels(tmp_path).values()
    assert (kernel.name, kernel.level) == ("saxpy", 0)
    assert set(kernel.sources.values()) == {"saxpy.cu"}
    assert set(config.load_remotes(tmp_path)) == {"emulator", "local"}
    assert "run: kernelrig remote-test\n" in contents(tmp_path)[ALL[3]]
    assert len(contents(tmp_path)["tasks.py"].splitlines()) == 3
    marks = re.compile("@[A-Z]+@")
    assert not [text for text in contents(tmp_path).values() if marks.search(text)]
    assert init_project(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "name", "source"),
    [
        ("prog.cu", "prog", "../prog.cu"),
        ("kernel/a.cu", "a", "a.cu"),
        ("src/no.cu", "no", "../src/no.cu"),
        ("1.cu", "1", "../1.cu"),
        ("c++.cu", "c__", "../c++.cu"),
    ],
)
def test_a_program_that_is_there_stays_where_it_is(
    tmp_path: Path, path: str, name: str, source: str
) -> None:
    program = tmp_path / path
    program.parent.mkdir(exist_ok=True)
    program.write_text("int main() {}\n")
    assert init_project(tmp_path, program) == ALL
    (kernel,) = config.load_kernels(tmp_path).values()
    assert (kernel.name, kernel.sources["sm_90a"]) == (name, source)
    assert program.read_text() == "int main() {}\n"


def test_what_a_program_links_and_what_it_is_for_is_written_down(tmp_path: Path) -> None:
    program = tmp_path / "prog.cu"
    program.write_text('int main() { cuInit(0); asm("wgmma.fence.sync.aligned;"); }')
    init_project(tmp_path, program)
    (kernel,) = config.load_kernels(tmp_path).values()
    assert kernel.sources == {"sm_90a": "../prog.cu"}
    assert kernel.variants["production"].libs == ("cuda",)


def test_every_file_that_is_in_the_way_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("mine\n")
    (tmp_path / ".gitignore").write_text("*.o\n")
    (tmp_path / "remotes.yaml").symlink_to("nowhere")
    (tmp_path / ".github").write_text("a file\n")
    said = refused(tmp_path)
    assert said.partition(";")[0].splitlines() == [
        "nothing was written:",
        "remotes.yaml is there and is not a regular file",
        "tasks.py is there, with another text",
        ".github is not a folder",
        ".gitignore is there, with another text",
    ]


def test_a_gitignore_that_has_the_lines_is_kept(tmp_path: Path) -> None:
    mine = "*.o\n__pycache__/\n/remotes.local.yaml\n!/artifacts/baselines/\n/artifacts/*\n"
    (tmp_path / ".gitignore").write_text(mine)
    assert ".gitignore" not in init_project(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == mine


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.cu", "no file '"),
        ("prog.cpp", "its name must end in .cu"),
        ("a b.cu", "cannot be named in kernels.yaml and a workflow"),
        ("${{x}}.cu", "cannot be named in kernels.yaml and a workflow"),
        ("-x.cu", "cannot be named in kernels.yaml and a workflow"),
        ("../outside.cu", "no commit of the project would have it"),
    ],
)
def test_a_program_that_a_project_cannot_hold_is_refused(
    tmp_path: Path, path: str, said: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    if path != "missing.cu":
        (root / path).write_text("int main() {}\n")
    before = contents(root)
    with pytest.raises(ConfigError) as caught:
        init_project(root, root / path)
    assert said in f"{caught.value}; {caught.value.hint}"
    assert contents(root) == before


def test_a_file_that_cannot_be_written_takes_the_others_with_it(tmp_path: Path) -> None:
    texts = {"a": "1", "b": "2", "b/c": "3"}
    assert conflicts(tmp_path, texts) == []
    with pytest.raises(OSError, match="b"):
        write_new(tmp_path, texts)
    assert contents(tmp_path) == {}


def test_a_project_has_the_self_test_of_the_sanitizers_without_an_entry_of_its_own(
    tmp_path: Path,
) -> None:
    init_project(tmp_path)
    shipped = shipped_selftest(tmp_path)
    own = config.load_kernels(ROOT)[shipped.name]
    assert replace(own, sources=shipped.sources) == shipped
    for source in shipped.sources.values():
        path = tmp_path / "kernel" / source
        assert path.read_bytes() == (ROOT / "kernel/sanitizer_selftest.cu").read_bytes()
        assert (path.parent / "failure.cuh").read_bytes() == (
            ROOT / "kernel/failure.cuh"
        ).read_bytes()
    assert shipped.name not in config.load_kernels(tmp_path)
