"""Grouping: one fault is one finding, effects are linked to their cause, nothing is dropped."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.machine.findings import Finding, Sighting, Wait
from kernelrig.emu.machine.grouping import EXAMPLES, grouped
from kernelrig.model.frame import Frame

READ, WRITE = Frame("kernel/k.cu", 10, "load"), Frame("kernel/k.cu", 20, "store")
LINE_30 = Frame("kernel/k.cu", 30, "f")


def finding(
    kind: str,
    line: int,
    *objects: str,
    message: str = "",
    time: int = 0,
    schedules: tuple[int, ...] = (0,),
    wait: Wait | None = None,
    related: tuple[Frame, ...] = (),
    rule: str = "",
) -> Finding:
    return Finding(
        kind,
        "error",
        message or f"{kind} of {', '.join(objects)}",
        cta=0,
        warp=1,
        source=f"kernel/k.cu:{line} f",
        schedule=schedules[0],
        rule=rule or kind,
        objects=objects,
        related=related,
        sighting=Sighting(
            time=time,
            threads=frozenset({(0, 1)}),
            schedules=frozenset(schedules),
            wait=wait,
        ),
    )


def test_a_fault_on_each_stage_of_a_ring_is_one_finding() -> None:
    stages = [finding("race", 5, f"A[{i}]", message=f"at A[{i}]") for i in range(8)]
    (one,) = grouped(stages)
    assert (one.count, one.objects[:2], one.message) == (8, ("A[0]", "A[1]"), "at A[0]")
    assert one.examples == tuple(f"at A[{i}]" for i in range(1, EXAMPLES + 1))


def test_misuse_of_a_ring_without_a_name_is_one_finding_a_call() -> None:
    """`mbarrier.init` in a helper, of which an unrolled loop has a call for each end of a ring."""
    full, empty = Frame("kernel/k.cu", 40, "k"), Frame("kernel/k.cu", 41, "k")
    inits = [
        replace(finding("barrier-misuse", 5, name), frames=(LINE_30, caller))
        for stage in range(4)
        for name, caller in (
            ("smem" if not stage else f"smem + {16 * stage:#x}", full),
            (f"smem + {16 * stage + 8:#x}", empty),
        )
    ]
    found = grouped(inits)
    assert [(f.count, f.objects[0], f.frames[1]) for f in found] == [
        (4, "smem", full),
        (4, "smem + 0x8", empty),
    ]


def test_misuse_of_two_barriers_with_names_in_one_helper_stays_apart() -> None:
    found = grouped([finding("barrier-misuse", 5, "full[0]"), finding("barrier-misuse", 5, "done")])
    assert len(found) == 2


def test_an_overwritten_mbarrier_does_not_explain_what_was_seen_before() -> None:
    """The wait was relaxed, and the stage's tile is read; much later the bytes are used again."""
    wait = Wait("smem", LINE_30, early=False)
    race = finding("race", 5, "tile", time=10, wait=wait)
    store = finding("barrier-misuse", 9, "smem", time=50, rule="mbarrier-plain-access")
    assert [(f.kind, f.cause) for f in grouped([store, race])] == [
        ("barrier-misuse", None),
        ("race", None),
    ]
    early = replace(store, sighting=replace(store.sighting, time=5))
    assert [(f.kind, f.cause) for f in grouped([early, race])] == [
        ("barrier-misuse", None),
        ("race", 0),
    ]


def test_faults_of_other_lines_or_buffers_stay_apart_and_explain_nothing() -> None:
    found = grouped([finding("race", 5, "A"), finding("race", 6, "A"), finding("race", 5, "B")])
    assert [f.cause for f in found] == [None, None, None]


def test_what_one_missing_fence_breaks_is_one_finding() -> None:
    """Copies at lines 5 and 6 read what lines 10 and 20 write; 7 is of another writer."""
    fences = [
        finding("proxy-fence", 5, "A", related=(READ,)),
        finding("proxy-fence", 5, "B", related=(WRITE,)),
        finding("proxy-fence", 6, "C", related=(WRITE,)),
        finding("proxy-fence", 7, "A", related=(LINE_30,)),
    ]
    one, apart = grouped(fences)
    assert (one.source, one.count, one.related) == ("kernel/k.cu:5 f", 3, (READ, WRITE))
    assert (apart.source, apart.count) == ("kernel/k.cu:7 f", 1)
    inits = [
        finding("barrier-misuse", n, f"b + {n}", rule="init-not-in-async-proxy") for n in (5, 6)
    ]
    assert [f.count for f in grouped(inits)] == [2]
    others = [finding("barrier-misuse", n, f"b + {n}", rule="mbarrier-init") for n in (5, 6)]
    assert [f.count for f in grouped(others)] == [1, 1]


def test_schedules_warps_and_ctas_are_counted() -> None:
    other = finding("race", 5, "A[1]", schedules=(1,))
    other = replace(other, sighting=replace(other.sighting, threads=frozenset({(2, 1), (2, 3)})))
    (one,) = grouped([finding("race", 5, "A[0]"), other])
    assert (one.schedules, one.warps, one.ctas) == (2, 3, 2)


def test_what_follows_from_one_early_wait_is_listed_behind_the_first() -> None:
    early = Wait("full[0]", READ, early=True)
    found = grouped(
        [
            finding("deadlock", 40, "full[0]", "empty[1]", time=9),
            finding("race", 30, "B", time=2, wait=early),
            finding("uninitialised", 31, "A", time=1, wait=early),
        ]
    )
    assert [(f.kind, f.cause) for f in found] == [
        ("uninitialised", None),
        ("race", 0),
        ("deadlock", 0),
    ]


def test_a_read_behind_an_early_wait_for_a_misused_mbarrier_is_located_at_the_wait() -> None:
    early = Wait("full[0]", READ, early=True, frames=(READ,), ptx_line=7)
    race = finding("race", 30, "B", message=f"read of B; {early.text}", wait=early)
    race = replace(race, fix=f"wait for it{early.fix}", frames=(LINE_30,), related=(WRITE, READ))
    (kept,) = grouped([race])
    assert (kept.source, kept.message) == (race.source, race.message)
    one, misuse = grouped([race, finding("barrier-misuse", 12, "full[0]", time=5)])
    assert (misuse.kind, misuse.cause) == ("barrier-misuse", 0)
    assert (one.kind, one.source, one.frames, one.ptx_line) == (
        "race",
        "kernel/k.cu:10 load",
        (READ,),
        7,
    )
    assert one.related == (LINE_30, WRITE)
    assert one.message == (
        "the wait for full[0] passed before any phase of it had completed;"
        " behind it at kernel/k.cu:30 f: read of B"
    )
    assert one.fix == (
        "correct the parity of this wait: on a fresh mbarrier parity 1 passes and parity 0 waits;"
        " if the wait is right, wait for it"
    )


def test_what_an_early_wait_left_wrong_is_explained_by_it_in_its_schedules_only() -> None:
    early = Wait("full[0]", READ, early=True)
    cause = finding("race", 30, "A[0]", wait=early)
    effects = [finding("race", 31, "A[1]", time=1), finding("mismatch", 60, "C", time=2)]
    assert [f.cause for f in grouped([cause, *effects])] == [None, None, None]
    effects.append(finding("barrier-misuse", 12, "full[0]", time=5))
    assert [f.cause for f in grouped([cause, *effects])] == [None, 0, 0, 0]
    elsewhere = [replace(f, sighting=Sighting(schedules=frozenset({1}))) for f in effects]
    assert [f.cause for f in grouped([cause, *elsewhere])] == [None] * 4


def test_a_deadlock_of_another_schedule_is_not_explained_by_an_early_wait() -> None:
    early = Wait("full[0]", READ, early=True)
    found = grouped(
        [
            finding("uninitialised", 31, "A", wait=early),
            finding("deadlock", 40, "full[0]", schedules=(1,)),
        ]
    )
    assert [f.cause for f in found] == [None, None]


def test_misuse_of_an_mbarrier_explains_races_behind_its_waits() -> None:
    wait = Wait("full[2]", READ, early=False)
    found = grouped(
        [finding("race", 30, "A", wait=wait), finding("barrier-misuse", 12, "full[0]", time=5)]
    )
    assert [(f.kind, f.cause) for f in found] == [("barrier-misuse", None), ("race", 0)]


def test_a_race_seen_from_its_other_side_is_linked() -> None:
    one = replace(finding("race", 0, "A", related=(WRITE,)), source="kernel/k.cu:10 load")
    two = replace(finding("race", 0, "A", related=(READ,), time=3), source="kernel/k.cu:20 store")
    assert [f.cause for f in grouped([two, one])] == [None, 0]


def test_a_warning_of_one_rule_is_no_cause_of_another() -> None:
    """CUTLASS's 72b: a product that is loaded without a fence, and a copy to where it has read."""
    one = replace(finding("race", 10, "A", related=(WRITE,), rule="a fence"), severity="warning")
    two = replace(one, rule="a copy", sighting=replace(one.sighting, time=3))
    assert [f.cause for f in grouped([two, one])] == [None, None]


def test_a_race_across_warps_explains_the_same_one_within_a_warp() -> None:
    """A barrier of the warp alone would not be enough."""
    write = (Frame("k.cu", 4, "k"),)
    lanes = finding("race", 7, "tile[0]", time=1, related=write, rule="lanes-not-synchronised")
    warps = finding("race", 7, "tile[0]", time=2, related=write, rule="threads-not-synchronised")
    first, second = grouped([lanes, warps])
    assert (first.rule, first.cause) == ("threads-not-synchronised", None)
    assert (second.rule, second.cause) == ("lanes-not-synchronised", 0)


def test_a_read_that_only_some_schedules_find_unwritten_follows_from_the_race_of_its_line() -> None:
    race = finding("race", 10, "tile", schedules=(0, 1), related=(WRITE,))
    race = replace(race, source="kernel/k.cu:10 load")
    early = replace(
        finding("uninitialised", 10, "tile", time=1, schedules=(1,)), source=race.source
    )
    always = replace(early, sighting=replace(early.sighting, schedules=frozenset((0, 1))))
    elsewhere = replace(early, source=LINE_30.file + ":30 f")
    other_buffer = replace(early, objects=("partial",))
    for effect, cause in ((early, 0), (always, None), (elsewhere, None), (other_buffer, None)):
        first, second = grouped([race, effect])
        assert (first.kind, second.kind, second.cause) == ("race", "uninitialised", cause)


def test_a_wrong_element_is_explained_by_a_race_at_its_writers_line_only() -> None:
    race = finding("race", 50, "staging")
    same, other = finding("mismatch", 50, "C"), finding("mismatch", 60, "D")
    assert [(f.objects, f.cause) for f in grouped([other, same, race])] == [
        (("staging",), None),
        (("C",), 0),
        (("D",), None),
    ]


def test_an_independent_fault_keeps_its_place_before_effects() -> None:
    found = grouped([finding("mismatch", 60, "D"), finding("out-of-bounds", 7, "C", time=8)])
    assert [(f.kind, f.cause) for f in found] == [("out-of-bounds", None), ("mismatch", None)]
