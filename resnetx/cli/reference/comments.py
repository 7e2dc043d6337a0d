"""What the comments beside the fields of a struct say: on the field's own line, and on the lines directly above it."""

import ast
import inspect
import io
import textwrap
import tokenize


def field_comments(kind: type) -> dict[str, str]:
    """The comment of each field that has one, in one line; fields of base classes included."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "resnetx":
            comments |= _own(base)
    return comments


def _own(kind: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(kind))
    beside, alone = _by_line(source)
    (class_,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    comments = {}
    for node in class_.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = [*_above(alone, node.lineno), beside.get(node.end_lineno or node.lineno, "")]
            if text := " ".join(filter(None, words)):
                comments[node.target.id] = text
    return comments


def _by_line(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Comments by line: those behind code, and those on lines of their own."""
    beside: dict[int, str] = {}
    alone: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            where = beside if token.line[: token.start[1]].strip() else alone
            where[token.start[0]] = token.string.lstrip("#").strip()
    return beside, alone


def _above(alone: dict[int, str], line: int) -> list[str]:
    """The comment lines directly above a line."""
    first = line
    while first - 1 in alone:
        first -= 1
    return [alone[number] for number in range(first, line)]
