"""Source text to a tree-sitter syntax tree, with what is wrong in it told at the author's line and column."""

import re
import time
from collections.abc import Iterator

from tree_sitter import Language, Node, Parser, Tree

from jobs.signatures.signature import Problem

_LONGEST_SOURCE = 1_000_000  # characters
_LONGEST_READING_S = 2.0  # seconds; 1,000 ordinary lines take 0.01, only sources made to be slow take more
_CHUNK = 1 << 16  # bytes

_BLANK_START = re.compile(r"\A[\s\ufeff]+")
_CLOSERS = {"(": ")", "[": "]", "{": "}", "${": "}"}


class Unreadable(Exception):
    """The source has no syntax tree that can be trusted; `problem` says why and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


DEEPEST = 12  # levels of types and of default values; what is deeper is as good as unknown


def read_tree(language: Language, code: str) -> Tree:
    """The tree of a source without syntax errors. Raises Unreadable for any other.

    Lines end in "\\n" in the tree, whatever they end in in `code`.
    """
    tree = recovered_tree(language, code)
    if tree.root_node.has_error:
        raise first_error(tree.root_node)
    return tree


def recovered_tree(language: Language, code: str) -> Tree:
    """As read_tree, but syntax errors are nodes in the tree: for languages with words that are newer than the grammar.

    Raises Unreadable for what is no text, too long, or takes too long.
    """
    if len(code) > _LONGEST_SOURCE:
        raise _unreadable(1, 1, f"The script is longer than {_LONGEST_SOURCE:,} characters.")
    # The tree begins after white space and counts its bytes: with one byte each, they are characters.
    text = _BLANK_START.sub(lambda blank: re.sub(r"[^\n]", " ", blank[0]), plain_lines(code), count=1)
    if "\x00" in text:
        raise _unreadable(*_place(text, text.index("\x00")), "The script has a NUL character here.")
    try:
        source = text.encode()
    except UnicodeEncodeError as exc:
        raise _unreadable(*_place(text, exc.start), "A character here is not valid Unicode text.") from exc
    return _parse(language, source)


def plain_lines(code: str) -> str:
    """`code` without a byte order mark, with lines that end in a line feed alone."""
    return code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def first_error(root: Node, part: Node | None = None) -> Unreadable:
    """What to raise for a tree with errors; of several, for one in `part`."""
    return unreadable_at(root, *_first_error(part or root))


def unreadable_at(root: Node, offset: int, message: str) -> Unreadable:
    """What to raise for a fault at byte `offset` of the source whose tree has this root."""
    source = root.text or b""
    before = source[: max(offset - root.start_byte, 0)].decode(errors="replace")
    first_line, first_column = root.start_point.row + 1, root.start_point.column + 1
    lines = before.count("\n")
    column = len(before) - before.rfind("\n") if lines else len(before) + first_column
    return _unreadable(first_line + lines, column, message)


def text_of(node: Node | None) -> str:
    """The source text of a node; "" for None."""
    return "" if node is None else (node.text or b"").decode(errors="replace")


def children_of(node: Node | None, *types: str) -> Iterator[Node]:
    """The children of these types."""
    return (child for child in node.named_children if child.type in types) if node else iter(())


def _parse(language: Language, source: bytes) -> Tree:
    deadline = time.monotonic() + _LONGEST_READING_S
    try:
        return Parser(language).parse(
            lambda offset, point: source[offset : offset + _CHUNK],
            progress_callback=lambda offset, has_error: time.monotonic() > deadline,
        )
    except ValueError as exc:  # how the parser says that the callback stopped it
        raise _unreadable(1, 1, "The script is too complex to be read.") from exc


def _unreadable(line: int, column: int, message: str) -> Unreadable:
    return Unreadable(Problem(line=line, column=column, message=message))


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of the character at `offset`."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def _first_error(root: Node) -> tuple[int, str]:
    """Byte offset and description of what the author should look at first."""
    open_brackets: list[Node] = []
    error: Node | None = None
    last: Node | None = None  # the last token before the error, or the last one inside it
    for node in _nodes(root):
        if error is None and (node.is_error or node.is_missing):
            error = node
        if node.child_count or node.is_missing:
            continue
        if error is None or node.start_byte < max(error.end_byte, error.start_byte + 1):
            last = node
        if node.type in _CLOSERS:
            open_brackets.append(node)
        elif node.type in _CLOSERS.values():
            if not open_brackets:
                return node.start_byte, f"'{node.type}' closes nothing."
            opener = open_brackets.pop()
            if _CLOSERS[opener.type] != node.type:
                return opener.start_byte, f"'{opener.type}' was never closed."
    if open_brackets:
        return open_brackets[-1].start_byte, f"'{open_brackets[-1].type}' was never closed."
    if error is not None and error.is_missing:
        return error.start_byte, f"'{error.type}' is missing here."
    if last is None:
        return root.start_byte, "The script cannot be read."
    token = text_of(last).split("\n")[0][:40]
    return last.start_byte, f"The script cannot be read at '{token}'."


def _nodes(root: Node) -> Iterator[Node]:
    """Every node in the order of the source, parents first; no recursion, trees can be deep."""
    cursor = root.walk()
    while True:
        if cursor.node is not None:
            yield cursor.node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
