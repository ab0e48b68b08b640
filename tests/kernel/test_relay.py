"""The relay of the harness: real processes, one file, measurement slots in order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("relay") / "take_slots"
    source = REPOSITORY / "tests/data/kernel/take_slots.cpp"
    headers = ("-I", REPOSITORY / "kernel", "-isystem", cuda_toolchain.root / "include")
    flags = ("-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
    built = run_process(["g++", *flags, *headers, "-o", made, source])
    assert built.exit_code == 0, built.stderr
    return made


def take(program: Path, folder: Path, slots: int, *processes: str) -> list[tuple[int, str]]:
    """Start the processes together; return exit code and stderr of each. The file `said` holds
    what they printed, in the order in which they did.
    """
    file = folder / "relay"
    file.write_bytes(bytes(slots))
    ended = []
    with (folder / "said").open("ab") as said:
        started = [
            subprocess.Popen(
                [program, file, *words.split()], stdout=said, stderr=subprocess.PIPE, text=True
            )
            for words in processes
        ]
        for process in started:
            _, stderr = process.communicate(timeout=60)
            if process.returncode:
                with file.open("ab") as failed:
                    failed.write(b"x")
            ended.append((process.returncode, stderr))
    return ended


def test_slots_are_taken_in_order_whichever_process_was_ready_first(
    program: Path, tmp_path: Path
) -> None:
    ended = take(program, tmp_path, 6, "a 0,1,4", "b 2,5", "c 3")
    assert [code for code, _ in ended] == [0, 0, 0]
    said = (tmp_path / "said").read_text().splitlines()
    assert said == ["0 a", "1 a", "2 b", "3 c", "4 a", "5 b"]


def test_a_process_that_fails_ends_the_relay_for_all(program: Path, tmp_path: Path) -> None:
    ended = take(program, tmp_path, 4, "b 1,3 fail-at 3", "a 0,2")
    assert ended[0][0] == 70
    assert ended[1] == (70, f"relay {tmp_path / 'relay'}: another process has failed\n")


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ("0,4", "--relay {file} has 4 bytes, one per slot: there is no slot 4"),
        ("2,1", "--turns is '2,1': slots are listed in rising order"),
        ("1,", "--turns is '': expected a whole number from 0 to 100000"),
    ],
)
def test_slots_that_the_file_does_not_have_or_out_of_order_are_refused(
    program: Path, tmp_path: Path, slots: str, said: str
) -> None:
    ((code, stderr),) = take(program, tmp_path, 4, f"a {slots}")
    assert (code, stderr) == (2, said.format(file=tmp_path / "relay") + "\n")
