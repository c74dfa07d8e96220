"""JSON -> FlowValue. Total: whatever the JSON is, the answer is a FlowValue or a BadFlow that names each problem's place.

Unknown fields are passed over (they stay in the stored JSON); null means absent.
"""

import re
from collections.abc import Callable
from typing import Any

from jobs import scripts
from jobs.flows.value import ids, options
from jobs.flows.value.fields import MAX_PATH, BadFlow, Reader, shown
from jobs.flows.value.model import (
    AgentTool,
    AiAgent,
    Branch,
    BranchAll,
    BranchOne,
    FlowModule,
    FlowValue,
    ForLoop,
    Identity,
    ModuleValue,
    RawScript,
    ScriptRef,
    Static,
    SubFlow,
    WhileLoop,
)
from jobs.models import ALL_LANGUAGES
from workspaces.errors import BadRequest

MAX_TOOLS = 1_000
_LANGUAGES = frozenset(ALL_LANGUAGES)
_TOOL_TYPES = ("flowmodule", "mcp", "websearch")
_PATH = re.compile(r"[ufg]/[^/]+/.|hub/.")
_SPECIAL_TYPES = ("rawscript", "script", "flow")  # what the failure module and the preprocessor may be


def parse_flow_value(value: Any) -> FlowValue:
    """The flow of a JSON value (see model.FlowValue). Missing ids are filled as `fill_ids` does.

    Raises BadFlow with all problems (up to 50) when it is no flow or cannot run.
    """
    parser = _Parser(value)
    flow = parser.flow(value)
    if parser.lacking_ids:
        filled = ids.fill_ids(value)
        parser = _Parser(filled)
        flow = parser.flow(filled)
        for place in parser.lacking_ids:
            parser.problem(f"{place}.id", "is missing, and other modules read results by ids; give it an id")
    if parser.problems or flow is None:
        raise BadFlow(parser.problems)
    return flow


class _Parser(Reader):
    """One walk over a flow's JSON."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.count = 0
        self.places: dict[str, str] = {}  # of ids
        self.lacking_ids: list[str] = []
        self.same_worker = isinstance(value, dict) and value.get("same_worker") is True

    def flow(self, value: Any) -> FlowValue | None:
        if not isinstance(value, dict):
            self.problem(
                "", f"the value of the flow is {shown(value)}; expected an object with a list of modules"
            )
            return None
        preprocessor = self.special_module(value, "preprocessor_module", "preprocessor")
        modules = self.modules(value, "modules", "modules", 1)
        return FlowValue(
            modules=modules,
            failure_module=self.special_module(value, "failure_module", "failure"),
            preprocessor_module=preprocessor,
            **options.read_present(self, options.FLOW_OPTIONS, value, ""),
        )

    # --- modules ---

    def modules(self, fields: dict[str, Any], key: str, place: str, depth: int) -> tuple[FlowModule, ...]:
        """The list at `key`, which stands at `place`; `depth`: levels of modules, this one included."""
        value = fields.get(key)
        if not isinstance(value, list):
            if value is None:
                self.problem(place, "is missing; expected a list of modules")
            else:
                self.wrong(place, value, "a list of modules")
            return ()
        if not value:
            return ()
        if depth > ids.MAX_DEPTH:
            self.problem(place, f"modules are nested more than {ids.MAX_DEPTH} levels deep")
            return ()
        self.count += len(value)
        if self.count > ids.MAX_MODULES:
            self.problem(place, f"the flow has more than {ids.MAX_MODULES} modules")
            raise BadFlow(self.problems)
        return tuple(
            [
                self.module(module, f"{place}[{number}]", depth)
                if isinstance(module, dict)
                else self.no_module(module, place, number)
                for number, module in enumerate(value)
            ]
        )

    def no_module(self, value: Any, place: str, number: int) -> FlowModule:
        self.wrong(f"{place}[{number}]", value, "a module")
        return FlowModule("", Identity())

    def special_module(self, fields: dict[str, Any], key: str, id: str) -> FlowModule | None:
        """The failure module or the preprocessor: its id is fixed, and it is one script or flow."""
        value = fields.get(key)
        if value is None or (module := self.object(value, key)) is None:
            return None
        given = module.get("id")
        if given is not None and given != "" and given != id:
            self.wrong(f"{key}.id", given, id)
        return self.module(module, key, 1, id)

    def module(
        self, fields: dict[str, Any], place: str, depth: int, fixed_id: str | None = None
    ) -> FlowModule:
        get = fields.get
        id = fixed_id or self.id(get("id"), place)
        value = get("value")
        if value is None:
            self.problem(f"{place}.value", "is missing; expected what the module does, an object with a type")
            what: ModuleValue = Identity()
        else:
            what = self.module_value(value, f"{place}.value", depth, _SPECIAL_TYPES if fixed_id else None)
        return FlowModule(id, what, **options.read_present(self, options.MODULE_OPTIONS, fields, place))

    def id(self, value: Any, place: str) -> str:
        """The module's id, or "" when it is missing or wrong."""
        if value is None or value == "":
            self.lacking_ids.append(place)
            return ""
        if not isinstance(value, str):
            self.wrong(f"{place}.id", value, "a text such as a")
            return ""
        if value in self.places:
            self.problem(
                f"{place}.id",
                f"{shown(value)} is the id of {self.places[value]} already; ids are unique in the flow",
            )
        elif (reason := ids.wrong_id(value)) is not None:
            self.problem(f"{place}.id", reason)
        self.places.setdefault(value, place)
        return value

    # --- what modules do ---

    def module_value(
        self, value: Any, place: str, depth: int, allowed: tuple[str, ...] | None = None
    ) -> ModuleValue:
        if not isinstance(value, dict):
            self.wrong(place, value, "an object with a type")
            return Identity()
        type = value.get("type")
        read = _READERS.get(type) if isinstance(type, str) else None
        if read is None or (allowed is not None and type not in allowed):
            expected = ", ".join(allowed or _READERS)
            if type is None:
                self.problem(f"{place}.type", f"is missing; expected one of {expected}")
            else:
                self.wrong(f"{place}.type", type, f"one of {expected}")
            return Identity()
        return read(self, value, place, depth)

    def rawscript(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        language = fields.get("language")
        if language is None:
            self.problem(f"{place}.language", "is missing; expected a language such as python3")
        elif not isinstance(language, str) or language not in _LANGUAGES:
            self.wrong(f"{place}.language", language, f"one of {', '.join(ALL_LANGUAGES)}")
        return RawScript(
            content=self.required_text(fields, "content", place, scripts.MAX_CONTENT, "the code"),
            language=language if isinstance(language, str) else "",
            input_transforms=self.transforms(fields, place),
            **options.read_present(self, options.RAWSCRIPT_OPTIONS, fields, place),
        )

    def script(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        get = fields.get
        return ScriptRef(
            path=self.path(fields, place, "a script"),
            hash=None if get("hash") is None else self.hash(get("hash"), f"{place}.hash"),
            input_transforms=self.transforms(fields, place),
            tag_override=None
            if get("tag_override") is None
            else self.text(fields, "tag_override", place, scripts.MAX_TAG) or None,
        )

    def hash(self, value: Any, place: str) -> int | None:
        """A version by its 16 hex digits, or by the number that they stand for."""
        if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
            return value
        if not isinstance(value, str):
            self.wrong(place, value, "16 hex digits")
            return None
        if not value:
            return None
        try:
            return scripts.parse_hash(value)
        except BadRequest:
            self.wrong(place, value, "16 hex digits")
            return None

    def subflow(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        return SubFlow(self.path(fields, place, "a flow"), self.transforms(fields, place))

    def path(self, fields: dict[str, Any], place: str, what: str) -> str:
        path = self.required_text(fields, "path", place, MAX_PATH, f"the path of {what}")
        if fields.get("path") == "":
            self.problem(f"{place}.path", f"is empty; expected the path of {what}")
        elif path and not _PATH.match(path):
            self.wrong(f"{place}.path", path, f"the path of {what}, such as f/folder/name or u/name/name")
        return path

    def forloop(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        iterator = fields.get("iterator")
        if iterator is None:
            self.problem(f"{place}.iterator", "is missing; expected an input transform that gives a list")
            transform = None
        else:
            transform = self.computed(iterator, f"{place}.iterator")
        if isinstance(transform, Static) and not isinstance(transform.value, list):
            self.wrong(f"{place}.iterator.value", transform.value, "a list")
        return ForLoop(
            modules=self.modules(fields, "modules", f"{place}.modules", depth + 1),
            iterator=transform or Static([]),
            skip_failures=self.flag(fields, "skip_failures", place),
            parallel=self.parallel(fields, place),
            parallelism=self.number_transform(
                fields, "parallelism", place, low=1, what="a number of iterations, 1 or more"
            ),
        )

    def parallel(self, fields: dict[str, Any], place: str, default: bool = False) -> bool:
        """Whether things run at once; without a word on it, not on a single worker."""
        parallel = self.flag(fields, "parallel", place, default and not self.same_worker)
        if parallel and self.same_worker:
            self.problem(
                f"{place}.parallel",
                "is true, but same_worker keeps all steps on one worker, one after another; turn one of the two off",
            )
        return parallel

    def whileloop(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        return WhileLoop(
            modules=self.modules(fields, "modules", f"{place}.modules", depth + 1),
            skip_failures=self.flag(fields, "skip_failures", place),
        )

    def branchone(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        branches = self.branches(fields, place, depth, with_expr=True)
        default = (
            ()
            if fields.get("default") is None
            else self.modules(fields, "default", f"{place}.default", depth + 1)
        )
        return BranchOne(branches, default)

    def branchall(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        return BranchAll(
            self.branches(fields, place, depth, with_expr=False), self.parallel(fields, place, default=True)
        )

    def branches(
        self, fields: dict[str, Any], place: str, depth: int, *, with_expr: bool
    ) -> tuple[Branch, ...]:
        place = f"{place}.branches"
        value = fields.get("branches")
        if value is None:
            self.problem(place, "is missing; expected a list of branches")
            return ()
        if not isinstance(value, list):
            self.wrong(place, value, "a list of branches")
            return ()
        self.count += len(value)
        if self.count > ids.MAX_MODULES:
            self.problem(place, f"the flow has more than {ids.MAX_MODULES} modules and branches")
            raise BadFlow(self.problems)
        read = []
        for number, branch in enumerate(value):
            where = f"{place}[{number}]"
            if not isinstance(branch, dict):
                self.wrong(where, branch, "a branch, an object with modules")
                continue
            read.append(
                Branch(
                    summary=self.text(branch, "summary", where, options.MAX_EXPR),
                    expr=self.required_text(branch, "expr", where, options.MAX_EXPR, "a JavaScript condition")
                    if with_expr
                    else None,
                    modules=self.modules(branch, "modules", f"{where}.modules", depth + 1),
                    skip_failure=self.flag(branch, "skip_failure", where),
                    parallel=self.flag(branch, "parallel", where),
                )
            )
        return tuple(read)

    def identity(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        return Identity()

    # --- AI agents ---

    def aiagent(self, fields: dict[str, Any], place: str, depth: int) -> ModuleValue:
        tools = fields.get("tools")
        if tools is None:
            tools = []
        if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
            self.wrong(f"{place}.tools", tools, f"a list of at most {MAX_TOOLS} tools")
            tools = []
        self.count += len(tools)
        return AiAgent(
            input_transforms=self.transforms(fields, place),
            tools=tuple(
                tool
                for number, item in enumerate(tools)
                if (tool := self.tool(item, f"{place}.tools[{number}]", depth + 1)) is not None
            ),
            parallel=self.flag(fields, "parallel", place),
        )

    def tool(self, value: Any, place: str, depth: int) -> AgentTool | None:
        fields = self.object(value, place)
        if fields is None or (what := self.object(fields.get("value"), f"{place}.value")) is None:
            return None
        tool_type = what.get("tool_type", "flowmodule")  # tools were modules once
        if tool_type not in _TOOL_TYPES:
            self.wrong(f"{place}.value.tool_type", tool_type, f"one of {', '.join(_TOOL_TYPES)}")
            return None
        is_module = tool_type == "flowmodule"
        if depth > ids.MAX_DEPTH:
            self.problem(place, f"modules are nested more than {ids.MAX_DEPTH} levels deep")
            return None
        return AgentTool(
            id=self.id(fields.get("id"), place),
            summary=self.text(fields, "summary", place, options.MAX_EXPR),
            description=self.text(fields, "description", place, options.MAX_EXPR),
            tool_type=tool_type,
            value=self.module_value(what, f"{place}.value", depth) if is_module else None,
            settings={} if is_module else what,
        )


_READERS: dict[str, Callable[[_Parser, dict[str, Any], str, int], ModuleValue]] = {
    "rawscript": _Parser.rawscript,
    "script": _Parser.script,
    "flow": _Parser.subflow,
    "forloopflow": _Parser.forloop,
    "whileloopflow": _Parser.whileloop,
    "branchone": _Parser.branchone,
    "branchall": _Parser.branchall,
    "identity": _Parser.identity,
    "aiagent": _Parser.aiagent,
}
