"""Modules made of modules, as they begin: loops, branchone, branchall."""

from jobs.flows.machine.flow import Asking, Steps, in_short, is_number, only_plain_step, transforms_of
from jobs.flows.machine.iterations import Iterations
from jobs.flows.protocol import Inputs, Names, Park, Plan, StartBody, StartStep, StepFailed, Truth, Value
from jobs.flows.state import NO_JOB, Children, Ref, value_ref
from jobs.flows.value import BranchAll, BranchIndex, BranchOne, FlowModule, ForLoop, WhileLoop, body_ref


class Containers(Iterations):
    """Each method starts what runs first."""

    def start_for_loop(self, module: FlowModule, loop: ForLoop, names: Names) -> Steps:
        """Plan all iterations; the jobs of those to come are known from now on."""
        items = yield Value(loop.iterator, names, f"step {module.id}, iterator")
        if not isinstance(items, list):
            raise StepFailed(
                f"Expected an array value in the iterator expression, found: {in_short(items)}",
                name="ExecutionErr",
            )
        if not items or not loop.modules:
            yield from self._nothing_to_run(value_ref([]))
            return
        at_once = yield from self._parallelism(module, loop, names)
        ids = tuple(self.flow.new_id() for _ in items)
        self.do(Plan(module_id=module.id, job_ids=ids, values=tuple(items)))
        self.progress.children = Children(length=len(items), parallel=loop.parallel, at_once=at_once)
        yield from self.start_next()

    def _parallelism(self, module: FlowModule, loop: ForLoop, names: Names) -> Asking[int | None]:
        if not loop.parallel or loop.parallelism is None:
            return None
        where = f"step {module.id}, parallelism"
        at_once = yield Value(loop.parallelism, names, where)
        if at_once is None:
            return None
        if not is_number(at_once) or at_once < 1:
            raise StepFailed(f"{where}: expected a number of 1 or more, found {in_short(at_once)}")
        return int(at_once)

    def start_while_loop(self, loop: WhileLoop) -> Steps:
        """How many iterations there will be shows later."""
        if not loop.modules:
            yield from self._nothing_to_run(value_ref([]))
            return
        self.progress.children = Children(length=None)
        yield from self.start_next()

    def start_branches(self, module: FlowModule, branches: BranchAll) -> Steps:
        """Every branch is run."""
        if not branches.branches:
            yield from self._nothing_to_run(value_ref([]))
            return
        ids = tuple(self.flow.new_id() for _ in branches.branches)
        self.do(Plan(module_id=module.id, job_ids=ids, values=None))
        self.progress.children = Children(length=len(ids), parallel=branches.parallel)
        yield from self.start_next()

    def start_branch(self, module: FlowModule, choice: BranchOne, names: Names) -> Steps:
        """The first branch whose expression is true is run."""
        chosen = yield from self._choose(module, choice, names)
        self.progress.branch = chosen
        body = self.body(chosen)
        if not body:
            yield from self._nothing_to_run(self.passed_on)
            return
        job_id = self.flow.new_id()
        only = only_plain_step(body)
        if only is None:
            body_name, previous = body_ref(module.id, chosen), self.state.previous
            self.do(StartBody(job_id=job_id, module_id=module.id, body=body_name, previous=previous))
        else:
            args = yield Inputs(only.id, transforms_of(only), names)
            timeout_s = yield from self.timeout_s(only, names)
            self.do(StartStep(job_id=job_id, module=only, args=args, timeout_s=timeout_s))
        self.progress.job = str(job_id)
        self.do(Park())

    def _choose(self, module: FlowModule, choice: BranchOne, names: Names) -> Asking[BranchIndex]:
        for number, branch in enumerate(choice.branches):
            where = f"step {module.id}, branch {number + 1}"
            if branch.expr is not None and (yield Truth(branch.expr, names, where)):
                return number
        return "default"

    def _nothing_to_run(self, ref: Ref) -> Steps:
        stop = self.module.stop_after_all_iters_if if not isinstance(self.module.value, BranchOne) else None
        names = self.names(result=ref, all_iters=ref)
        yield from self.module_succeeded(ref, str(NO_JOB), stop=stop, names=names)
