"""Builds are keyed by what went into them, whole or not there, and never made twice.

What the store does is tried with programs of `cuda: false`: g++ takes 0.2 s where nvcc takes 3.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build import Request, build_all, load_build, table
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.config import load_kernels
from kernelrig.errors import BuildError, CiError, ConfigError
from kernelrig.model import Build, Function, Kernel, Toolchain, Tunable, Variant
from kernelrig.proc import run_process

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parents[1] / "data" / "build"

PROGRAM = """#include <cstdio>
#include "demo.h"
int main() { std::printf("%s|%s|%s|%d", KERNELRIG_PROGRAM, KERNELRIG_LABEL, SAID, NUMBER); }
"""


class Checkout:
    """A repository with one CPU program, and a g++ that writes down each time it is started."""

    def __init__(self, root: Path, tools: Toolchain) -> None:
        self.root = root
        self.calls = root / "calls"
        (root / "kernel").mkdir(parents=True)
        (root / "kernel" / "demo.cpp").write_text(PROGRAM)
        self.write_header("1")
        compiler = root / "g++"
        compiler.write_text(
            f'#!/bin/sh\necho x >>"{self.calls}"\nexec {tools.host_compiler} "$@"\n'
        )
        compiler.chmod(0o755)
        self.tools = replace(tools, host_compiler=compiler)
        self.kernel = Kernel(
            name="demo",
            sources={"sm_90a": "demo.cpp"},
            variants={"production": Variant("production", "demo", {"SAID": '"said"'})},
            label="a label",
            cuda=False,
        )

    def write_header(self, number: str) -> None:
        (self.root / "kernel" / "demo.h").write_text(f"#define NUMBER {number}\n")

    def build(self) -> Build:
        (built,) = build_all(self.root, [Request(self.kernel, "sm_90a", "production")], self.tools)
        return built

    @property
    def compilations(self) -> int:
        return len(self.calls.read_text().splitlines())


@pytest.fixture
def checkout(tmp_path: Path, host_toolchain: Toolchain) -> Checkout:
    return Checkout(tmp_path / "checkout", host_toolchain)


def said_by(build: Build) -> str:
    return run_process([build.binary]).stdout


def test_nothing_changed_and_no_compiler_is_started(checkout: Checkout) -> None:
    first = checkout.build()
    second = checkout.build()
    assert checkout.compilations == 1
    assert (first.reused, second.reused) == (False, True)
    assert second == replace(first, reused=True, compile_s=0.0)
    assert said_by(second) == "demo|a label|said|1"
    assert sorted(first.inputs) == ["kernel/demo.cpp", "kernel/demo.h"]


def test_an_edited_header_is_compiled_and_the_old_text_is_found_again(checkout: Checkout) -> None:
    first = checkout.build()
    checkout.write_header("2")
    second = checkout.build()
    assert said_by(second) == "demo|a label|said|2"
    assert second.folder != first.folder
    checkout.write_header("1")
    assert checkout.build().folder == first.folder
    assert checkout.compilations == 2


def test_a_file_that_is_not_included_does_not_count(checkout: Checkout) -> None:
    checkout.build()
    (checkout.root / "kernel" / "other.h").write_text("#error not for this program\n")
    (checkout.root / "README.md").write_text("words")
    assert checkout.build().reused


def test_a_new_header_that_is_found_first_is_compiled_in(checkout: Checkout) -> None:
    (checkout.root / "include").mkdir()
    shutil.move(checkout.root / "kernel" / "demo.h", checkout.root / "include" / "demo.h")
    way = replace(checkout.kernel.variants["production"], nvcc_flags=("-Iinclude",))
    checkout.kernel = replace(checkout.kernel, variants={"production": way})
    assert said_by(checkout.build()).endswith("|1")
    checkout.write_header("2")
    assert said_by(checkout.build()).endswith("|2")
    assert checkout.build().reused
    (checkout.root / "kernel" / "stdio.h").write_text("#error <cstdio> never looks here\n")
    assert not checkout.build().reused
    assert checkout.build().reused


def test_a_missing_header_is_an_error_and_no_reuse(checkout: Checkout) -> None:
    checkout.build()
    (checkout.root / "kernel" / "demo.h").unlink()
    with pytest.raises(BuildError) as caught:
        checkout.build()
    assert caught.value.details.startswith(
        "kernel/demo.cpp:2:10: fatal error: demo.h: No such file"
    )


def test_headers_of_an_extra_are_found_and_are_another_build_under_other_pins(
    checkout: Checkout,
) -> None:
    shutil.rmtree(checkout.root / "kernel")
    (checkout.root / "kernel").mkdir()
    (checkout.root / "kernel" / "demo.cpp").write_text(PROGRAM.replace('"demo.h"', "<demo.h>"))
    checkout.kernel = replace(checkout.kernel, extras=("library",))
    for number in ("1", "2"):
        headers = checkout.root / f"artifacts/tools/library-{number}/include"
        headers.mkdir(parents=True)
        (headers / "demo.h").write_text(f"#define NUMBER {number}\n")
        checkout.tools = replace(checkout.tools, extras={"library": headers})
        built = checkout.build()
        assert said_by(built).endswith(f"|{number}")
        assert not built.reused
        assert "-isystem" in built.command
        assert list(built.inputs) == ["kernel/demo.cpp"]  # the pins are in the key
    assert checkout.build().reused


def test_a_function_that_is_not_the_projects_reaches_the_compiler(checkout: Checkout) -> None:
    way = replace(checkout.kernel.variants["production"], function=Function.ADD_THEN_ROUND)
    (checkout.root / "kernel" / "demo.cpp").write_text(
        "#include <cstdio>\nenum { ADD_THEN_ROUND = 7 };\n"
        'int main() { std::printf("%d", KERNELRIG_FUNCTION); }\n'
    )
    with pytest.raises(BuildError, match="does not compile"):
        checkout.build()
    checkout.kernel = replace(checkout.kernel, variants={"production": way})
    assert said_by(checkout.build()) == "7"


def test_every_tunable_is_passed_and_a_variant_overrides_it(checkout: Checkout) -> None:
    (checkout.root / "kernel" / "demo.cpp").write_text(
        "#include <cstdio>\n#ifdef OPEN\n#error left out at its value\n#endif\n"
        'int main() { std::printf("%d %d %d", DEPTH, UNROLL, WIDE); }\n'
    )
    flags = {
        "wide": Tunable(7, (0, 7), flag="-DWIDE={}", without=0),
        "open": Tunable(0, (0, 7), flag="-DOPEN={}", without=0),
    }
    tunables = {"sm_90a": {"DEPTH": Tunable(4, (3, 4, 5)), "UNROLL": Tunable(6, (1, 6)), **flags}}
    way = replace(checkout.kernel.variants["production"], defines={"UNROLL": 1})
    checkout.kernel = replace(checkout.kernel, tunables=tunables, variants={"production": way})
    assert said_by(checkout.build()) == "4 1 7"


def test_other_flags_defines_and_tools_are_another_build(checkout: Checkout) -> None:
    way = checkout.kernel.variants["production"]
    folders = {checkout.build().folder}
    for other in (
        replace(way, defines={"SAID": '"other"'}),
        replace(way, nvcc_flags=("-g",)),
        replace(way, libs=("-lm",)),
    ):
        checkout.kernel = replace(checkout.kernel, variants={"production": other})
        folders.add(checkout.build().folder)
    checkout.tools = replace(checkout.tools, host_compiler_version="g++ 99")
    folders.add(checkout.build().folder)
    assert len(folders) == 5


@pytest.mark.parametrize("damage", ["altered", "missing", "no record", "record cut", "no headers"])
def test_a_damaged_entry_is_made_again(checkout: Checkout, damage: str) -> None:
    first = checkout.build()
    record = first.folder / "build.json"
    if damage == "altered":
        first.binary.write_bytes(first.binary.read_bytes()[:-1] + b"x")
    elif damage == "missing":
        (first.folder / "resources.json").unlink()
    elif damage == "no record":
        record.unlink()
    elif damage == "record cut":
        record.write_bytes(record.read_bytes()[:100])
    else:
        (first.folder / "depends.json").unlink()
    again = checkout.build()
    assert (again.reused, again.folder, checkout.compilations) == (False, first.folder, 2)
    assert said_by(again) == "demo|a label|said|1"
    assert checkout.build().reused


def test_two_places_give_one_key(tmp_path: Path, host_toolchain: Toolchain) -> None:
    keys = set()
    for place in ("here", "and/deeper/there"):
        one = Checkout(tmp_path / place, host_toolchain)
        one.tools = host_toolchain
        built = one.build()
        assert str(tmp_path).encode() not in built.binary.read_bytes()
        keys.add((built.key, built.files["demo"]))
    assert len(keys) == 1


def test_the_users_environment_is_not_in_the_binary(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cstdio").write_text("#error from the user's environment\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))
    assert said_by(checkout.build()) == "demo|a label|said|1"


ODD = '''"$(touch pwned) `id` $HOME, \\"quoted\\" \\\\ 'x' %d! é\\t" ","'''
ODD_SAID = "$(touch pwned) `id` $HOME, \"quoted\" \\ 'x' %d! é\t,"


def test_odd_characters_reach_the_program_as_written(checkout: Checkout) -> None:
    way = replace(checkout.kernel.variants["production"], defines={"SAID": ODD, "NUMBER": 1})
    checkout.kernel = replace(
        checkout.kernel, variants={"production": way}, label='"a, b" $(id) \\n\n'
    )
    (checkout.root / "kernel" / "demo.h").write_text("")
    assert said_by(checkout.build()) == f'demo|"a, b" $(id) \\n\n|{ODD_SAID}|1'


def test_odd_characters_outside_a_literal_are_refused(checkout: Checkout) -> None:
    way = replace(checkout.kernel.variants["production"], defines={"SAID": "$(id)"})
    checkout.kernel = replace(checkout.kernel, variants={"production": way})
    with pytest.raises(ConfigError, match=r"define SAID holds '\$' outside a string literal"):
        checkout.build()


def test_a_source_with_odd_characters_is_refused(checkout: Checkout) -> None:
    checkout.kernel = replace(checkout.kernel, sources={"sm_90a": "$(id).cu"})
    with pytest.raises(ConfigError, match="has odd characters"):
        checkout.build()


def test_a_source_saved_while_it_is_compiled_is_not_believed(checkout: Checkout) -> None:
    compiler = checkout.tools.host_compiler
    compiler.write_text(f"{compiler.read_text().replace('exec ', '')}touch kernel/demo.h\n")
    with pytest.raises(BuildError) as caught:
        checkout.build()
    assert str(caught.value) == "kernel/demo.h was changed while it was compiled; build again"
    assert list((checkout.root / "artifacts" / "builds").iterdir()) == []


def test_one_bad_kernel_does_not_keep_the_others_from_being_built(checkout: Checkout) -> None:
    bad = replace(checkout.kernel, name="bad", sources={"sm_90a": "bad.cpp"})
    (checkout.root / "kernel" / "bad.cpp").write_text('#include "demo.h"\nint main() { x; }\n')
    requests = [Request(k, "sm_90a", "production") for k in (bad, checkout.kernel)]
    with pytest.raises(BuildError) as caught:
        build_all(checkout.root, requests, checkout.tools)
    lines = caught.value.details.splitlines()
    assert caught.value.message == "bad-sm_90a-production does not compile"
    assert lines[0].startswith("kernel/bad.cpp:2:14: error: ")
    assert lines[-1].startswith("command: env -i PATH=")
    assert checkout.build().reused


def test_several_failures_are_told_together(checkout: Checkout) -> None:
    kernels = [replace(checkout.kernel, name=n, sources={"sm_90a": "bad.cpp"}) for n in "ab"]
    (checkout.root / "kernel" / "bad.cpp").write_text("int main() { x; }\n")
    with pytest.raises(BuildError) as caught:
        build_all(
            checkout.root, [Request(k, "sm_90a", "production") for k in kernels], checkout.tools
        )
    assert caught.value.message == (
        "2 of 2 builds failed: a-sm_90a-production does not compile; "
        "b-sm_90a-production does not compile"
    )


def test_what_the_compiler_says_of_two_archs_alike_stands_once(checkout: Checkout) -> None:
    sources = {"sm_90a": "bad.cpp", "sm_100a": "bad.cpp"}
    kernel = replace(checkout.kernel, sources=sources)
    (checkout.root / "kernel" / "bad.cpp").write_text("int main() { x; }\n")
    with pytest.raises(BuildError) as caught:
        build_all(
            checkout.root, [Request(kernel, a, "production") for a in sources], checkout.tools
        )
    details = caught.value.details
    assert details.count("kernel/bad.cpp:1:14: error: ") == 1
    assert [line.split()[0] for line in details.splitlines()[-2:]] == ["command:", "command:"]


def test_a_full_disk_is_not_the_kernels_fault(checkout: Checkout) -> None:
    checkout.tools.host_compiler.write_text(
        "#!/bin/sh\necho 'fatal error: when writing output to x.ii: No space left on device'\n"
        "echo 'compilation terminated.'\nexit 1\n"
    )
    with pytest.raises(CiError) as caught:
        checkout.build()
    assert caught.value.exit_code == 4
    assert str(caught.value) == (
        "no room to compile demo-sm_90a-production: fatal error: when writing output to x.ii: "
        "No space left on device; free some: `invoke clean`, or remove artifacts/builds"
    )


def test_ctrl_c_ends_the_compilers_and_waits_for_none(checkout: Checkout) -> None:
    ended = checkout.root / "ended"
    checkout.tools.host_compiler.write_text(
        f'#!/bin/sh\nkill -INT $PPID\nsleep 60\necho late >"{ended}"\nexit 1\n'
    )
    with pytest.raises(KeyboardInterrupt):
        checkout.build()
    assert not ended.exists()
    assert list((checkout.root / "artifacts" / "builds").iterdir()) == []


def test_two_calls_at_once_agree(checkout: Checkout) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: checkout.build(), range(2))
    assert one.folder == two.folder
    assert load_build(one.folder).files == one.files
    builds = checkout.root / "artifacts" / "builds"
    assert sorted(p.name for p in builds.iterdir()) == [".made-here", one.folder.name]


def test_what_a_killed_call_left_is_never_used_and_goes_after_a_day(checkout: Checkout) -> None:
    builds = checkout.root / "artifacts" / "builds"
    for name, age_s in ((".part-old", 90_000), (".part-new", 0)):
        (builds / name).mkdir(parents=True)
        os.utime(builds / name, (when := (builds / name).stat().st_mtime - age_s, when))
    checkout.build()
    assert sorted(p.name[:9] for p in builds.iterdir()) == [".made-her", ".part-new", "demo-sm_9"]


def test_a_build_that_was_carried_elsewhere_is_checked(checkout: Checkout, tmp_path: Path) -> None:
    carried = tmp_path / "downloaded"
    shutil.copytree(checkout.build().folder, carried)
    (carried / "demo").chmod(0o644)
    loaded = load_build(carried)
    assert loaded.folder == carried
    assert said_by(loaded) == "demo|a label|said|1"
    (carried / "demo").write_bytes(b"")
    with pytest.raises(ConfigError) as caught:
        load_build(carried)
    assert str(caught.value) == (
        f"{carried} is damaged: demo is not what was built; build it again, or fetch it again"
    )
    with pytest.raises(ConfigError, match=r"it has no build\.json"):
        load_build(tmp_path)


def test_a_variant_or_arch_that_is_not_there_is_named(checkout: Checkout) -> None:
    for arch, variant, message in (
        ("sm_90a", "fast", "demo has no variant 'fast'; known: production"),
        ("sm_100a", "production", "demo has no source for sm_100a; archs: sm_90a"),
    ):
        with pytest.raises(ConfigError) as caught:
            build_all(checkout.root, [Request(checkout.kernel, arch, variant)], checkout.tools)
        assert caught.value.message == message


def test_a_variant_of_another_arch_is_refused(checkout: Checkout) -> None:
    kernel = replace(
        checkout.kernel,
        sources={"sm_90a": "demo.cpp", "sm_100a": "demo.cpp"},
        variants={"guard": Variant("guard", "demo", archs=("sm_100a",))},
    )
    with pytest.raises(ConfigError) as caught:
        build_all(checkout.root, [Request(kernel, "sm_90a", "guard")], checkout.tools)
    assert caught.value.message == "demo has no variant guard for sm_90a; it is for sm_100a"


def test_a_build_carries_the_label_of_its_arch(checkout: Checkout) -> None:
    checkout.kernel = replace(
        checkout.kernel,
        sources={"sm_90a": "demo.cpp", "sm_100a": "demo.cpp"},
        label={"sm_100a": "a stand-in"},
    )
    builds = build_all(
        checkout.root,
        [Request(checkout.kernel, a, "production") for a in checkout.kernel.sources],
        checkout.tools,
    )
    assert [said_by(b) for b in builds] == ["demo||said|1", "demo|a stand-in|said|1"]


def test_the_table_counts_what_the_kernel_and_its_callees_spill(checkout: Checkout) -> None:
    functions = parse_ptxas_log((DATA / "ptxas-13.0.88-spills.txt").read_text(), "spiller")
    harness = replace(functions[1], name="fill", spill_load_bytes=4)
    callee = replace(functions[2], spill_store_bytes=6)
    spilling = replace(checkout.build(), resources=(functions[0], harness, callee))
    assert table([spilling]).splitlines()[1].split()[3:6] == ["32", "1250", "1200"]
    assert spilling.spill_bytes == 1250


def test_the_table_of_our_own_kernels_fits_80_columns(checkout: Checkout) -> None:
    functions = parse_ptxas_log((DATA / "ptxas-13.0.88-spills.txt").read_text(), "spiller")
    built = replace(checkout.build(), resources=functions, reused=True)
    builds = [
        replace(built, kernel=kernel.name, arch=arch, variant=variant)
        for kernel in load_kernels(ROOT).values()
        for arch in kernel.sources
        for variant in kernel.variants
    ]
    assert len(builds) > 4
    assert max(map(len, table(builds).splitlines())) <= 80


def test_the_table_says_what_was_built_and_what_was_not_needed(checkout: Checkout) -> None:
    first = replace(checkout.build(), compile_s=1.25)
    assert table([first, checkout.build()]) == (
        "kernel  arch    variant     regs  spills  smem bytes  seconds\n"
        "demo    sm_90a  production  -     -       -           1.2\n"
        "demo    sm_90a  production  -     -       -           unchanged"
    )
