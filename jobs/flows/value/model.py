"""What a flow says, as values: modules, their options, and where each module stands.

Everything here is immutable and was checked by `parsing`; the JSON itself stays as its author wrote it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from workspaces.errors import NotFound

# A list of modules inside a module: "<module id>" for a loop's body, "<module id>/<branch index>" or
# "<module id>/default" for branches.
BodyRef = str
BranchIndex = int | Literal["default"] | None


class UnknownModule(NotFound, LookupError):
    """The flow has no module, or no body, of this name."""

    code = "unknown_module"


# --- input transforms ---


@dataclass(frozen=True, slots=True)
class Static:
    """A JSON value as it stands ($var:/$res: texts in it are replaced on the worker that runs the step)."""

    value: Any


@dataclass(frozen=True, slots=True)
class Javascript:
    """An expression; a blank one stands for null."""

    expr: str


@dataclass(frozen=True, slots=True)
class AiFilled:
    """An argument that the model behind an AI agent fills in when it calls the tool."""


Transform = Static | Javascript | AiFilled


# --- options of a module ---


@dataclass(frozen=True, slots=True)
class Constant:
    attempts: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Exponential:
    attempts: int
    multiplier: int
    seconds: int
    random_factor: int = 0  # percent, 0..100


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed step runs again (see jobs.flows.retries). At least one of constant and exponential is there."""

    constant: Constant | None = None
    exponential: Exponential | None = None
    retry_if: str | None = None


@dataclass(frozen=True, slots=True)
class StopAfterIf:
    expr: str
    skip_if_stopped: bool = False
    error_message: str | None = None  # not None: stopping is an error ("" has a default text)
    error_include_result: bool = False


@dataclass(frozen=True, slots=True)
class Suspend:
    """Approvals that must come before the next step starts."""

    required_events: int = 1  # at least 1
    timeout_s: int = 1800
    resume_form: Mapping[str, Any] | None = None  # {"schema": JSON Schema}
    user_auth_required: bool = False
    user_groups_required: Transform | None = None  # gives a list of group names
    self_approval_disabled: bool = False
    hide_cancel: bool = False
    continue_on_disapprove_timeout: bool = False


@dataclass(frozen=True, slots=True)
class Mock:
    """The step does not run: this is its result."""

    return_value: Any = None


# --- what a module does ---


@dataclass(frozen=True, slots=True)
class RawScript:
    type: ClassVar[str] = "rawscript"
    content: str
    language: str
    input_transforms: Mapping[str, Transform] = field(default_factory=dict)
    lock: str | None = None
    path: str | None = None
    tag: str | None = None
    concurrent_limit: int | None = None
    concurrency_time_window_s: int | None = None
    concurrency_key: str | None = None  # `custom_concurrency_key` in the JSON
    envs: tuple[str, ...] = ()  # NAME=value


@dataclass(frozen=True, slots=True)
class ScriptRef:
    type: ClassVar[str] = "script"
    path: str
    hash: int | None = None  # a pinned version; None: the one deployed at the path when the step starts
    input_transforms: Mapping[str, Transform] = field(default_factory=dict)
    tag_override: str | None = None


@dataclass(frozen=True, slots=True)
class SubFlow:
    type: ClassVar[str] = "flow"
    path: str
    input_transforms: Mapping[str, Transform] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForLoop:
    type: ClassVar[str] = "forloopflow"
    modules: "tuple[FlowModule, ...]"
    iterator: Transform
    skip_failures: bool = False
    parallel: bool = False
    parallelism: Transform | None = None  # how many iterations at once; None: all


@dataclass(frozen=True, slots=True)
class WhileLoop:
    type: ClassVar[str] = "whileloopflow"
    modules: "tuple[FlowModule, ...]"
    skip_failures: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    summary: str | None
    expr: str | None  # only of a branchone
    modules: "tuple[FlowModule, ...]"
    skip_failure: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class BranchOne:
    type: ClassVar[str] = "branchone"
    branches: tuple[Branch, ...]
    default: "tuple[FlowModule, ...]" = ()


@dataclass(frozen=True, slots=True)
class BranchAll:
    type: ClassVar[str] = "branchall"
    branches: tuple[Branch, ...]
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Identity:
    """Passes the previous result on."""

    type: ClassVar[str] = "identity"


@dataclass(frozen=True, slots=True)
class AgentTool:
    """Something an AI agent may call: a script or flow of the platform, or a service described by `settings`."""

    id: str
    summary: str | None
    description: str | None
    tool_type: str  # flowmodule, mcp, websearch
    value: "ModuleValue | None"  # only of a flowmodule
    settings: Mapping[str, Any] = field(default_factory=dict)  # the JSON of the others


@dataclass(frozen=True, slots=True)
class AiAgent:
    type: ClassVar[str] = "aiagent"
    input_transforms: Mapping[str, Transform] = field(default_factory=dict)
    tools: tuple[AgentTool, ...] = ()
    parallel: bool = False


ModuleValue = (
    RawScript | ScriptRef | SubFlow | ForLoop | WhileLoop | BranchOne | BranchAll | Identity | AiAgent
)


@dataclass(frozen=True, slots=True)
class FlowModule:
    id: str  # unique in the flow; later modules read this one's result by it
    value: ModuleValue
    summary: str | None = None
    stop_after_if: StopAfterIf | None = None
    stop_after_all_iters_if: StopAfterIf | None = None
    skip_if: str | None = None
    sleep: Transform | None = None  # seconds, after this step
    suspend: Suspend | None = None
    timeout: Transform | None = None  # seconds
    retry: Retry | None = None
    cache_ttl: int | None = None  # seconds
    continue_on_error: bool = False
    delete_after_secs: int | None = None  # after the end of the flow
    mock: Mock | None = None
    priority: int | None = None  # 1..100

    def bodies(self) -> "Iterator[tuple[BodyRef, str, tuple[FlowModule, ...]]]":
        """The lists of modules in this one: reference, place inside the module's JSON, modules."""
        value = self.value
        if isinstance(value, ForLoop | WhileLoop):
            yield self.id, "value.modules", value.modules
        elif isinstance(value, BranchOne | BranchAll):
            for index, branch in enumerate(value.branches):
                yield body_ref(self.id, index), f"value.branches[{index}].modules", branch.modules
            if isinstance(value, BranchOne):
                yield body_ref(self.id, "default"), "value.default", value.default


@dataclass(frozen=True, slots=True)
class Located:
    """A module and where it stands."""

    place: str  # in the JSON: modules[2].value.branches[0].modules[1]
    module: FlowModule
    enclosing: tuple[str, ...]  # ids of the modules around it, outermost first
    body: BodyRef | None  # the list that it is in; None at the top


@dataclass(frozen=True, slots=True)
class FlowValue:
    modules: tuple[FlowModule, ...]
    failure_module: FlowModule | None = None
    preprocessor_module: FlowModule | None = None
    same_worker: bool = False
    preserve_step_tags: bool = False
    concurrent_limit: int | None = None
    concurrency_key: str | None = None
    concurrency_time_window_s: int | None = None
    skip_expr: str | None = None
    cache_ttl: int | None = None  # seconds
    flow_env: Mapping[str, Any] = field(default_factory=dict)
    priority: int | None = None  # 1..100
    early_return: str | None = None  # id of the step whose result a waiting caller gets
    delete_after_secs: int | None = None
    chat_input_enabled: bool = False
    index: Mapping[str, Located] = field(init=False, repr=False, compare=False)  # by module id

    def __post_init__(self) -> None:
        index: dict[str, Located] = {}
        if self.preprocessor_module is not None:
            _locate(index, "preprocessor_module", self.preprocessor_module, (), None)
        for number, module in enumerate(self.modules):
            _locate(index, f"modules[{number}]", module, (), None)
        if self.failure_module is not None:
            _locate(index, "failure_module", self.failure_module, (), None)
        object.__setattr__(self, "index", index)

    def locate(self, id: str) -> Located:
        """The module of this id and where it stands. Raises UnknownModule."""
        located = self.index.get(id)
        if located is None:
            raise UnknownModule(
                f"the flow has no module {id[:100]!r}; it has {', '.join(self.index) or 'none'}"[:1000]
            )
        return located

    def module(self, id: str) -> FlowModule:
        """Raises UnknownModule."""
        return self.locate(id).module

    def every_module(self) -> Iterator[tuple[str, FlowModule]]:
        """(place, module) of all modules, depth first: preprocessor, modules, failure module."""
        return ((located.place, located.module) for located in self.index.values())

    def enclosing(self, id: str) -> tuple[str, ...]:
        """Ids of the modules around this one, outermost first. Raises UnknownModule."""
        return self.locate(id).enclosing

    def body(self, ref: BodyRef) -> tuple[FlowModule, ...]:
        """The modules of a loop's body or of a branch. Raises UnknownModule."""
        module = self.module(split_body_ref(ref)[0])
        for own, _, modules in module.bodies():
            if own == ref:
                return modules
        raise UnknownModule(f"module {module.id} ({module.value.type}) has no body {ref[:100]!r}")


def body_ref(module_id: str, branch: BranchIndex = None) -> BodyRef:
    """The name of a module's body: of a loop (None), of a branch by index, or of the default branch."""
    return module_id if branch is None else f"{module_id}/{branch}"


def split_body_ref(ref: BodyRef) -> tuple[str, BranchIndex]:
    """The module id and the branch in it. Raises UnknownModule for a text that is no reference."""
    module_id, slash, branch = ref.partition("/")
    if not slash:
        return module_id, None
    if branch == "default":
        return module_id, "default"
    if branch.isascii() and branch.isdecimal() and len(branch) < 10:
        return module_id, int(branch)
    raise UnknownModule(
        f"{ref[:100]!r} names no body; expected an id, an id and a branch's number, or id/default"
    )


def _locate(
    index: dict[str, Located],
    place: str,
    module: FlowModule,
    enclosing: tuple[str, ...],
    body: BodyRef | None,
) -> None:
    index[module.id] = Located(place, module, enclosing, body)
    if isinstance(module.value, ForLoop | WhileLoop | BranchOne | BranchAll):
        inside = (*enclosing, module.id)
        for ref, list_place, modules in module.bodies():
            for number, inner in enumerate(modules):
                _locate(index, f"{place}.{list_place}[{number}]", inner, inside, ref)
