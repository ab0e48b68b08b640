"""The library of the core: what it is built of, and when it is not built again."""

from __future__ import annotations

from pathlib import Path

from kernelrig.emu.native.core_build import HERE, SOURCES, build
from kernelrig.emu.native.library import library, opened

SMALL = """#include "registry.hpp"
namespace emu { namespace {
Result add(Context& context, const Instruction& instruction) {
  for (int n = 0; n < context.count; n++)
    for (int lane = 0; lane < LANES; lane++)
      context.out<uint32_t>(context.rows[n], instruction.operands[0])[lane] =
          context.in<uint32_t>(context.rows[n], instruction.operands[1])[lane] + NUMBER;
  return CONTINUE;
}
const Handlers handlers{{"add", add}};
}}
"""


def sources(folder: Path, number: int) -> Path:
    """A core of one handler: the registry, and what adds a number."""
    folder.mkdir(exist_ok=True)
    for name in ("core.hpp", "registry.hpp", "registry.cpp"):
        (folder / name).write_bytes((SOURCES / name).read_bytes())
    (folder / "add.cpp").write_text(SMALL.replace("NUMBER", str(number)))
    return folder


def test_a_core_is_built_once_and_anew_for_other_content(tmp_path: Path) -> None:
    made = build(HERE, tmp_path / "cache", sources(tmp_path / "core", 1))
    stamps = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
    assert build(HERE, tmp_path / "cache", tmp_path / "core") == made
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()} == stamps

    other = build(HERE, tmp_path / "cache", sources(tmp_path / "core", 2))
    assert other != made
    again = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
    assert stamps.items() <= again.items(), "the registry did not change: its object is kept"
    assert len(again) == len(stamps) + 2, "one object, one library"


def test_no_handler_has_the_name_of_another() -> None:
    assert library().core_duplicate() is None


def test_a_handler_is_found_by_its_name(tmp_path: Path) -> None:
    core = opened(build(HERE, tmp_path / "cache", sources(tmp_path / "core", 1)))
    number = core.core_find(b"add")
    assert core.core_handler_name(number) == b"add"
    assert core.core_find(b"sub") == -1
    assert core.core_handler_name(number + 1) is None
