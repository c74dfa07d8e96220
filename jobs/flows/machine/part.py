"""What all parts of the machine stand on: the flow, its state, and what is to be done."""

from typing import Any

from jobs.flows.machine.flow import FAILURE, PREPROCESSOR, Asking, Flow, in_short, is_number, only_plain_step
from jobs.flows.protocol import Effect, FinishFlow, NameResult, Names, StepFailed, Value
from jobs.flows.state import NO_JOB, Children, Progress, Ref, State, args_ref
from jobs.flows.value import Branch, BranchAll, BranchOne, FlowModule, ForLoop, WhileLoop


class Part:
    """One event of one flow. Methods without an underscore are for the other parts, too."""

    def __init__(self, flow: Flow, state: State, effects: list[Effect]) -> None:
        self.flow = flow
        self.state = state
        self.effects = effects
        # Begin the module at state.step next: a loop, not a recursion, as skipped steps may be many.
        self.goes_on = False

    def do(self, effect: Effect) -> None:
        """Have this done."""
        self.effects.append(effect)

    def finish(self, status: str, ref: Ref) -> None:
        """The flow has ended."""
        self.state.module = None
        self.do(FinishFlow(status=status, result=ref))

    @property
    def progress(self) -> Progress:
        """How far the module in progress is."""
        assert self.state.module is not None
        return self.state.module

    @property
    def children(self) -> Children:
        """Its iterations or branches."""
        assert self.progress.children is not None
        return self.progress.children

    @property
    def module(self) -> FlowModule:
        """The module in progress."""
        id = self.progress.id
        found: FlowModule | None = self.flow.modules[self.state.step] if self.state.step >= 0 else None
        if id == FAILURE:
            found = self.flow.value.failure_module
        elif id == PREPROCESSOR and self.state.step < 0:
            found = self.flow.value.preprocessor_module
        assert found is not None
        return found

    def body(self, branch: int | str | None) -> tuple[FlowModule, ...]:
        """The modules in the loop in progress, or in this branch."""
        value = self.module.value
        if isinstance(value, BranchOne) and branch == "default":
            return value.default
        if isinstance(value, BranchOne | BranchAll):
            chosen: Branch = value.branches[int(branch or 0)]
            return chosen.modules
        assert isinstance(value, ForLoop | WhileLoop)
        return value.modules

    @property
    def passed_on(self) -> Ref:
        """The result of what does nothing itself: that of the module before, or the arguments of the flow."""
        return self.state.previous or args_ref(self.flow.id)

    def names(self, **refs: Ref) -> Names:
        """What expressions of the module in progress may mention."""
        return Names(previous=self.state.previous, refs=refs)

    def name_direct_result(self, branch: int | str | None, ref: Ref) -> None:
        """What a branch with a single plain step returns is found as `results.<that step>` too."""
        only = only_plain_step(self.body(branch))
        if only is not None:
            self.do(NameResult(module_id=only.id, result=ref))

    def timeout_s(self, module: FlowModule, names: Names) -> Asking[int | None]:
        """How long a job of this module may take. Raises StepFailed."""
        if module.timeout is None:
            return None
        where = f"step {module.id}, timeout"
        seconds = yield Value(module.timeout, names, where)
        if seconds is None:
            return None
        if not is_number(seconds) or not 0 < seconds < 2**31:
            raise StepFailed(f"{where}: expected a number of seconds above 0, found {in_short(seconds)}")
        return max(1, int(seconds))

    def status(self, type: str, job: str | None, *, is_skipped: bool = False) -> dict[str, Any]:
        """The status object of the module in progress (chapter 8), without lists of jobs."""
        progress = self.progress
        status: dict[str, Any] = {"type": type, "id": progress.id, "job": job or str(NO_JOB)}
        if type == "Success":
            status["skipped"] = is_skipped
        if progress.branch is not None:
            is_default = progress.branch == "default"
            status["branch_chosen"] = (
                {"type": "default"} if is_default else {"type": "branch", "branch": progress.branch}
            )
        if progress.failed_jobs:
            status["failed_retries"] = progress.failed_jobs
        if progress.parent_module is not None:
            status["parent_module"] = progress.parent_module
        return status
