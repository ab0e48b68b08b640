"""PTX text to tokens, each with its place.

A mnemonic is one token with its qualifiers (`mbarrier.try_wait.parity.shared::cta.b64`), and so is
a register with its part (`%tid.x`): a word may have dotted parts, a directive starts with the dot.
A whole `.loc` is one, too: of compiled text they are a third.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from kernelrig.errors import ConfigError

WORD, NUMBER, LOC, DOTTED, STRING, SIGN, END, BAD = range(1, 9)

_TOKEN = re.compile(
    r"""(?>\n[ \t]*\#[^\n]* | \s+ | //[^\n]* | /\*.*?\*/)*+ (?:
    ((?:[A-Za-z_][\w$]* | [$%][\w$]+) (?:\.[\w$]+ (?:::\w+)*)*)
  | ( 0[xX][0-9A-Fa-f]+U? | 0[bB][01]+U? | 0[fF][0-9A-Fa-f]{8} | 0[dD][0-9A-Fa-f]{16}
    | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \.\d+(?:[eE][+-]?\d+)?(?![\w$.:]) | \d+U? )
  | (\.loc \s+\d+\s+\d+\s+\d+ \b (?:\s*,\s*function_name\s+[\w$.]+(?:\s*\+\s*\d+)?)?
      (?:\s*,\s*inlined_at\s+\d+\s+\d+\s+\d+\b)?)
  | (\.[\w$]+ (?:::\w+)*)
  | ("(?:[^"\\\n]|\\.)*")
  | (<<|>>|<=|>=|==|!=|&&|\|\||@@|[{}()\[\],;:+\-*%&|^!~?<>=@]|/(?!\*))
  | (\Z)
  | (.) )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_SHOWN = 40
_BEHIND_END = 4  # so that a look ahead, or a step over a form that is cut, stays in the list


class Tokens:
    """The tokens of a text and the place of the reader in them."""

    __slots__ = ("_lines", "_matches", "at", "kinds", "name", "texts")

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.at = 0
        self._lines = [m.start() for m in re.finditer("\n", text)]
        self._matches = list(_TOKEN.finditer(text))
        self._matches += self._matches[-1:] * _BEHIND_END
        self.kinds = [m.lastindex or BAD for m in self._matches]
        self.texts = [m[m.lastindex or BAD] for m in self._matches]
        if BAD in self.kinds:
            self.at = self.kinds.index(BAD)
            raise self._strange(text)

    def _strange(self, text: str) -> ConfigError:
        if text.startswith("/*", self._start(self.at)):
            return self.error("the comment is not closed")
        if self.text == '"':
            return self.error("the string is not closed on its line")
        return self.error(f"{self.text!r} is not a token of PTX")

    def _start(self, at: int) -> int:
        return self._matches[at].start(self.kinds[at])

    @property
    def kind(self) -> int:
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        return self.texts[self.at]

    def line(self, at: int | None = None) -> int:
        return bisect_right(self._lines, self._start(self.at if at is None else at)) + 1

    def error(self, sentence: str, at: int | None = None) -> ConfigError:
        return ConfigError(f"{self.name}:{self.line(at)}: {sentence}")

    def wanted(self, what: str) -> ConfigError:
        """Return the error that something else stands here than what must."""
        if self.kind == END:
            return self.error(f"expected {what}, but the file ends")
        return self.error(f"expected {what}, not '{self.text[:_SHOWN]}'")

    def take(self, text: str) -> bool:
        """Step over the token if it is this one."""
        if self.texts[self.at] != text or self.kinds[self.at] == STRING:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.wanted(f"'{text}'")

    def word(self, what: str) -> str:
        """Step over a name, one without dotted parts."""
        text = self.texts[self.at]
        if self.kinds[self.at] != WORD or "." in text:
            raise self.wanted(what)
        self.at += 1
        return text

    def string(self) -> str:
        """Step over a string; return what is between the quotes."""
        if self.kind != STRING:
            raise self.wanted("a string")
        self.at += 1
        return self.texts[self.at - 1][1:-1]
