"""What a program says of its launch is believed if it is whole, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.errors import CiError, ProtocolError
from kernelrig.model import Case, Kernel
from kernelrig.static.described_launch import Launch, NoLaunch, describe, read_launch

from tests.static.builds import made_build

KERNEL = Kernel("patch_embed", {}, {})
WHOLE = '{"block": [192, 1, 1], "cluster": [2, 1, 1], "dynamic_smem_bytes": 196708}'


def test_threads_cluster_and_shared_memory_are_read(tmp_path: Path) -> None:
    (tmp_path / "launch.json").write_text(WHOLE)
    assert read_launch(tmp_path / "launch.json") == Launch(192, 2, 196708)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        WHOLE[:-1],
        WHOLE.replace('"block"', '"blok"'),
        WHOLE.replace("192", '"192"'),
        WHOLE.replace("192", "0"),
        WHOLE.replace("196708", "null"),
        WHOLE.replace("196708", "true"),
        WHOLE.replace("196708", "1e5"),
    ],
)
def test_what_is_no_launch_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "launch.json").write_text(text)
    with pytest.raises(ProtocolError, match=r"^launch\.json of --mode describe "):
        read_launch(tmp_path / "launch.json")


def test_the_program_is_asked_for_the_case(tmp_path: Path) -> None:
    build = made_build(tmp_path, f'#!/bin/sh\necho "$4" >&2\necho \'{WHOLE}\' >"$6/launch.json"\n')
    assert describe(build, Case("smoke", 3, 4), KERNEL) == Launch(192, 2, 196708)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo one >&2; echo two >&2; exit 2", "program --mode describe exited 2: two"),
        ("exit 1", "program --mode describe exited 1: it printed nothing"),
    ],
)
def test_a_program_that_does_not_answer_is_an_error_in_its_words(
    tmp_path: Path, script: str, said: str
) -> None:
    with pytest.raises(CiError) as caught:
        describe(made_build(tmp_path, f"#!/bin/sh\n{script}\n"), Case("smoke", 1), KERNEL)
    assert caught.value.message == said


def test_a_program_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        describe(made_build(tmp_path, "#!/bin/sh\nexit 0\n"), Case("smoke", 1), KERNEL)


def test_a_program_of_a_librarys_kernels_says_why_there_is_none(tmp_path: Path) -> None:
    said = "echo 'program: nothing to describe: the library chooses its kernels' >&2; exit 2"
    with pytest.raises(NoLaunch, match=r"^the library chooses its kernels$"):
        describe(made_build(tmp_path, f"#!/bin/sh\n{said}\n"), Case("smoke", 1), KERNEL)
