"""How a task is typed, in sentences that name the task alone."""

from __future__ import annotations

from kernelrig.terminal.command_name import COMMAND, as_typed


def test_a_task_is_shown_as_it_is_typed_here() -> None:
    assert COMMAND == "ci/invoke"
    said = "no runs yet; `invoke remote-test` makes one"
    assert as_typed(said) == "no runs yet; `ci/invoke remote-test` makes one"
    assert (
        as_typed(f"`{COMMAND} runs`, `invoke`, invoke it")
        == "`ci/invoke runs`, `invoke`, invoke it"
    )
