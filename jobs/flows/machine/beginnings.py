"""How a module begins: after approvals, unless it is skipped or mocked, by its kind; and the preprocessor before all."""

from typing import Any

from jobs.flows.machine.approvals import Suspensions
from jobs.flows.machine.containers import Containers
from jobs.flows.machine.flow import PREPROCESSOR, Steps, error_ref, transforms_of
from jobs.flows.protocol import (
    FinishModule,
    Inputs,
    Instant,
    Names,
    Park,
    SetArgs,
    StartFlow,
    StartStep,
    StepFailed,
    Truth,
)
from jobs.flows.state import Progress, Ref, job_ref, value_ref
from jobs.flows.value import (
    AiAgent,
    BranchAll,
    BranchOne,
    FlowModule,
    ForLoop,
    Identity,
    RawScript,
    ScriptRef,
    SubFlow,
    WhileLoop,
)


class Beginnings(Suspensions, Containers):
    """A module that cannot begin has failed, like one whose job did."""

    def begin(self) -> Steps:
        """Begin the module that is next, or end the flow after its last."""
        state, modules = self.state, self.flow.modules
        if state.step >= len(modules):
            self.finish("success", self.passed_on)
            return
        module = modules[state.step]
        resumed: dict[str, Any] = {}
        before = modules[state.step - 1] if state.step > 0 else None
        if before is not None and before.suspend is not None and state.previous_job is not None:
            answer = yield from self.approval(before, module)
            if answer is None:
                return
            resumed = answer
        state.module = Progress(id=module.id)
        yield from self.start_or_fail(module, resumed)

    def start_or_fail(self, module: FlowModule, resumed: dict[str, Any]) -> Steps:
        """Start `module`, which is in progress. `resumed`: names that approvals give to it."""
        try:
            yield from self._start(module, Names(previous=self.state.previous, values=resumed))
        except StepFailed as exc:
            job_id = self.flow.new_id()
            error = error_ref(exc.name, exc.message, module.id)
            self.do(Instant(job_id=job_id, module_id=module.id, result=error, status="failure"))
            yield from self.module_failed(job_ref(job_id), str(job_id), may_retry=False)

    def _start(self, module: FlowModule, names: Names) -> Steps:
        if module.skip_if is not None and (yield Truth(module.skip_if, names, f"step {module.id}, skip_if")):
            yield from self._instantly(self.passed_on, is_skipped=True)
            return
        if module.mock is not None:
            yield from self._instantly(value_ref(module.mock.return_value))
            return
        match module.value:
            case Identity():
                yield from self._instantly(self.passed_on)
            case RawScript() | ScriptRef() | AiAgent() | SubFlow():
                yield from self.start_leaf(module, names)
            case ForLoop():
                yield from self.start_for_loop(module, module.value, names)
            case WhileLoop():
                yield from self.start_while_loop(module.value)
            case BranchOne():
                yield from self.start_branch(module, module.value, names)
            case BranchAll():
                yield from self.start_branches(module, module.value)

    def _instantly(self, ref: Ref, *, is_skipped: bool = False) -> Steps:
        job_id, module = self.flow.new_id(), self.module
        self.progress.job = str(job_id)
        self.do(Instant(job_id=job_id, module_id=module.id, result=ref))
        ref = job_ref(job_id)
        stop = None if is_skipped else module.stop_after_if
        yield from self.module_succeeded(
            ref, str(job_id), stop=stop, names=self.names(result=ref), is_skipped=is_skipped
        )

    def start_leaf(self, module: FlowModule, names: Names) -> Steps:
        """Start a module that is one job: a script, an agent, another flow."""
        args = yield Inputs(module.id, transforms_of(module), names)
        timeout_s = yield from self.timeout_s(module, names)
        job_id = self.flow.new_id()
        self.progress.job = str(job_id)
        if isinstance(module.value, SubFlow):
            self.do(StartFlow(job_id=job_id, module=module, args=args))
        else:
            self.do(StartStep(job_id=job_id, module=module, args=args, timeout_s=timeout_s))
        self.do(Park())

    # --- the preprocessor ---------------------------------------------------------------------------------------------

    def start_preprocessor(self) -> Steps:
        """Let it make the flow's arguments of those that came."""
        module = self.flow.value.preprocessor_module
        assert module is not None
        self.state.module = Progress(id=PREPROCESSOR)
        job_id = self.flow.new_id()
        transforms = transforms_of(module)
        args = (yield Inputs(PREPROCESSOR, transforms, Names())) if transforms else None
        self.progress.job = str(job_id)
        self.do(
            StartStep(
                job_id=job_id,
                module=module,
                args=args,
                args_of=None if transforms else str(self.flow.id),
                is_preprocessor=True,
            )
        )
        self.do(Park())

    def preprocessed(self, ref: Ref, job: str, is_success: bool) -> Steps:
        """It has ended: its result, an object, is what the flow begins with."""
        is_object = is_success and (
            yield Truth(
                "typeof result === 'object' && result !== null && !Array.isArray(result)",
                Names(refs={"result": ref}),
                PREPROCESSOR,
            )
        )
        status = self.status("Success" if is_object else "Failure", job)
        self.do(FinishModule(module_id=PREPROCESSOR, status=status, result=ref))
        if not is_success:
            yield from self.fail(ref)
        elif not is_object:
            message = "the preprocessor must return an object: the arguments of the flow by name"
            yield from self.fail(error_ref("PreprocessorErr", message, PREPROCESSOR))
        else:
            self.do(SetArgs(ref))
            self.state.module, self.state.step = None, 0
            self.goes_on = True
