"""What a Python script says about its dependencies in comments. The grammar of all of it is here.

    #requirements:              these packages and no others; nothing is told from imports. The list goes on to the
    #requests==2.32             first line that is no comment or says something else of these
    #requirements: ml, api      ... those of the dependency files ml and api of the workspace; `default` is the one
                                without a name
    #requirements:              alone: no packages at all, and no default dependency file
    #extra_requirements:        these too (or these versions), besides what the imports tell; with names, files as above
    import x  # pin: y==1.2     this import is brought by y==1.2; several pins of one import hold together
    import x  # repin: y==1.2   ... by this one only, whatever other pins say, those of imported scripts too
    # /// script                a block as in PEP 723: `dependencies` are like #requirements:, `requires-python` like py:
    # py: >=3.12                which Python; a bare 3.12 means any 3.12
    # py312                     the same
    # py_select_latest          the newest Python there is

Comments begin at the left margin, but for those behind an import. A space after # is free everywhere.
"""

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

_LIST = re.compile(r"#\s?(?P<extra>extra_)?requirements:\s*(?P<names>.*)$")
_PIN = re.compile(r"#\s*(?P<re>re)?pin:\s*(?P<requirement>.*)$")
_PYTHON = re.compile(r"#\s*py:\s*(?P<specifier>.*)$")
_PYTHON_SHORT = re.compile(r"#\s*py3(?P<minor>\d{1,2})\s*$")
_LATEST = re.compile(r"#\s*py_select_latest\s*$")
# Comments that say something else to the machinery; they end a list.
_OTHER = re.compile(r"#\s*(?:no_cache|no_postinstall|sandbox|skip_result_postprocessing)\s*$")
_BLOCK = re.compile(
    r"^# /// (?P<kind>[a-zA-Z0-9-]+)[ \t]*$\n(?P<text>(?:^#(?:| .*)$\n)+)^# ///[ \t]*$", re.MULTILINE
)
_BARE_VERSION = re.compile(r"\d+(?:\.\d+)*$")
# Cheap: whether there may be any of the above.
HINT = re.compile(r"#\s*(?:(?:extra_)?requirements:|(?:re)?pin:|py:|py3\d|py_select_latest|/// )")

_URL = re.compile(r"(?:git\+)?(?:https?|ssh)://[^\s/@]*@?[^\s/]+/\S*$")
_LONGEST_SPECIFIER = 100  # characters
_LONGEST_REQUIREMENT = 2000
_ALLOWED_URLS = ("https://", "http://", "git+https://", "git+http://", "git+ssh://")
_IGNORED_OPTIONS = ("-i ", "--index-url", "--extra-index-url", "--trusted-host")


class WrongRequirement(Exception):
    """What a script or a dependency file asks for cannot be read. The message is a sentence for its author."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """What brings one import, as its line says."""

    requirement: str
    overrides: bool


@dataclass(kw_only=True)
class Comments:
    """What one script says. `requirements` None: nothing; []: that it needs nothing."""

    requirements: list[str] | None = None
    files: list[str] = field(default_factory=list)  # names of dependency files, with #requirements:
    extra: list[str] = field(default_factory=list)
    extra_files: list[str] = field(default_factory=list)
    pins: dict[int, Pin] = field(default_factory=dict)  # by line, counted from 1
    python: list[str] = field(default_factory=list)  # specifiers that all hold
    latest: bool = False


def read_comments(code: str, path: str) -> Comments:
    """What `code`, the script at `path`, says in its comments. Line ends may be those of Windows.

    Raises WrongRequirement. Comments after the first piece that is no Python are not seen.
    """
    said = Comments()
    if not HINT.search(code):
        return said
    code = code.replace("\r\n", "\n")
    wanted: list[str] | None = None  # the list that the previous line began or went on with
    previous = 0
    for line, column, text in _comments(code):
        where = f"{path}, line {line}"
        if line != previous + 1 or column:
            wanted = None
        previous = line
        if pin := _PIN.match(text):
            said.pins[line] = Pin(requirement=checked(pin["requirement"], where), overrides=bool(pin["re"]))
            wanted = None
        elif column:
            continue
        elif begun := _LIST.match(text):
            wanted = _begin(said, begun, where)
        elif python := _PYTHON.match(text):
            said.python.append(_specifier(python["specifier"], where))
            wanted = None
        elif short := _PYTHON_SHORT.match(text):
            said.python.append(f"==3.{int(short['minor'])}.*")
            wanted = None
        elif _LATEST.match(text):
            said.latest = True
            wanted = None
        elif wanted is not None:
            entry = text.lstrip("#").strip()
            if entry and not _OTHER.match(text):
                wanted.append(checked(entry, where))
            else:
                wanted = None
    _read_block(said, code, path)
    return said


def python_specifier(code: str) -> str | None:
    """Which Python the comments of `code` ask for ("==3.12.*"); None: any. Raises WrongRequirement."""
    return joined(read_comments(code, "the script").python)


def joined(specifiers: Sequence[str]) -> str | None:
    """One specifier that says what all of them say; None for none."""
    together = SpecifierSet()
    for one in specifiers:
        together &= SpecifierSet(one)
    return str(together) or None


def read_file(content: str, name: str) -> list[str]:
    """The requirements of a dependency file, which is in the format of requirements.txt. Raises WrongRequirement."""
    label = f"the dependency file {name}" if name else "the default dependency file"
    return requirements_in(content, label)


def requirements_in(text: str, label: str) -> list[str]:
    """The requirements of a requirements.txt, a lock or the like, each with its hashes; `label` names it in errors.

    Options that say where packages come from are left out: that is the instance's to say. Raises WrongRequirement.
    """
    found = []
    joined = re.sub(r"\\\r?\n", " ", text)
    for number, raw in enumerate(joined.splitlines(), start=1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw).strip()
        if line and not line.startswith(_IGNORED_OPTIONS):
            entry, *hashes = re.split(r"\s+--hash[= ]", line)
            kept = checked(entry, f"{label}, line {number}")
            if any(not re.fullmatch(r"\w+:[0-9a-fA-F]+", one.strip()) for one in hashes):
                raise WrongRequirement(f"{label}, line {number}: a --hash is not of the form sha256:0a1b...")
            found.append(" ".join([kept, *(f"--hash={one.strip()}" for one in hashes)]))
    return found


def checked(entry: str, where: str) -> str:
    """`entry` when it names a package and says nothing that reaches beyond it. Raises WrongRequirement."""
    entry = re.sub(r"\s#.*$", "", entry.strip()).strip()
    shown = entry if len(entry) < 200 else entry[:200] + "..."
    if entry.startswith("-"):
        raise WrongRequirement(
            f"{where}: {shown!r} is an option of pip; only packages can be named here, for example requests==2.32.3"
        )
    if entry.startswith((".", "/", "~")) or entry.startswith("file:"):
        raise WrongRequirement(
            f"{where}: {shown!r} is a file of a computer; name a package or an https:// address"
        )
    if _URL.match(entry) and entry.startswith(_ALLOWED_URLS):
        return entry
    try:
        if len(entry) > _LONGEST_REQUIREMENT:
            raise InvalidRequirement(f"it is longer than {_LONGEST_REQUIREMENT} characters")
        requirement = Requirement(entry)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise WrongRequirement(
            f"{where}: {shown!r} is not a requirement such as requests or requests==2.32.3: {reason}"
        ) from None
    if requirement.url is not None and not requirement.url.startswith(_ALLOWED_URLS):
        raise WrongRequirement(
            f"{where}: packages come from an index or from https://, http://, git+https:// and git+ssh:// addresses, "
            f"not from {requirement.url[:200]!r}"
        )
    return entry


def _comments(code: str) -> Iterator[tuple[int, int, str]]:
    """(line from 1, column from 0, text) of each comment, to the end or the first piece that is no Python."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1], token.string
    except (tokenize.TokenError, SyntaxError):
        return


def _begin(said: Comments, begun: re.Match[str], where: str) -> list[str]:
    names = [name.strip() for name in begun["names"].split(",") if name.strip()]
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name):
            raise WrongRequirement(
                f"{where}: {name!r} is not the name of a dependency file of the workspace; packages follow in lines of "
                "their own, each after a #"
            )
    names = ["" if name == "default" else name for name in names]
    if begun["extra"]:
        said.extra_files += names
        return said.extra
    said.files += names
    if said.requirements is None:
        said.requirements = []
    return said.requirements


def _specifier(text: str, where: str) -> str:
    text = text.strip()
    if _BARE_VERSION.match(text):
        text = f"=={text}.*" if text.count(".") == 1 else f"=={text}"
    try:
        if len(text) > _LONGEST_SPECIFIER:
            raise InvalidSpecifier
        SpecifierSet(text)
    except InvalidSpecifier:
        raise WrongRequirement(
            f"{where}: {text[:100]!r} is not a version of Python such as 3.12 or >=3.11,<3.14"
        ) from None
    return text


def _read_block(said: Comments, code: str, path: str) -> None:
    """The block of PEP 723, if there is one."""
    blocks: Sequence[re.Match[str]] = [one for one in _BLOCK.finditer(code) if one["kind"] == "script"]
    if not blocks:
        return
    where = f"{path}: the block # /// script"
    if len(blocks) > 1:
        raise WrongRequirement(f"{where} is there {len(blocks)} times; one is allowed")
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in blocks[0]["text"].splitlines())
    try:
        told: Mapping[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise WrongRequirement(f"{where} is not TOML: {error}") from None
    dependencies, python = told.get("dependencies"), told.get("requires-python")
    if dependencies is not None:
        if not isinstance(dependencies, list) or not all(isinstance(one, str) for one in dependencies):
            raise WrongRequirement(f'{where}: dependencies must be a list of texts, for example ["requests"]')
        said.requirements = (said.requirements or []) + [checked(one, where) for one in dependencies]
    if python is not None:
        if not isinstance(python, str):
            raise WrongRequirement(f'{where}: requires-python must be a text, for example ">=3.11"')
        said.python.append(_specifier(python, where))
