"""The text that a timing build prints: sections by warp role, or one table of phases.

Two programs print sections: ours (kernel/role_report.cuh), and the kernel that it replaced, whose
labels differ. What is not whole is refused: half a report gives figures that are wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelrig.analyse.phases.phase_names import (
    ACCUMULATOR_WAIT,
    ISSUE,
    K_LOOP,
    READ_BACK,
    RING_WAIT,
    STAGE_0_WAIT,
    STORES,
    roles_of,
)
from kernelrig.errors import ProtocolError
from kernelrig.model import Phase, PhaseCapture, RolePhases

_HEADING = re.compile(r"=== (?P<title>.+?) \((?P<inside>.*)\) ===\s*")
_TILES = re.compile(r"(\d{1,12}) tiles across (\d{1,9}) clusters")
_SHARE = re.compile(
    r"\s+(?P<label>\S.*?):\s+(?P<cycles>\d{1,15}) cycles / +[\d.,]+ ns(?:\s+\([\d.,]+%.*\))?\s*"
)
_RANGE = re.compile(
    r"\s+(?P<label>\S.*?) range: min=(?P<least>\d{1,15}) max=(?P<most>\d{1,15})"
    r"(?: \([\d.,]+x spread\))?\s*"
)
_WARP = re.compile(
    r"\s+W(?P<warp>\d{1,2}) \(ew=\d+, rg=\d+\):\s+avg=(?P<mean>\d{1,15})\s+min=(?P<least>\d{1,15})"
    r"\s+max=(?P<most>\d{1,15})\s+p95=(?P<p95>\d{1,15})\s*"
)
_GHZ = re.compile(r"at (\d{1,2}(?:[.,]\d{1,4})?) GHz")
_WALL = re.compile(r"\s+Expected total cycles \(wall clock\): (\d{1,15})\s*")
_AVERAGE = re.compile(r"\s+Average: (\d{1,15}) cycles\s*")
_LIMITS = re.compile(r"\s+Min: (\d{1,15})\s+Max: (\d{1,15})\s+P95: (\d{1,15}) cycles\s*")
_TABLE_HEAD = re.compile(r"phase\s+mean cycles\s+share\s.*rows of (\d{1,12})\s*")
_TABLE_ROW = re.compile(
    r"(?P<name>\S.*?)\s+(?P<mean>\d{1,15})\s+[\d.,]+%\s+(?P<least>\d{1,15})\s+(?P<p95>\d{1,15})"
    r"\s+(?P<most>\d{1,15})\s+(?P<rows>\d{1,12})\s*"
)
_NEVER = re.compile(r"(?P<name>\S.*?)\s+not recorded\s*")

_W0 = {RING_WAIT: r"Ring wait", ISSUE: r"Issue"}
_W1 = {
    ACCUMULATOR_WAIT: r"Epilogue mbar wait",
    STAGE_0_WAIT: r"TMA stage-0 wait",
    K_LOOP: r"K-loop(?: \(.*\))?",
}
_EPILOGUE = {
    ACCUMULATOR_WAIT: r"Mainloop (?:mbar )?wait",
    READ_BACK: r"(?:Phase 1|Read-back)(?: \(.*\))?",
    STORES: r"(?:Phase 2B?|Stores)(?: \(.*\))?",
}
_RANGED = {"W0": (RING_WAIT, ISSUE), "W1": (K_LOOP,), "epilogue": tuple(_EPILOGUE)}
_PER_WARP = re.compile(r"EPILOGUE PER-WARP (?:PHASE 1|READ-BACK) TIMING")


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    inside: str
    lines: tuple[str, ...]

    @property
    def tiles(self) -> int:
        return int(self._counts()[1])

    @property
    def clusters(self) -> int:
        return int(self._counts()[2])

    def _counts(self) -> re.Match[str]:
        if not (found := _TILES.search(self.inside)):
            raise ProtocolError(f"'{self.title}' does not say of how many tiles and clusters it is")
        return found

    def cut_short(self, what: str) -> ProtocolError:
        return ProtocolError(f"the section '{self.title}' is cut short: it has no {what}")


def read_clock_text(text: str) -> PhaseCapture:
    """Return the phases that a timing build printed, whatever else was printed around them.

    ProtocolError if there are none, if a part of them is missing, or if there are several captures.
    """
    sections = list(_sections(text))
    tables = [n for n, line in enumerate(text.splitlines()) if _TABLE_HEAD.fullmatch(line)]
    if len(tables) + bool(sections) > 1:
        raise ProtocolError("the text holds several captures: pass one of them")
    if tables:
        return _table(text.splitlines()[tables[0] :])
    if not sections:
        raise ProtocolError("no clock64 phases in the text: no section `=== W1 TIMING`, no table")
    return _by_role(sections)


def _sections(text: str) -> Iterator[_Section]:
    title, inside, lines = "", "", list[str]()
    for line in text.splitlines():
        if found := _HEADING.fullmatch(line):
            if title:
                yield _Section(title, inside, tuple(lines))
            title, inside, lines = found["title"], found["inside"], []
        else:
            lines.append(line)
    if title:
        yield _Section(title, inside, tuple(lines))


def _by_role(sections: list[_Section]) -> PhaseCapture:
    named: dict[str, _Section] = {}
    for section in sections:
        name = _name(section.title)
        if name in named:
            raise ProtocolError(f"the text holds '{section.title}' twice: pass one capture")
        named[name] = section
    for wanted in ("W1", "epilogue"):
        if wanted not in named:
            raise ProtocolError(f"the text is cut short: no section with the phases of {wanted}")
        if not named[wanted].tiles:
            raise ProtocolError(f"'{named[wanted].title}' recorded no tile")
    w1, epilogue = named["W1"], named["epilogue"]
    roles = [_role("W0", named["W0"], _W0)] if "W0" in named and named["W0"].tiles else []
    roles.append(_role("W1", w1, _W1))
    warps, spread = _warps(named["warps"]) if "warps" in named else ({}, None)
    whole = _role(_own_warp(epilogue), epilogue, _EPILOGUE)
    shown = {p.name: p for p in whole.phases}[READ_BACK]
    if (same := warps.get(whole.role)) and same.mean_cycles != shown.mean_cycles:
        raise ProtocolError(
            f"{whole.role}'s read-back is {same.mean_cycles:.0f} cycles in one section and"
            f" {shown.mean_cycles:.0f} in another: they are of two captures"
        )
    for role, phase in warps.items():
        roles.append(_with(whole, phase) if role == whole.role else RolePhases(role, (phase,)))
    if whole.role not in warps:
        roles.append(whole)
    ghz = _first(_GHZ, w1.lines)
    sm_ghz = float(ghz[1].replace(",", ".")) if ghz else 0.0
    wall = _first(_WALL, w1.lines)
    launch_ms = int(wall[1]) / (sm_ghz * 1e6) if wall and sm_ghz else 0.0
    return PhaseCapture(
        tuple(roles), "tile", w1.tiles, w1.tiles, w1.clusters, sm_ghz, launch_ms, spread
    )


def _name(title: str) -> str:
    if _PER_WARP.fullmatch(title):
        return "warps"
    return "epilogue" if title.startswith("EPILOGUE") else title.removesuffix(" TIMING")


def _role(role: str, section: _Section, labels: Mapping[str, str]) -> RolePhases:
    """Return a role's phases; its total is the printed one, which the rounded parts may miss."""
    means: dict[str, float] = {}
    ranges: dict[str, tuple[int, int]] = {}
    printed: float | None = None
    for line in section.lines:
        if found := _SHARE.fullmatch(line):
            if name := _label(found["label"], labels):
                means[name] = float(found["cycles"])
            elif re.fullmatch(r"Total(?: tile| \(wait\+work\))", found["label"]):
                printed = float(found["cycles"])
        elif found := _RANGE.fullmatch(line):
            limits = int(found["least"]), int(found["most"])
            ranges[_label(found["label"], labels) or found["label"]] = limits
    if missing := [name for name in labels if name not in means]:
        raise section.cut_short(missing[0])
    if printed is None:
        raise section.cut_short("total")
    kind = role if role in _RANGED else "epilogue"
    if missing := [name for name in _RANGED[kind] if name not in ranges]:
        raise section.cut_short(f"range of {missing[0]}")
    # Every part and the total are rounded by half a cycle at most.
    if abs(sum(means.values()) - printed) > 0.5 * (len(means) + 1):
        total = sum(means.values())
        raise ProtocolError(
            f"the phases of {role} add up to {total:.0f} cycles, its printed total is {printed:.0f}"
        )
    phases = tuple(_phase(name, section.tiles, means[name], ranges.get(name)) for name in labels)
    whole = _phase("total", section.tiles, printed, ranges.get("Total tile"))
    return RolePhases(role, phases, whole)


def _phase(name: str, rows: int, mean: float, limits: tuple[int, int] | None) -> Phase:
    least, most = limits or (None, None)
    if least is not None and most is not None and not least <= round(mean) <= most:
        raise ProtocolError(f"the mean of {name}, {mean:.0f}, is not from {least} to {most}")
    return Phase(name, rows, mean, least, most, None)


def _label(label: str, labels: Mapping[str, str]) -> str:
    return next((name for name, known in labels.items() if re.fullmatch(known, label)), "")


def _own_warp(section: _Section) -> str:
    found = re.match(r"W\d+", section.inside)
    return found[0] if found else "epilogue"


def _warps(section: _Section) -> tuple[dict[str, Phase], Phase | None]:
    """Return the read-back of each warp, and its spread over the warps of one tile."""
    warps = {}
    for line in section.lines:
        if found := _WARP.fullmatch(line):
            least, most, p95 = (int(found[k]) for k in ("least", "most", "p95"))
            mean = float(found["mean"])
            warps[f"W{found['warp']}"] = Phase(READ_BACK, section.tiles, mean, least, most, p95)
    if not warps:
        if section.tiles:
            raise section.cut_short("warp")
        return {}, None
    average, limits = _first(_AVERAGE, section.lines), _first(_LIMITS, section.lines)
    if not average or not limits:
        raise section.cut_short("spread of the warps in a tile")
    least, most, p95 = (int(limits[n]) for n in (1, 2, 3))
    return warps, Phase("spread", section.tiles, float(average[1]), least, most, p95)


def _with(role: RolePhases, phase: Phase) -> RolePhases:
    """Put a phase in place of that of the same name, which is known less well."""
    held = tuple(phase if p.name == phase.name else p for p in role.phases)
    return RolePhases(role.role, held, role.total)


def _first(pattern: re.Pattern[str], lines: tuple[str, ...]) -> re.Match[str] | None:
    return next((found for line in lines if (found := pattern.search(line))), None)


def _table(lines: list[str]) -> PhaseCapture:
    """Return the phases of a kernel without a report of its own: one row a phase."""
    head = _TABLE_HEAD.fullmatch(lines[0])
    assert head, "the caller has found it"
    phases = []
    for line in lines[1:]:
        if found := _TABLE_ROW.fullmatch(line):
            least, p95, most = (int(found[k]) for k in ("least", "p95", "most"))
            rows, mean = int(found["rows"]), float(found["mean"])
            if not least <= p95 <= most or not least <= round(mean) <= most:
                raise ProtocolError(f"the figures of phase '{found['name']}' contradict each other")
            phases.append(Phase(found["name"], rows, mean, least, most, p95))
        elif found := _NEVER.fullmatch(line):
            phases.append(Phase(found["name"], 0, None, None, None, None))
        elif line.strip() and re.match(r"\S+: \S", line):
            raise ProtocolError(f"the table of phases is cut short: '{line.strip()[:60]}'")
        else:
            break
    if not any(p.rows for p in phases):
        raise ProtocolError("the table of phases is cut short: it has no recorded phase")
    return PhaseCapture(roles_of(phases), "row", int(head[1]))
