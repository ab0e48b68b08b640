"""The tools are fetched whole or not at all, asked for their version once, and fit the arch."""

from __future__ import annotations

import os
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build.toolchain import describe, fetch_sanitizer_wheel, find_toolchain, require_arch
from kernelrig.build.toolchain.requirements import find_lock
from kernelrig.build.toolchain.wheels import fetch_wheels, wheel_tree
from kernelrig.errors import CiError, ConfigError, ProtocolError
from kernelrig.model import Toolchain

from tests.wheels import sha256, write_lock, write_wheel

FAKE_TOOL = """#!/bin/sh
echo "$0" >>"{calls}"
echo "Cuda compilation tools, release {release}, V{release}.88"
"""


def lock_own(root: Path, **extras: Path | str) -> None:
    """Write locks of the project itself."""
    write_lock(root / "ci/locks", **extras)


def write_tools(home: Path, calls: Path, release: str = "13.0") -> None:
    (home / "bin").mkdir(parents=True)
    for name in ("nvcc", "cuobjdump", "nvdisasm"):
        tool = home / "bin" / name
        tool.write_text(FAKE_TOOL.format(calls=calls, release=release))
        tool.chmod(0o755)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip can see; the developer's own settings are out of sight."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def test_the_pinned_wheels_are_cuda_13_0(cuda_toolchain: Toolchain) -> None:
    assert cuda_toolchain.version == "13.0.88"
    assert cuda_toolchain.cuobjdump_version == "13.5.37"
    assert cuda_toolchain.origin == "wheels"
    assert cuda_toolchain.reason.startswith("the locked wheels")
    require_arch(cuda_toolchain, "sm_90a")
    require_arch(cuda_toolchain, "sm_100a")


def test_what_a_call_outside_of_a_project_fetched_is_linked_into_one(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = write_wheel(offline, "some_tool", {"bin/tool": b"tool"})
    outside, project = tmp_path / "cache/kernelrig", tmp_path / "project"
    for root in (outside, project):
        lock_own(root, cuda=wheel)
    known = fetch_wheels(outside, "cuda")
    wheel.unlink()  # nothing can be fetched any more
    tree = fetch_wheels(project, "cuda")
    assert tree.is_relative_to(project)
    assert (tree / "bin/tool").samefile(known / "bin/tool")


def test_an_nvcc_on_path_that_only_starts_one_elsewhere_says_to_set_cuda_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a distribution's /usr/bin/nvcc, a script, does."""
    write_tools(tmp_path / "usr", tmp_path / "calls")
    for name in ("cuobjdump", "nvdisasm"):
        (tmp_path / "usr/bin" / name).unlink()
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:{os.environ['PATH']}")
    with pytest.raises(ConfigError) as caught:
        find_toolchain(tmp_path, system=True)
    assert str(caught.value) == (
        f"no cuobjdump, nvdisasm in {tmp_path}/usr/bin; "
        "set CUDA_HOME to the root of a whole toolkit, or leave out --system-cuda"
    )


def test_blackwell_with_cuda_12_6_is_refused(cuda_toolchain: Toolchain) -> None:
    old = replace(cuda_toolchain, version="12.6.85", origin="system", nvcc=Path("/opt/cuda/nvcc"))
    require_arch(old, "sm_90a")
    with pytest.raises(ConfigError) as caught:
        require_arch(old, "sm_100a")
    assert str(caught.value) == (
        "sm_100a needs CUDA 12.8 or newer; /opt/cuda/nvcc is 12.6.85; "
        "leave out --system-cuda: the pinned wheels support it"
    )


def test_an_arch_nobody_knows_is_refused_with_the_known_ones(cuda_toolchain: Toolchain) -> None:
    with pytest.raises(ConfigError, match="unknown arch 'sm_90b'; known archs: sm_80, "):
        require_arch(cuda_toolchain, "sm_90b")


def test_a_tool_is_asked_for_its_version_once(tmp_path: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    calls = tmp_path / "calls"
    home = wheel_tree(tmp_path, "cuda") / "nvidia" / "cu13"
    write_tools(home, calls)
    first = find_toolchain(tmp_path)
    assert find_toolchain(tmp_path) == first
    assert first.version == "13.0.88"
    assert len(calls.read_text().splitlines()) == 3
    (home / "bin" / "nvcc").write_text(FAKE_TOOL.format(calls=calls, release="13.10"))
    assert find_toolchain(tmp_path).version == "13.10.88"
    assert len(calls.read_text().splitlines()) == 4


def test_headers_come_from_the_wheels_of_an_extra(
    tmp_path: Path, offline: Path, host_toolchain: Toolchain
) -> None:
    headers = {"nvidia/cu13/include/library.h": b"#define A 1\n"}
    lock_own(
        tmp_path,
        cublas=write_wheel(offline, "some_library", headers),
        docs=write_wheel(offline, "some_text", {"text": b"nothing to include"}),
    )
    found = find_toolchain(tmp_path, cuda=False, extras=["cublas"])
    assert host_toolchain.extras == {}
    folder = wheel_tree(tmp_path, "cublas") / "nvidia/cu13/include"
    assert found.extras == {"cublas": folder}
    assert (folder / "library.h").read_text() == "#define A 1\n"
    with pytest.raises(ConfigError) as caught:
        find_toolchain(tmp_path, cuda=False, extras=["docs"])
    assert str(caught.value) == (
        "the wheels of extra 'docs' have no headers: no folder"
        f" {wheel_tree(tmp_path, 'docs')}/nvidia/cu13/include;"
        " `extras` of a kernel are for wheels with headers alone"
    )


def test_damaged_versions_are_asked_for_again(tmp_path: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    write_tools(wheel_tree(tmp_path, "cuda") / "nvidia" / "cu13", tmp_path / "calls")
    (tmp_path / "artifacts" / "tools" / "versions.json").write_text('{"/usr/bin/g++": 3')
    assert find_toolchain(tmp_path).version == "13.0.88"


def test_a_tool_without_a_version_is_no_tool(tmp_path: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    home = wheel_tree(tmp_path, "cuda") / "nvidia" / "cu13"
    write_tools(home, tmp_path / "calls")
    (home / "bin" / "nvcc").write_text("#!/bin/sh\necho 'Illegal instruction' >&2; exit 132\n")
    with pytest.raises(ProtocolError, match="exits 132 and prints no version: Illegal instruction"):
        find_toolchain(tmp_path)


def test_a_system_toolkit_is_taken_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tools(tmp_path / "cuda", tmp_path / "calls", release="12.8")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = find_toolchain(tmp_path, system=True)
    assert (found.version, found.origin) == ("12.8.88", "system")
    assert found.reason == "asked for with --system-cuda, found by CUDA_HOME"
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("PATH", f"{tmp_path}/cuda/bin:{os.environ['PATH']}")
    assert find_toolchain(tmp_path, system=True).root == tmp_path / "cuda"


def test_a_system_toolkit_that_is_not_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ConfigError, match="CUDA_HOME is not set and no nvcc is on PATH"):
        find_toolchain(tmp_path, system=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no nvcc, cuobjdump, nvdisasm in"):
        find_toolchain(tmp_path, system=True)


def test_a_system_toolkit_that_was_passed_over_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    write_tools(wheel_tree(tmp_path, "cuda") / "nvidia" / "cu13", tmp_path / "calls")
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    assert find_toolchain(tmp_path).reason == (
        "the locked wheels; /opt/cuda is used with --system-cuda only"
    )


def test_a_wheel_with_another_hash_is_refused_and_nothing_of_it_stays(
    tmp_path: Path, offline: Path
) -> None:
    wheel = write_wheel(offline, "some_tool", {"nvidia/cu13/bin/nvcc": b"as locked"})
    lock_own(tmp_path, cuda=wheel)
    locked = sha256(wheel)
    write_wheel(offline, "some_tool", {"nvidia/cu13/bin/nvcc": b"another"})
    with pytest.raises(CiError) as caught:
        fetch_wheels(tmp_path, "cuda")
    assert str(caught.value) == (
        f"some-tool==1.0 was refused: sha256 of some_tool-1.0-py3-none-any.whl is {sha256(wheel)}, "
        f"not {locked} ({tmp_path}/ci/locks/cuda.txt); "
        "remove it from the index or folder that pip had it from"
    )
    assert caught.value.exit_code == 4
    assert [p.name for p in (tmp_path / "artifacts" / "tools").iterdir()] == [".cuda.lock"]


def test_another_lock_has_another_tree(tmp_path: Path, offline: Path) -> None:
    wheel = write_wheel(offline, "some_tool", {"a": b"1"})
    lock_own(tmp_path, cuda=wheel)
    first = fetch_wheels(tmp_path, "cuda")
    write_wheel(offline, "some_tool", {"a": b"2"})
    lock_own(tmp_path, cuda=wheel)  # the same version
    assert wheel_tree(tmp_path, "cuda") != first
    assert (fetch_wheels(tmp_path, "cuda") / "a").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("some-tool>=1.0 --hash=sha256:" + "0" * 64, ":2: 'some-tool>=1.0 --hash=sha256:"),
        ("some-tool==1.0", ":2: 'some-tool==1.0' is no NAME==VERSION with --hash=sha256:HEX"),
        ("--index-url //example.org/simple", ":2: '--index-url //example.org/simple'"),
        ("-r other.txt", ":2: '-r other.txt' is no NAME==VERSION"),
        ("x @ https://example.org/x-1.0-py3-none-any.whl", ":2: 'x @ https://example.org"),
        ("some-tool==1.0 \\", " ends within a requirement"),
        ("", " pins nothing"),
    ],
)
def test_a_lock_holds_pins_with_hashes_and_nothing_else(
    tmp_path: Path, line: str, message: str
) -> None:
    lock = tmp_path / "ci/locks/cuda.txt"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        wheel_tree(tmp_path, "cuda")
    assert str(caught.value).startswith(f"{lock}{message}")


def test_an_extra_without_a_lock_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        fetch_wheels(tmp_path, "nothing")
    assert str(caught.value) == (
        "no lock of extra 'nothing'; "
        "locks: base, build, charts, cublas, cuda, cupti, curand, dev, engines, ncu, nvtx, "
        "sanitizer; "
        "write ci/locks/nothing.txt: NAME==VERSION --hash=sha256:HEX, a line for each wheel"
    )


def test_a_project_without_locks_takes_those_of_kernelrig(tmp_path: Path) -> None:
    own = find_lock(Path(__file__).parents[2], "cuda")
    assert find_lock(tmp_path, "cuda") == own
    lock_own(tmp_path, other="some-tool==1.0")
    assert find_lock(tmp_path, "cuda") == own


def test_wheels_come_from_a_folder_and_a_half_fetched_tree_is_made_anew(
    tmp_path: Path, offline: Path
) -> None:
    lock_own(tmp_path, cuda=write_wheel(offline, "some_tool", {"nvidia/cu13/bin/nvcc": b"whole"}))
    tree = wheel_tree(tmp_path, "cuda")
    left_behind = tree.with_name(f".{tree.name}.part") / "nvidia" / "cu13" / "bin"
    left_behind.mkdir(parents=True)
    (left_behind / "nvcc").write_text("half")
    assert fetch_wheels(tmp_path, "cuda") == tree
    assert (tree / "nvidia" / "cu13" / "bin" / "nvcc").read_text() == "whole"
    assert not left_behind.exists()


def test_two_calls_at_once_fetch_once(
    tmp_path: Path, offline: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock_own(tmp_path, cuda=write_wheel(offline, "some_tool", {"a": b"1"}))
    with ThreadPoolExecutor(2) as pool:
        trees = set(pool.map(fetch_wheels, [tmp_path] * 2, ["cuda"] * 2))
    assert [(tree / "a").read_text() for tree in trees] == ["1"]
    assert capfd.readouterr().err.count("fetching the cuda wheels (1 packages), once") == 1


def test_a_wheel_that_cannot_be_had_is_one_sentence(tmp_path: Path, offline: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    with pytest.raises(CiError) as caught:
        fetch_wheels(tmp_path, "cuda")
    assert str(caught.value) == (
        "pip could not fetch the cuda wheels: No matching distribution found for some-tool==1.0; "
        "it needs the package index, or a folder with these wheels: "
        "PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR (some-tool==1.0)"
    )
    assert [p.name for p in (tmp_path / "artifacts" / "tools").iterdir()] == [".cuda.lock"]


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device\n",
            "no room for the cuda wheels under {tools}; "
            "free some: `invoke clean`, or remove artifacts/builds",
        ),
        (
            'ERROR: Exception:\nTraceback (most recent call last):\n  File "x", line 1, in y\n'
            "ValueError: odd\n",
            "pip could not fetch the cuda wheels: ValueError: odd; it needs the package index, or "
            "a folder with these wheels: PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR (some-tool==1.0)",
        ),
    ],
)
def test_what_pip_could_not_do_is_told_from_what_it_could_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str, sentence: str
) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{story}END\nexit 2\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(CiError) as caught:
        fetch_wheels(tmp_path, "cuda")
    assert str(caught.value) == sentence.format(tools=tmp_path / "artifacts" / "tools")


def test_the_sanitizer_travels_with_its_exec_bits_and_without_its_manual(
    tmp_path: Path, offline: Path
) -> None:
    files = {
        "nvidia/cu13/bin/compute-sanitizer": b"#!/bin/sh\n",
        "nvidia/cu13/compute-sanitizer/TreeLauncherSubreaper": b"\x7fELF...",
        "nvidia/cu13/compute-sanitizer/notes.txt": b"text",
        "nvidia/cu13/compute-sanitizer/docs/index.html": b"<html>",
        "nvidia/cu13/compute-sanitizer/include/sanitizer.h": b"//",
    }
    lock_own(tmp_path, sanitizer=write_wheel(offline, "some_tool", files))
    packed = fetch_sanitizer_wheel(tmp_path)
    first = packed.read_bytes()
    with tarfile.open(packed) as tar:
        assert [(e.name, oct(e.mode), e.mtime, e.uid) for e in tar] == [
            ("bin/compute-sanitizer", "0o755", 0, 0),
            ("compute-sanitizer/TreeLauncherSubreaper", "0o755", 0, 0),
            ("compute-sanitizer/notes.txt", "0o644", 0, 0),
        ]
    packed.unlink()
    assert fetch_sanitizer_wheel(tmp_path).read_bytes() == first


def test_doctor_fetches_nothing_and_says_what_it_sees(tmp_path: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    lines = {item.name: str(item) for item in describe(tmp_path)}
    assert lines["CUDA"] == (
        "ok       CUDA       not fetched yet: the first build takes 110 MB from the index"
    )
    assert lines["python"].startswith("ok       python     3.")
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_doctor_sees_a_folder_of_results_that_is_closed(tmp_path: Path) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    closed = tmp_path / "artifacts"
    closed.mkdir(mode=0o500)
    assert f"missing  disk       {closed} cannot be written to; make it writable: {closed}" in [
        str(item) for item in describe(tmp_path)
    ]


def test_doctor_names_what_mends_a_missing_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_own(tmp_path, cuda="some-tool==1.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "missing  tools      no g++ on PATH; install it with: sudo apt-get install g++" in [
        str(item) for item in describe(tmp_path)
    ]
