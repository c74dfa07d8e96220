"""What a module starts many times: the iterations of a loop and the branches of a branchall, in a row or side by side."""

from typing import Any
from uuid import UUID

from jobs.flows.machine.endings import Endings
from jobs.flows.machine.flow import (
    Asking,
    Steps,
    early_stop,
    error_ref,
    only_plain_step,
    transforms_of,
)
from jobs.flows.protocol import (
    Again,
    ChildEnded,
    Count,
    Counts,
    Ended,
    FinishModule,
    Inputs,
    Instant,
    IterationJob,
    Names,
    Park,
    Plan,
    StartBody,
    StartStep,
    StepFailed,
    Truth,
)
from jobs.flows.state import list_ref, value_ref
from jobs.flows.value import BranchAll, FlowModule, ForLoop, WhileLoop, body_ref

CHUNK = 200  # parallel iterations started in one transaction


class Iterations(Endings):
    """`n` is the number of an iteration or of a branch, from 0."""

    @property
    def _is_loop(self) -> bool:
        return not isinstance(self.module.value, BranchAll)

    def _skips_failure(self, n: int) -> bool:
        value = self.module.value
        if isinstance(value, BranchAll):
            return value.branches[n].skip_failure
        return isinstance(value, ForLoop | WhileLoop) and value.skip_failures

    # --- starting -----------------------------------------------------------------------------------------------------

    def start_next(self) -> Steps:
        """Start as many iterations (branches) as may run now."""
        if self.children.parallel:
            yield from self._start_chunk()
        else:
            yield from self._start_in_a_row()

    def _start_in_a_row(self) -> Steps:
        while True:
            n = self.children.started
            ended = yield from self._start_iteration(n)
            if ended is None:
                self.do(Park())
                return
            assert self.progress.job is not None
            if (yield from self._account(n, self.progress.job, is_success=ended)):
                return

    def _start_chunk(self) -> Steps:
        children = self.children
        assert children.length is not None
        room = children.length
        if children.at_once is not None:
            room = children.at_once - (children.started - children.done)
        count = 0
        while children.started < children.length and room > 0 and count < CHUNK:
            n = children.started
            count += 1
            ended = yield from self._start_iteration(n)
            if ended is None:
                room -= 1
            else:
                self._count_end(n, is_success=ended)
        if children.done == children.length:
            yield from self._all_ended()
        elif children.started < children.length and room > 0:
            self.do(Again())
        else:
            self.do(Park())

    def _start_iteration(self, n: int) -> Asking[bool | None]:
        """None: it runs. An empty branch has succeeded at once, a step whose inputs cannot be computed has failed."""
        module, children = self.module, self.children
        if isinstance(module.value, WhileLoop):
            job_id = self.flow.new_id()
            self.do(Plan(module_id=module.id, job_ids=(job_id,), values=(n,), first=n))
        else:
            job_id, _ = yield IterationJob(module.id, n=n)
        children.started += 1
        self.progress.job = str(job_id)
        if self.state.keeps_successes and (yield from self._has_succeeded(job_id)):
            return True
        body = self.body(None if self._is_loop else n)
        if not body:
            self.do(Instant(job_id=job_id, module_id=module.id, result=self.passed_on, n=n, loop=module.id))
            return True
        only = only_plain_step(body)
        if only is not None:
            return (yield from self._start_only_step(job_id, only, n))
        self.do(
            StartBody(
                job_id=job_id,
                module_id=module.id,
                body=body_ref(module.id, None if self._is_loop else n),
                n=n,
                is_iteration=self._is_loop,
                previous=None if self._is_loop else self.state.previous,
                side_by_side=children.parallel,
            )
        )
        return None

    def _start_only_step(self, job_id: UUID, only: FlowModule, n: int) -> Asking[bool | None]:
        loop = self.module.id
        names = Names(iteration=(loop, n)) if self._is_loop else self.names()
        try:
            args = yield Inputs(only.id, transforms_of(only), names)
            timeout_s = yield from self.timeout_s(only, names)
        except StepFailed as exc:
            error = error_ref(exc.name, exc.message, only.id)
            self.do(Instant(job_id=job_id, module_id=only.id, result=error, status="failure", n=n, loop=loop))
            return False
        self.do(
            StartStep(
                job_id=job_id,
                module=only,
                args=args,
                timeout_s=timeout_s,
                n=n,
                loop=loop,
                side_by_side=self.children.parallel,
            )
        )
        return None

    def _has_succeeded(self, job_id: UUID) -> Asking[bool]:
        try:
            ended = yield Ended(str(job_id))
        except LookupError:
            return False  # new
        return ended is not None and ended.is_success

    # --- ending -------------------------------------------------------------------------------------------------------

    def iteration_ended(self, event: ChildEnded) -> Steps:
        """Go on with the next one, or with what follows the last."""
        if self.children.parallel:
            try:
                _, n = yield IterationJob(self.module.id, job_id=event.job_id)
            except LookupError:
                return
            self._count_end(n, is_success=event.is_success)
            yield from self._go_on_side_by_side()
            return
        if str(event.job_id) != self.progress.job:
            return
        is_over = yield from self._account(
            self.children.started - 1,
            str(event.job_id),
            is_success=event.is_success,
            is_canceled=event.status == "canceled",
            stopped=event.stopped,
        )
        if not is_over:
            yield from self.start_next()

    def recount(self) -> Steps:
        """Iterations side by side may have ended without our hearing of it."""
        children = self.children
        counts: Counts = yield Count(self.module.id, children.started)
        children.done = counts.done
        children.failed = sum(not self._skips_failure(n) for n in counts.failed)
        yield from self._go_on_side_by_side()

    def _account(
        self, n: int, job: str, *, is_success: bool, is_canceled: bool = False, stopped: Any = None
    ) -> Asking[bool]:
        """In a row: iteration (branch) n has ended. True: so has the module."""
        module, children = self.module, self.children
        children.done += 1
        so_far = list_ref(self.flow.id, module.id, n + 1)
        if is_success and not self._is_loop:
            self.name_direct_result(n, {"job": job})
        if not is_success and not self._skips_failure(n):
            yield from self.module_failed(so_far, job, is_canceled=is_canceled)
            return True
        is_last = children.length is not None and children.done >= children.length
        if self._is_loop and stopped is None and module.stop_after_if is not None:
            stop = module.stop_after_if
            names = Names(
                previous=self.state.previous,
                refs={"result": {"job": job}, "all_iters": so_far},
                iteration=(module.id, n),
            )
            if (yield Truth(stop.expr, names, f"step {module.id}, stop_after_if")):
                if stop.error_message is not None:
                    status = self.status("Failure", job)
                    self.do(FinishModule(module_id=module.id, status=status, result=so_far))
                    yield from self.fail(value_ref(early_stop(stop, module.id)))
                    return True
                is_last = True
        if stopped is None and not is_last:
            return False
        yield from self.module_succeeded(
            so_far,
            job,
            stop=module.stop_after_all_iters_if,
            names=self.names(result=so_far, all_iters=so_far),
            stopped=None if self._is_loop else stopped,  # a loop is left, a branch takes its flow along
        )
        return True

    def _count_end(self, n: int, *, is_success: bool) -> None:
        self.children.done += 1
        if not is_success and not self._skips_failure(n):
            self.children.failed += 1

    def _go_on_side_by_side(self) -> Steps:
        if self.children.done == self.children.length:
            yield from self._all_ended()
        else:
            yield from self.start_next()

    def _all_ended(self) -> Steps:
        """Side by side: the last one has ended."""
        module, children, job = self.module, self.children, self.progress.job
        assert children.length is not None
        results = list_ref(self.flow.id, module.id, children.length)
        if children.failed:
            yield from self.module_failed(results, job)
            return
        names = self.names(result=results, all_iters=results)
        yield from self.module_succeeded(results, job, stop=module.stop_after_all_iters_if, names=names)
