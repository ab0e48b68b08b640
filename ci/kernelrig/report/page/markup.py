"""HTML that is built of elements: text becomes markup in one place, where it is escaped.

Attributes are names and values of ours, or escaped; there is no `style`, no `on...` and no address
that leads elsewhere, which the page's Content-Security-Policy refuses besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelrig.terminal.text import html_text

MOST_LETTERS = 4000
"""Of one text that is shown: the rest is in the run's files."""

_VOID = frozenset(("meta", "br"))


class Html(str):
    """Text that is markup: `tag` takes it as it is."""

    __slots__ = ()


NOTHING = Html()


def text(said: str) -> Html:
    """Return text as markup; of one that is huge the beginning, and how much more there is."""
    more = f" ... and {len(said) - MOST_LETTERS:,} letters more" * (len(said) > MOST_LETTERS)
    return Html(html_text(said[:MOST_LETTERS] + more))


def join(*children: str | Iterable[str]) -> Html:
    """Join markup; what is no markup is escaped. An iterable stands for its elements."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(text(child))
        else:
            parts.append(join(*child))
    return Html("".join(parts))


def tag(name: str, /, *children: str | Iterable[str], **attributes: str) -> Html:
    """Return an element. `class_` is the attribute class, `aria_label` is aria-label."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value
    )
    if name in _VOID and not children:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{join(*children)}</{name}>")


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    caption: str = "",
) -> Html:
    """Return a table that scrolls by itself where it is wider than the page.

    `numbers` are the columns whose cells are aligned to the right.
    """
    aligned = {i: "number" for i in numbers}
    body = [
        tag("tr", [tag("td", cell, class_=aligned.get(i, "")) for i, cell in enumerate(row)])
        for row in rows
    ]
    titles = [tag("th", h, scope="col", class_=aligned.get(i, "")) for i, h in enumerate(head)]
    made = tag(
        "table",
        tag("caption", caption) if caption else "",
        tag("thead", tag("tr", titles)),
        tag("tbody", body),
    )
    label = caption or ", ".join(h for h in head if not isinstance(h, Html))
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=label)


def share(value: float) -> Html:
    """Return a bar for a share from 0 to 1, which is read out as a percentage."""
    return tag("meter", f"{100 * value:.1f}%", min="0", max="1", value=f"{value:.4f}")
