"""Text that is out to lie, planted into every field of a run: no report shows it as it is."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kernelrig.cli.document import error_document, reply_document
from kernelrig.cli.reply import Reply
from kernelrig.cli.streams import write_document, write_error, write_result
from kernelrig.errors import BuildError, ConfigError
from kernelrig.model import Run
from kernelrig.report import (
    describe_error,
    render_bench,
    render_checks,
    render_junit,
    render_run,
    render_sets,
    render_summary,
)
from kernelrig.report.follow import progress_line
from kernelrig.report.github import error_commands, publish, render_job_summary
from kernelrig.terminal.log import say
from lxml import etree
from markdown_it import MarkdownIt

from tests.report import runs

KEPT = "kept"
CORPUS = {
    "colour": "\x1b[31mkept\x1b[0m",
    "cursor": "kept\x1b[2A\x1b[2K",
    "title": "\x1b]0;kept\x07",
    "c1": "kept\x9b31m\x85::error::x",
    "return": "error\rpass: kept",
    "backspace": "fail\b\b\b\bpass kept",
    "bidi": "kept \u202egnp.exe\u202c \u2066x\u2069",
    "invisible": "ke\u200bpt kept \u2060\ufeff\u00ad\u3164\u2800\ufe0f\U000e0101",
    "command": "::error file=a.py,line=1::kept",
    "command after a line": "kept\n::add-mask::e\n  ::stop-commands::x\n\u00a0::error::y",
    "command inside": "kept ::set-output name=a::b",
    "old command": "kept ##[error]x ##[add-path]/tmp ##vso[task.setvariable variable=a]b",
    "markup": "<script>kept</script><img src=x> [kept](javascript:x) ![i](http://h) <!-- ",
    "code": "kept ```\n# heading\n``` `a` | b | @user #1",
    "xml": "]]> kept <![CDATA[ &amp; &lt;x/>\x00\x0b\ufffe\ud800",
    "csv": "=cmd|' /C calc'!A0 kept",
    "astral": "kept \U0001f525 \U000e0041\U000f0000",
}

Record = TypeVar("Record")


def plant(value: Record, text: str) -> Record:
    """Return a record with `text` in place of each text in it; what is one of a few words stays."""
    return typing.cast(Record, _planted(value, type(value), text))


def _planted(value: Any, kind: Any, text: str) -> Any:  # noqa: ANN401 - any field of a record
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        changed = {
            f.name: _planted(getattr(value, f.name), hints[f.name], text)
            for f in dataclasses.fields(value)
            if f.init
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, Enum) or typing.get_origin(kind) is typing.Literal:
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(_planted(v, None, text) for v in value)
    if isinstance(value, dict):
        numbers = value and all(isinstance(v, int | float) for v in value.values())
        planted = {k: _planted(v, None, text) for k, v in value.items()}
        return planted | {text: 1.0 if numbers else text}
    return value


def hostile(run: Run, text: str) -> Run:
    """Return a run all of whose texts are hostile; facts are texts on both sides."""
    stages = []
    for stage in plant(run, text).stages:
        checks = tuple(
            dataclasses.replace(c, facts={**{k: text for k in c.facts if k}, text: text})
            for c in stage.checks
        )
        stages.append(dataclasses.replace(stage, checks=checks))
    planted = plant(run, text)
    kernel = dataclasses.replace(planted.kernel, variants={}, sources={text: text})
    return dataclasses.replace(
        planted, stages=tuple(stages), kernel=kernel, missing=(text,), only=(text,)
    )


def assert_safe_log(text: str) -> None:
    """What a terminal or a runner gets: nothing that it acts on, and all of it to be seen."""
    for line in text.split("\n"):
        assert not line.strip().startswith("::"), line
        assert "##[" not in line, line
        assert "##vso[" not in line, line
        assert all(c == "\t" or c.isprintable() for c in line), ascii(line)
    assert not set("\u3164\u2800\ufe0f\U000e0101") & set(text)


RUNS = ("pass", "fail", "error", "unreadable", "incomplete", "emulated", "spilling", "unjudged")


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS)
def test_no_report_of_a_run_passes_it_on(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hostile(runs.ALL[name], text)
    assert write_result(render_run(run, render_bench(run))) == 0
    for body in (render_checks(run), render_checks(run, verbose=True), render_sets(run)):
        write_result(body)
    shown = capsys.readouterr().out
    assert_safe_log(shown)
    assert KEPT in shown

    write_document(reply_document("remote-test", Reply(run=run)))
    document = capsys.readouterr().out
    assert_safe_log(document)
    assert json.loads(document)["run"]["only"] == [_as_json(text)]

    root = etree.fromstring(render_junit(run))
    said = [*root.xpath("//@*"), *root.xpath("//text()")]
    assert KEPT in " ".join(map(str, said))
    assert_safe_markup("\n".join(map(str, said)))

    for markdown in (render_summary(run), render_job_summary(run)):
        assert_safe_markup(markdown)
        assert KEPT in markdown
        html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
        for tag in ("<script", "<img", "<a ", "<!--"):
            assert tag not in html, tag


def _as_json(text: str) -> str:
    return text.encode(errors="replace").decode()


def assert_safe_markup(text: str) -> None:
    assert all(c in "\n\t" or c.isprintable() for c in text), ascii(text)


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS)
def test_annotations_are_the_only_commands_of_a_log(
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = hostile(runs.FAIL, text)
    commands = error_commands(run, tmp_path)
    assert commands
    publish(run, {"GITHUB_ACTIONS": "true"}, tmp_path)
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith(("::error ", "::remove-matcher ")), line
        assert all(c.isprintable() for c in line), ascii(line)


def _sentences(text: str) -> Iterator[Callable[[], object]]:
    error = BuildError(text, text)
    error.details = f"{text}\n{text}"
    yield lambda: say(text)
    yield lambda: write_error(f"{describe_error(ConfigError(text, text))}\n")
    yield lambda: write_error(f"{describe_error(error, text)}\n")
    for event in (
        {"event": "stage_not_run", "stage": text, "reason": text},
        {"event": "command_ended", "stage": text, "command": text, "ended_by": text},
        {"event": "agent_error", "detail": text},
        {"event": "finished", "reason": text},
    ):
        yield lambda event=event: say(progress_line(event))  # type: ignore[misc]
    yield lambda: write_document(error_document("build", error, text))


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS)
def test_no_sentence_passes_it_on(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for speak in _sentences(text):
        speak()
    out, err = capsys.readouterr()
    assert_safe_log(out)
    assert_safe_log(err)
    assert KEPT in err
    assert json.loads(out)["error"]["message"]


def test_every_field_is_planted() -> None:
    """A field that a record gains is hostile here from then on."""
    planted = hostile(runs.FAIL, "planted")
    left = {"20261121T120000Z-patch_embed-h200-beef", "NVIDIA H200", "host-17", "memcheck found"}
    assert not [word for word in left if word in repr(planted)]
