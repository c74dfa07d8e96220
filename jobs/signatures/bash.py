"""The signature of a Bash script: the variables it sets from its positional parameters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.signatures.signature import TEXT, Argument, Signature, is_storable

_MOST_POSITIONS = 1000  # "${999999999}" is a slip of the keyboard, not a call for a billion arguments

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
# $1, ${12}, ${2:-default}, ${2-default}, ${3:=default}, ${4:?message}
_POSITIONAL = re.compile(r"\$(?:([1-9])|\{0*([1-9][0-9]{0,8})(?:(:?[-=?])(.*))?\})", re.S)
_DECLARING = frozenset({"local", "export", "declare", "typeset", "readonly"})
# Words after which a command begins, as at the start of a line.
_COMMAND_FOLLOWS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "time"})
_ALL_ARGUMENTS = frozenset({'"$@"', "$@", '"${@}"', "$*", '"$*"'})
_SEPARATORS = ";&|()\n"


@dataclass(frozen=True, slots=True)
class _Parameter:
    position: int  # 1 for $1
    name: str
    default: str | None  # None: none, or one that only Bash can compute
    has_default: bool


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The arguments in the order of their positions; never raises. Bash has no entrypoint function."""
    return Signature(
        args=tuple(
            Argument(
                name=parameter.name,
                typ=TEXT,
                default=parameter.default,
                has_default=parameter.has_default,
                has_code_default=parameter.has_default,
            )
            for parameter in _parameters(code)
        )
    )


def positional_order(code: str) -> list[tuple[str, str | None]]:
    """(name, default) for $1, $2, … up to the last one used; the way to call the script.

    A position the script never names has the name "": pass an empty text there to keep the others in place.
    A default of None means there is none to pass: pass an empty text and Bash computes its own, if any.
    """
    parameters = {parameter.position: parameter for parameter in _parameters(code)}
    unnamed = _Parameter(position=0, name="", default=None, has_default=False)
    ordered = (parameters.get(position, unnamed) for position in range(1, max(parameters, default=0) + 1))
    return [(parameter.name, parameter.default) for parameter in ordered]


def _parameters(code: str) -> list[_Parameter]:
    """Ordered by position. The last assignment names a position; a name used twice keeps the first."""
    by_position: dict[int, _Parameter] = {}
    for parameter in _assignments(code):
        by_position[parameter.position] = parameter
    by_name: dict[str, _Parameter] = {}
    for position in sorted(by_position):
        by_name.setdefault(by_position[position].name, by_position[position])
    return list(by_name.values())


def _assignments(code: str) -> Iterator[_Parameter]:
    """Every assignment from a parameter of the script itself.

    Inside a function $1 is the function's own parameter, so those count only for a function
    that the script calls with all its arguments: `main "$@"`.
    """
    found: list[tuple[str | None, _Parameter]] = []
    forwarded_to: set[str] = set()
    blocks: list[str | None] = []  # open braces; the name when the brace opens a function
    announced: str | None = None  # a function whose body comes next
    for words in _commands(code):
        if len(words) >= 2 and words[0] == "function":
            announced, words = words[1], words[3:] if words[2:3] == ["()"] else words[2:]
        elif len(words) >= 2 and words[1] == "()":
            announced, words = words[0], words[2:]
        while words and (words[0] == "{" or words[0] in _COMMAND_FOLLOWS):
            if words[0] == "{":
                blocks.append(announced)
                announced = None
            words = words[1:]
        if not words:
            continue
        if words[0] == "}":
            if blocks:
                blocks.pop()
            continue
        announced = None
        function = next((name for name in reversed(blocks) if name is not None), None)
        if function is None and not _ALL_ARGUMENTS.isdisjoint(words[1:]):
            forwarded_to.add(words[0])
        found += [(function, parameter) for parameter in _assigned(words)]
    return (parameter for function, parameter in found if function is None or function in forwarded_to)


def _assigned(words: list[str]) -> Iterator[_Parameter]:
    is_declaring = words[0] in _DECLARING
    for word in words[1:] if is_declaring else words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            if is_declaring:  # an option, or a name without a value
                continue
            return  # the command's own words begin
        parameter = _parameter(match[1], match[2])
        if parameter is not None:
            yield parameter


def _parameter(name: str, value: str) -> _Parameter | None:
    is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    value = value[1:-1] if is_quoted else value
    match = _POSITIONAL.fullmatch(value)
    if match is None or (match[3] and _closing_brace(value, 2) != len(value) - 1):
        return None
    position = int(match[1] or match[2])
    if position > _MOST_POSITIONS:
        return None
    has_default = bool(match[3]) and not match[3].endswith("?")
    default = _plain_text(match[4], is_quoted=is_quoted) if has_default else None
    return _Parameter(position=position, name=name, default=default, has_default=has_default)


def _plain_text(default: str, *, is_quoted: bool) -> str | None:
    """What Bash makes of a default value; None when it has to be computed or cannot be stored."""
    text: list[str] = []
    quote = ""
    i = 0
    while i < len(default):
        char = default[i]
        if char == quote:
            quote = ""
        elif quote == "'":
            text.append(char)
        elif char in "$`":
            return None
        elif char == "\\" and i + 1 < len(default):
            i += 1
            inside_quotes = is_quoted or quote
            text.append(default[i] if not inside_quotes or default[i] in '$`"\\}' else f"\\{default[i]}")
        elif char == '"' or (char == "'" and not is_quoted and not quote):
            quote = char
        else:
            text.append(char)
        i += 1
    joined = "".join(text)
    return joined if is_storable(joined) else None


def _commands(code: str) -> Iterator[list[str]]:
    """The simple commands of a script as raw words: quotes kept, comments and here-documents left out.

    Not a full parser: enough to know where a command begins and where a word ends. What it cannot
    follow (an open quote) is read as plain text. Time is linear in the length of `code`.
    """
    reader = _Reader(code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    words: list[str] = []
    while (word := reader.next_word()) is not None:
        if word == "()":
            words.append(word)
        elif word in _SEPARATORS:
            if words:
                yield words
            words = []
        elif word in ("{", "}") and not words:
            yield [word]
        else:
            words.append(word)
            if word == "{" and (words[-2:-1] == ["()"] or words[0] == "function"):
                yield words
                words = []
    if words:
        yield words


class _Reader:
    """Cuts a script into words and separators."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._at = 0
        self._unclosed: set[str] = set()  # openers known to have no end: do not look for it again
        self._heredocs: list[str] = []  # delimiters whose bodies start on the next line
        self._last_line: dict[str, int] = {}  # line without its indent -> where it last begins
        if "<<" in code:
            start = 0
            for line in code.split("\n"):
                self._last_line[line.lstrip("\t")] = start
                start += len(line) + 1

    def next_word(self) -> str | None:
        """A word, a separator, "()" after a function's name, or None at the end."""
        code = self._code
        while self._at < len(code):
            char = code[self._at]
            if char in " \t":
                self._at += 1
            elif code.startswith("\\\n", self._at):
                self._at += 2
            elif char == "#":
                end = code.find("\n", self._at)
                self._at = len(code) if end < 0 else end
            elif char == "\n":
                self._at += 1
                self._skip_heredocs()
                return "\n"
            elif code.startswith("()", self._at):
                self._at += 2
                return "()"
            elif char in _SEPARATORS:
                self._at += 1
                return char
            else:
                return self._read_word()
        return None

    def _read_word(self) -> str:
        code, start = self._code, self._at
        i = start
        while i < len(code) and code[i] not in " \t" and code[i] not in _SEPARATORS:
            if code[i] == "\\":
                i += 2
            elif code[i] in "'\"" or code.startswith("$'", i):
                i = self._end_of_quote(i)
            elif code.startswith("${", i):
                i = self._end_of_expansion(i)
            elif code.startswith("<<", i):
                i = self._open_heredoc(i)
            else:
                i += 1
        self._at = min(i, len(code))
        return code[start : self._at]

    def _end_of_quote(self, i: int) -> int:
        code = self._code
        quote = "$'" if code[i] == "$" else code[i]  # 'text', "text $x" or $'text\n'
        if quote in self._unclosed:
            return i + len(quote)
        end = i + len(quote)
        while end < len(code) and code[end] != quote[-1]:
            if code[end] == "\\" and quote != "'":
                end += 2
            elif quote == '"' and code.startswith("${", end):
                end = self._end_of_expansion(end)
            else:
                end += 1
        if end >= len(code):
            self._unclosed.add(quote)
            return i + len(quote)
        return end + 1

    def _end_of_expansion(self, i: int) -> int:
        if "${" in self._unclosed:
            return i + 2
        end = _closing_brace(self._code, i + 2)
        if end < 0:
            self._unclosed.add("${")
            return i + 2
        return end + 1

    def _open_heredoc(self, i: int) -> int:
        if self._code.startswith("<<<", i):
            return i + 3
        match = re.compile(r"<<-?[ \t]*(['\"]?)([^\s'\";&|()<>]+)\1").match(self._code, i)
        if match is None:
            return i + 2
        self._heredocs.append(match[2].replace("\\", ""))
        return match.end()

    def _skip_heredocs(self) -> None:
        for delimiter in self._heredocs:
            # `1 << n` looks the same: without its closing line it is no here-document.
            if self._last_line.get(delimiter, -1) < self._at:
                continue
            while True:
                end = self._code.find("\n", self._at)
                line = self._code[self._at : end if end >= 0 else None]
                self._at = end + 1 if end >= 0 else len(self._code)
                if line.lstrip("\t") == delimiter:
                    break
        self._heredocs.clear()


def _closing_brace(text: str, i: int) -> int:
    """Where the "}" is that ends an expansion whose inside starts at `i`; -1 when it does not end."""
    depth, quote = 1, ""
    while i < len(text):
        char = text[i]
        if char == "\\" and quote != "'":
            i += 1
        elif char == quote:
            quote = ""
        elif quote != "'" and text.startswith("${", i):
            depth += 1
            i += 1
        elif not quote and char in "'\"":
            quote = char
        elif char == "}" and not quote:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return -1
