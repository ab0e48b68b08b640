from __future__ import annotations

import json

import pytest
from kernelrig.terminal.text import (
    columns,
    log_json,
    log_text,
    markdown,
    markdown_cell,
    markdown_code,
    one_line,
    printable,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[2J\x07\x00", "\\x1b[2J\\x07\\x00"),
        ("a\rb\x85\u2028c", "a\\rb\\x85\\u2028c"),
        ("\udcff\ufffe\U0010ffff", "\\udcff\\ufffe\\U0010ffff"),
        ("Größe \U0001f525", "Größe \U0001f525"),
        ("a\u202eb\u200bc\u3164\ufe0f", "a\\u202eb\\u200bc\\u3164\\ufe0f"),
    ],
)
def test_what_cannot_be_shown_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", "\\::error::x"),
        ("a\n \t::group::x\n", "a\n \t\\::group::x\n"),
        ("::anything", "\\::anything"),
        ("[ 1.0] ::add-mask::x", "[ 1.0] \\::add-mask::x"),
        ("std::error::code and ::std::move", "std::error::code and ::std::move"),
        ("x ##[error]y ###[a] ##vso[b]", "x #\\#[error]y ##\\#[a] #\\#vso[b]"),
        ("## heading, #1", "## heading, #1"),
    ],
)
def test_no_line_of_a_log_is_a_command(text: str, shown: str) -> None:
    assert log_text(text) == shown
    assert log_text(shown) == shown


def test_a_document_has_the_same_value_and_no_command() -> None:
    value = {"a": "##[error]\u202e\x7f\U0001f525\U000e0041 ::x::"}
    shown = log_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert "##" not in shown
    assert "\U0001f525" in shown
    assert shown.isprintable()


def test_lines_are_joined_and_empty_ones_dropped() -> None:
    assert one_line("  first\n\n\tsecond \n") == "first / second"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("patch_embed_gemm", "patch_embed_gemm"),
        ("Invalid __global__ write", "Invalid `__global__` write"),
        ("std::vector<int> a[3] * b", "`std::vector<int>` `a[3]` `*` b"),
        ("at staging[0], (ring[1]): f(a[2]);", "at `staging[0]`, (`ring[1]`): `f(a[2])`;"),
        ("store ptx.cuh:194 < load -> 3", "store ptx.cuh:194 < load -> 3"),
        ("`rm` \\", "`` `rm` `` `\\`"),
        ("<b>bold</b> <!-- &lt; ~~no~~", "`<b>bold</b>` `<!--` `&lt`; `~~no~~`"),
        ("[0]: https://host #1 @user $x$", "`[0]`: `https://host` `#1` `@user` `$x$`"),
    ],
)
def test_markdown_shows_words_literally(text: str, source: str) -> None:
    assert markdown(text) == source


@pytest.mark.parametrize(
    ("text", "span"),
    [("a`b", "``a`b``"), ("`a``", "``` `a`` ```"), ("a\n[b](c)", "`a / [b](c)`")],
)
def test_a_backtick_does_not_end_a_code_span(text: str, span: str) -> None:
    assert markdown_code(text) == span


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a | b", "a \\| b"),
        ("\\|", "\\\\\\|"),
        ("<b> __c__ [d]", "&lt;b> \\_\\_c\\_\\_ \\[d\\]"),
    ],
)
def test_a_table_cell_ends_where_the_text_does(text: str, cell: str) -> None:
    assert markdown_cell(text) == cell


def test_columns_stand_under_each_other_without_trailing_spaces() -> None:
    assert columns([("a", "bbb", ""), ("aaaa", "b", "c")]) == "a     bbb\naaaa  b    c"
