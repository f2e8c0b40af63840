"""Splits a statement into tokens as Spark 4.1 does, and removes comments.

sqlglot ends some comments elsewhere: with `-- \\` it would see another statement than Spark. So neither gets
any comments. The rules are those of SqlBaseLexer.g4, except that a doubled quote within a string ends the
string here and begins the next one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError

_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\r\n]+ )
    | (?P<comment> --(?:\\\n|[^\r\n])*\r?\n? | /\* )
    | (?P<string> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<word> [A-Za-z0-9_]+ )
    | (?P<sign> [-()\[\],.*+/%<>=!|&^~:;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*(?P<hint>\+)?|\*/")
# Types of sqlglot's tokens that stand between quotes.
_BETWEEN_QUOTES = {TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING}


class Unreadable(Exception):
    """Raised for a text that cannot be read as a statement. Says why."""


class Token(NamedTuple):
    """A token. `kind`: string, quoted (a quoted name), word or sign."""

    kind: str
    text: str
    # Where the token ends in the text without comments.
    end: int

    @property
    def name(self) -> str | None:
        """The name that the token stands for, or None if it cannot be a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words


class Tokens(NamedTuple):
    tokens: list[Token]
    # The statement without comments and final semicolons.
    text: str


def cut(sql: str) -> Tokens:
    """Splits a statement into tokens. Raises Unreadable."""
    at, tokens, parts, length = 0, list[Token](), list[str](), 0
    while at < len(sql):
        token = _TOKEN.match(sql, at)
        if token is None:
            raise Unreadable(f"there is {sql[at : at + 20]!r} outside of quotes")
        at = token.end()
        kind = str(token.lastgroup)
        if token[0] == "/*":
            at = _after_comment(sql, token.start())
        part = " " if kind == "comment" else token[0]
        length += len(part)
        parts.append(part)
        if kind not in {"blank", "comment"}:
            tokens.append(Token(kind, part, length))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    text = "".join(parts)[: tokens[-1].end if tokens else 0]
    return Tokens(tokens, text)


def _after_comment(sql: str, begin: int) -> int:
    """Returns where a comment ends. Spark's comments nest. Raises Unreadable for a hint."""
    depth = 0
    for part in _COMMENT.finditer(sql, begin):
        if part["hint"]:
            raise Unreadable("it has a hint, /*+ ... */")
        depth += -1 if part[0] == "*/" else 1
        if not depth:
            return part.end()
    raise Unreadable("it has a comment that does not end")


def require_same_quotes(text: str) -> None:
    """Raises Unreadable if sqlglot sees other strings or quoted names than Spark. `text` has no comments."""
    ours = [token.end for token in cut(text).tokens if token.kind in {"string", "quoted"}]
    try:
        tokens = tokenize(text, read="spark")
    except TokenError:
        raise Unreadable("a string or a name in it does not end") from None
    theirs = [t.end + 1 for t in tokens if t.token_type in _BETWEEN_QUOTES or text[t.end] == "`"]
    if ours != theirs:
        raise Unreadable("it is not clear where its strings end")
