"""What TypeScript and JavaScript code imports: packages with their versions, other scripts; and its header comments."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_typescript
from tree_sitter import Language, Node

from jobs.signatures.syntax_trees import Unreadable, plain_lines, recovered_tree

_LANGUAGE = Language(tree_sitter_typescript.language_typescript())
# Almost every script without imports is told from its text alone.
_HINT = re.compile(r"""\b(?:from|import|export)\s*["']|\b(?:import|require)\s*\(|\bimport\b[^\n]*=""")
_MOST_REMEMBERED = 50_000  # characters of code whose imports are kept

_NAME = r"(?:@[\w.~-]+/)?[\w.~-]+"
_PACKAGE = re.compile(
    rf"(?:(?P<registry>npm|jsr):/?)?(?P<name>{_NAME})(?:@(?P<version>[^/\s]+))?(?P<subpath>(?:/[^\s]*)?)"
)
_BUILTINS = frozenset(
    (
        *(
            "assert",
            "async_hooks",
            "buffer",
            "bun",
            "child_process",
            "cluster",
            "console",
            "constants",
            "crypto",
        ),
        *(
            "dgram",
            "diagnostics_channel",
            "dns",
            "domain",
            "events",
            "fs",
            "http",
            "http2",
            "https",
            "inspector",
        ),
        *(
            "module",
            "net",
            "os",
            "path",
            "perf_hooks",
            "process",
            "punycode",
            "querystring",
            "readline",
            "repl",
        ),
        *(
            "stream",
            "string_decoder",
            "sys",
            "timers",
            "tls",
            "trace_events",
            "tty",
            "undici",
            "url",
            "util",
            "v8",
        ),
        *("vm", "wasi", "worker_threads", "ws", "zlib"),
    )
)
_HEADER = re.compile(r"\A(?:[ \t]*(?://[^\n]*)?\n)*")
_ANNOTATION = re.compile(r"^[ \t]*//[ \t]*(\w+)(?::[ \t]*(\S*))?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Specifier:
    """The text between the quotes of an import, and where it stands in plain_lines(code), in bytes of UTF-8."""

    text: str
    start: int
    end: int
    is_type_only: bool  # erased before the code runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that code imports."""

    registry: str  # "npm" or "jsr"
    name: str  # "lodash", "@scope/name"
    version: str | None = None  # "1.2.3", "^4", a tag; None: whichever
    subpath: str = ""  # "/fp"


def specifiers(code: str) -> Sequence[Specifier]:
    """All that `code` imports, requires or re-exports under a literal name, in the order of the code. Never raises."""
    if not _HINT.search(code):
        return ()
    return (_remembered if len(code) <= _MOST_REMEMBERED else _specifiers)(code)


def package(specifier: str) -> Package | None:
    """The package that an import names; None for files, addresses and what the runtime itself provides.

    >>> package("@scope/tool@1.2/sub/part")
    Package(registry='npm', name='@scope/tool', version='1.2', subpath='/sub/part')
    >>> package("node:fs"), package("./lib"), package("https://example.org/x.ts")
    (None, None, None)
    """
    match = _PACKAGE.fullmatch(specifier)
    if match is None or specifier.startswith((".", "/", "f/", "u/")):
        return None
    if match["registry"] is None and match["version"] is None and match["name"] in _BUILTINS:
        return None
    return Package(
        registry=match["registry"] or "npm",
        name=match["name"],
        version=match["version"],
        subpath=match["subpath"],
    )


def packages(codes: Iterable[str]) -> Iterator[Package]:
    """The packages that are needed to run the code: those that only its types name are not."""
    for code in codes:
        for specifier in specifiers(code):
            found = None if specifier.is_type_only else package(specifier.text)
            if found is not None:
                yield found


def without_versions(code: str) -> str:
    """`code` with the names of npm packages as package.json knows them: no versions, no "npm:".

    All else stays at its line and column: blanks behind the quotes make up for what is left out. Lines end in "\\n".
    """
    text = plain_lines(code)
    found = specifiers(code)
    if not found:
        return text
    source = text.encode()
    pieces: list[bytes] = []
    done = 0
    for one in found:
        named = package(one.text)
        if named is None or named.registry != "npm":
            continue
        plain = (named.name + named.subpath).encode()
        quote = source[one.end : one.end + 1]
        pieces += [source[done : one.start], plain, quote, b" " * (one.end - one.start - len(plain))]
        done = one.end + 1
    return b"".join([*pieces, source[done:]]).decode()


def header_comments(code: str) -> dict[str, str]:
    """What comments above the code say about running it: {"nodejs": "", "package_json": "web"}, by name."""
    header = _HEADER.match(plain_lines(code))
    return dict(_ANNOTATION.findall(header[0] if header else ""))


def _specifiers(code: str) -> Sequence[Specifier]:
    try:
        tree = recovered_tree(_LANGUAGE, code)
    except Unreadable:
        return ()
    return tuple(_found(tree.root_node))


_remembered = lru_cache(maxsize=512)(_specifiers)


def _found(root: Node) -> Iterator[Specifier]:
    pending = [root]
    while pending:
        node = pending.pop()
        literal, is_type_only = None, False
        if node.type in ("import_statement", "export_statement", "import_require_clause"):
            literal = node.child_by_field_name("source")
            is_type_only = any(child.type == "type" for child in node.children)
        elif node.type == "call_expression":
            literal = _loaded(node)
        if literal is not None and literal.type in ("string", "template_string"):
            parts = literal.named_children
            if len(parts) == 1 and parts[0].type == "string_fragment":
                text = (parts[0].text or b"").decode(errors="replace")
                yield Specifier(text, parts[0].start_byte, parts[0].end_byte, is_type_only)
        pending += reversed(node.named_children)


def _loaded(call: Node) -> Node | None:
    """What import(...) or require(...) loads; None for another call."""
    function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or arguments is None or not arguments.named_children:
        return None
    is_loading = function.type == "import" or (function.type == "identifier" and function.text == b"require")
    return arguments.named_children[0] if is_loading else None
