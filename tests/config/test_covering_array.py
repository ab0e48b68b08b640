"""The sets of tunables that are tried meet what they must, and are always the same."""

from __future__ import annotations

from itertools import combinations, product

from kernelrig.config.covering_array import pairwise, structural_product, tried_sets
from kernelrig.model import Tunable

TUNABLES = {
    "DEPTH": Tunable(4, (3, 4, 5), structural=True),
    "WIDTH": Tunable(256, (128, 256), structural=True),
    "STAGGER": Tunable(64, (0, 64, 256)),
    "SNAKE": Tunable(1, (0, 1)),
    "UNROLL": Tunable(6, (1, 2, 3, 6)),
    "HINT": Tunable(1, (0, 1, 2)),
}
REST = {name: t.values for name, t in TUNABLES.items() if not t.structural}


def test_the_first_set_is_the_defaults_and_no_set_comes_twice() -> None:
    sets = tried_sets(TUNABLES)
    assert sets[0] == {
        "DEPTH": 4, "WIDTH": 256, "STAGGER": 64, "SNAKE": 1, "UNROLL": 6, "HINT": 1,
    }  # fmt: skip
    assert len({tuple(sorted(s.items())) for s in sets}) == len(sets) == 38
    assert sets == tried_sets(TUNABLES)


def test_every_structural_combination_meets_every_value_of_the_others() -> None:
    assert len(list(structural_product(TUNABLES))) == 6
    seen = {(s["DEPTH"], s["WIDTH"], name, s[name]) for s in tried_sets(TUNABLES) for name in REST}
    wanted = {
        (depth, width, name, value)
        for depth, width in product((3, 4, 5), (128, 256))
        for name, values in REST.items()
        for value in values
    }
    assert seen == wanted


def test_every_two_values_of_two_others_meet_where_the_structure_is_the_default_one() -> None:
    plain = [s for s in tried_sets(TUNABLES) if (s["DEPTH"], s["WIDTH"]) == (4, 256)]
    for a, b in combinations(REST, 2):
        assert {(s[a], s[b]) for s in plain} == set(product(REST[a], REST[b])), (a, b)


def test_pairs_need_far_fewer_sets_than_the_product() -> None:
    assert len(list(pairwise(REST))) <= 16 < 3 * 2 * 4 * 3


def test_what_there_is_little_of_is_tried_whole() -> None:
    one = {"DEPTH": TUNABLES["DEPTH"]}
    assert tried_sets(one) == ({"DEPTH": 4}, {"DEPTH": 3}, {"DEPTH": 5})
    assert tried_sets({"UNROLL": TUNABLES["UNROLL"]}) == (
        {"UNROLL": 6}, {"UNROLL": 1}, {"UNROLL": 2}, {"UNROLL": 3},
    )  # fmt: skip
    assert tried_sets({}) == ({},)
