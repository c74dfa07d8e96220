"""The worker: its life, what it claims for its slots, the leases that it keeps, and what others see of it.

One process, one event loop, and no state that matters: whatever a worker was doing when it died, another one goes on.
Tasks: the claimer, a task a job (workers.job_runs), the log writer, group commit of results, heartbeat, ping.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

from jobs.queue import Claim
from workers.ai_agents.jobs import AgentJobs
from workers.dedicated.lanes import Lanes
from workers.flows import FlowWorker
from workers.groups import schema
from workers.groups.schema import GroupConfig
from workers.held_job import HeldJob, Stop
from workers.host import facts
from workers.host.scripts import HostScripts
from workers.job_queue import JobQueue, Lease, QueueAway, WorkerReport
from workers.job_runs import JobRuns
from workers.logs import JobLog, LogWriter, SilentLog
from workers.occupancy import Occupancy
from workers.options import JobOptions
from workers.preparing import AWAY_RETRY_S
from workers.runner import Runner
from workers.worker_options import WorkerOptions

logger = logging.getLogger(__name__)

IDLE_POLL_S = 1.0  # while notifications arrive: finds jobs that became due, and whatever a lost hint told of
PING_S = 5.0
GROUP_POLL_S = 30.0  # between looks at the group's configuration: covers a notification that was lost
RESTART_CODE = (
    75  # exit code of a worker that wants to be started again (sysexits.h calls it a temporary failure)
)
RECORD_LIMIT_S = 30.0  # how long a leaving worker waits for a database that is away
_LONGEST_TIMER_S = 3600.0  # beyond, polling finds it soon enough


class Worker:
    """One worker process. `run` returns its exit code; `drain` and `stop` end it from a signal handler."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        queue: JobQueue,
        runner: Runner,
        housekeeping: Callable[[], Awaitable[None]] | None = None,
        reconfigured: Callable[[GroupConfig], WorkerOptions] | None = None,
    ) -> None:
        """`housekeeping` runs beside the jobs until the worker leaves (jobs.monitor).

        `reconfigured` answers the options under another configuration of the group; None: it is not followed.
        """
        self.options = options
        self.jobs_executed = 0
        self._queue = queue
        self._runner = runner
        self._housekeeping = housekeeping
        self._held: dict[Lease, HeldJob] = {}
        self._slot_freed = asyncio.Event()
        self._work_hint = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._state = "starting"
        self._note = ""  # on the state, for people
        self._exit_code = 0  # of leaving in order
        self._reconfigured = reconfigured
        self._look_at_group = asyncio.Event()
        self._jobs_begun = 0  # as EXIT_AFTER_N_JOBS counts them
        self._init_log = ""
        self._last_claim: Claim | None = None
        self._occupancy = Occupancy(slots=options.slots, now=time.monotonic())
        self._logs = LogWriter(queue.append_logs, max_job_chars=options.max_log_size_mb * 1024 * 1024)
        self._options = JobOptions(queue.option_store, runner)
        self._flows = FlowWorker(
            queue.flow_store,
            worker=options.name,
            tags=options.tags,
            languages=self._languages,
            tell_watchers=queue.tell_watchers,
            wake_workers=queue.wake_workers,
            look_again_in=self._look_again_in,
            options=self._options,
        )
        self._runs = JobRuns(
            options,
            queue=queue,
            runner=runner,
            flows=self._flows,
            options=self._options,
            agents=AgentJobs(queue, lend_slot=self._lend_slot, blocked=options.blocked),
            is_draining=lambda: self._draining.is_set() or not self._may_begin(1),
        )
        self._lanes = Lanes(
            queue=queue,
            runner=runner,
            logs=self._logs,
            run_whole=self._start,
            known=self._known_ids,
            may_begin=self._may_begin,
            begun=self.count_begun,
            ended=self._count_ended,
            occupied=self._occupy,
            tell_watchers=queue.tell_watchers,
        )
        self._host_scripts = HostScripts(
            options,
            queue=queue,
            hold=self._hold,
            let_go=self._let_go,
            record=self._runs.record,
            leaving=self._draining,
            stopping=self._stopping,
        )
        self._lent_slots = 0
        self._lost_answers = 0

    # --- life --------------------------------------------------------------------------------------------------

    async def run(self, *, drain_timeout_s: float | None = None) -> int:
        """Work until drained or stopped.

        0: left in order; RESTART_CODE: the same, to be started again with the group's new configuration; 1: the init
        script failed, or results could not be recorded.
        """
        await self._runner.start()
        unsubscribe = (
            self._queue.on_work(self._hint),
            self._queue.on_cancel(self._look_at_lease),
            self._queue.on_group(self._hear_of_group),
        )
        background = [asyncio.create_task(self._logs.run(), name="logs")]
        try:
            await self._open_queue()
            background += [
                asyncio.create_task(self._keep_leases(), name="heartbeat"),
                asyncio.create_task(self._keep_pinging(), name="ping"),
            ]
            if self._reconfigured is not None:
                # From here on, so that an init script that hangs can be put right.
                background.append(asyncio.create_task(self._follow_group(), name="group"))
            if not self._draining.is_set() and not await self._prepare_host():
                return self._exit_code if self._draining.is_set() else 1
            if self._housekeeping is not None:
                background.append(asyncio.ensure_future(self._housekeeping()))
            if self.options.periodic_script.strip() and self.options.periodic_interval_s is not None:
                background.append(
                    asyncio.create_task(self._keep_looking_after_host(self.options.periodic_interval_s))
                )
            await self._work()
            return await self._leave(drain_timeout_s)
        finally:
            for end in unsubscribe:
                end()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._lanes.close()
            await self._runner.close()
            await self._flows.close()
            await self._queue.close()

    def told_to_leave(self) -> None:
        """Drain because somebody asked: whoever started this worker is not asked to start it again."""
        self._exit_code = 0
        self.drain()

    def drain(self) -> None:
        """Claim nothing more, finish what runs, leave."""
        logger.info("draining worker=%s running=%s", self.options.name, len(self._held))
        self._draining.set()
        if self._state == "starting":  # what an init script prepares is of no use any more
            self._host_scripts.stop()
        self._lanes.drain()
        self._slot_freed.set()
        self._work_hint.set()

    def stop(self) -> None:
        """Leave now: kill what runs and put it back into the queue."""
        self.drain()
        self._stopping.set()

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    async def _open_queue(self) -> None:
        while not self._draining.is_set():
            try:
                await self._queue.open()
                return
            except QueueAway as exc:
                logger.warning("waiting for the database: %s", exc)
                await _wait(self._draining, timeout_s=AWAY_RETRY_S)

    async def _work(self) -> None:
        if not self._draining.is_set():
            self._state = "running"
            await self._ping()
            logger.info(
                "ready worker=%s slots=%s tags=%s isolation=%s",
                self.options.name,
                self.options.slots,
                ",".join(self.options.tags),
                self._runner.isolation[0],
            )
        self._lanes.follow(self.options)
        await self._claim_until_drained()

    async def _leave(self, drain_timeout_s: float | None) -> int:
        self._state = "draining"
        await self._ping()
        if self._held or not self._lanes.is_idle:
            await self._finish_jobs(drain_timeout_s)
        self._host_scripts.stop()
        for held in list(self._held.values()):
            held.stop_for(Stop.RELEASED)
        self._lanes.stop()
        try:
            async with asyncio.timeout(RECORD_LIMIT_S):
                await self._all_done()
                await self._queue.leave()
        except (TimeoutError, QueueAway):
            if left := [*self._held, *(lease for lease, _ in self._lanes.leases())]:
                logger.error(
                    "left without recording jobs=%s: the database was away for more than %s s; they will be restarted",
                    ",".join(str(job_id) for job_id, _ in left),
                    RECORD_LIMIT_S,
                )
                return 1
        logger.info(
            "left worker=%s jobs_executed=%s reason=%s",
            self.options.name,
            self.jobs_executed,
            self._note or "-",
        )
        return self._exit_code

    async def _finish_jobs(self, drain_timeout_s: float | None) -> None:
        finished = asyncio.ensure_future(self._all_done())
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({finished, stopped}, timeout=drain_timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        stopped.cancel()

    async def _all_done(self) -> None:
        while self._held:
            await asyncio.wait([held.task for held in self._held.values() if held.task is not None])
        await self._lanes.over()

    async def _prepare_host(self) -> bool:
        """Run the init script. False: it failed, or something else is missing, and so the worker cannot begin."""
        problem = ""
        if self.options.periodic_script.strip() and self.options.periodic_interval_s is None:
            problem = (
                f"The periodic script of worker group {self.options.group} has no interval: set "
                "periodic_script_interval_seconds, to 60 or more, beside periodic_script_bash.\n"
            )
            logger.error("%s", problem.rstrip())
        elif self.options.init_script.strip():
            # With the time, so that one that hangs is told from one that has just begun.
            self._note = f"running the init script since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
            await self._ping()
            note = self._note
            problem = await self._host_scripts.prepare()
            if self._note == note:
                self._note = ""
        if problem and self._draining.is_set():  # stopped
            with contextlib.suppress(QueueAway):
                await self._queue.leave()
        elif problem:
            self._state, self._init_log = "failed", problem
            await self._ping()
        return not problem

    async def _keep_looking_after_host(self, interval_s: float) -> None:
        try:
            await self._host_scripts.keep_running(interval_s)
        except Exception:
            logger.exception("the periodic script is not run any more")

    # --- the group's configuration ------------------------------------------------------------------------------

    def _hear_of_group(self, group: str | None) -> None:
        if group is None or group == self.options.group:
            self._look_at_group.set()

    async def _follow_group(self) -> None:
        while not self._draining.is_set():
            await _wait(self._look_at_group, timeout_s=GROUP_POLL_S)
            self._look_at_group.clear()
            try:
                config = await self._queue.group_config(self.options.group)
                if config != self.options.config:
                    await self._take_configuration(config)
            except QueueAway:
                self._look_at_group.set()  # the queue itself waits between attempts
            except Exception:
                logger.exception("the new configuration of group=%s was not taken", self.options.group)

    async def _take_configuration(self, config: GroupConfig) -> None:
        if note := schema.restart_note(self.options.config, config):
            self._leave_for(note, exit_code=RESTART_CODE)
            return
        assert self._reconfigured is not None
        self.options = self._reconfigured(config)
        self._runs.options_changed(self.options)
        self._host_scripts.options_changed(self.options)
        self._flows.listens_to(self.options.tags)
        self._lanes.follow(self.options)
        self._work_hint.set()
        logger.info(
            "took the configuration of group=%s tags=%s", self.options.group, ",".join(self.options.tags)
        )
        await self._ping()

    def _leave_for(self, note: str, *, exit_code: int) -> None:
        """Drain by ourselves; the first reason stands."""
        if not self._draining.is_set():
            logger.info("%s worker=%s", note, self.options.name)
            self._note, self._exit_code = note, exit_code
            self.drain()

    # --- how many jobs ---------------------------------------------------------------------------------------------

    def _may_begin(self, wanted: int) -> int:
        """How many of `wanted` further jobs may begin here, as far as EXIT_AFTER_N_JOBS goes."""
        limit = self.options.exit_after_jobs
        return wanted if limit is None else max(0, min(wanted, limit - self._jobs_begun))

    def count_begun(self, jobs: int) -> None:
        """So many jobs begin: those of warm processes are counted here, too."""
        self._jobs_begun += jobs
        if self.options.exit_after_jobs is not None and not self._may_begin(1):
            self._leave_for(f"leaves after {self._jobs_begun} jobs (EXIT_AFTER_N_JOBS)", exit_code=0)

    # --- claiming ----------------------------------------------------------------------------------------------

    async def _claim_until_drained(self) -> None:
        may_hold_unknown_jobs = False
        follow_up = False  # whether the last look makes it likely that there is more
        while not self._draining.is_set():
            free = self.options.slots - len(self._held) + self._lent_slots + self._host_scripts.running_count
            if free <= 0:
                self._slot_freed.clear()
                await self._slot_freed.wait()
                continue
            was_hinted = self._work_hint.is_set()
            self._work_hint.clear()
            try:
                if may_hold_unknown_jobs or self._queue.flow_store.lost_answers > self._lost_answers:
                    self._lost_answers = self._queue.flow_store.lost_answers
                    may_hold_unknown_jobs = True
                    held = [*self._held, *((job_id, 1) for job_id in self._flows.taking)]
                    await self._queue.release_all_but(held, but_tags=list(self._lanes.tags))
                    may_hold_unknown_jobs = False
                free = self._may_begin(free)
                tags = [tag for tag in self.options.tags if tag not in self._lanes.tags]
                ranks = self.options.priority_tags
                claims = await self._queue.claim(tags=tags, limit=free, ranks=ranks) if tags else []
            except QueueAway as exc:
                may_hold_unknown_jobs = may_hold_unknown_jobs or exc.outcome_unknown
                continue  # the queue itself waits between attempts
            except Exception:
                logger.exception("a claim failed")
                await _wait(self._draining, timeout_s=IDLE_POLL_S)
                continue
            for claim in claims:
                self._start(claim)
            if len(claims) < free:
                # Rows that another worker was claiming were passed over; should it fail, a second look finds them.
                follow_up = bool(claims) or (was_hinted and not follow_up)
                await _wait(self._work_hint, timeout_s=self._pause_s(follow_up))

    def _pause_s(self, follow_up: bool) -> float:
        if follow_up or not self._queue.hears_wakeups:
            return self.options.poll_s
        return IDLE_POLL_S

    def _hint(self, tag: str | None) -> None:
        if not self._lanes.hint(tag) and (tag is None or tag in self.options.tags):
            self._work_hint.set()

    def _known_ids(self) -> list[UUID]:
        """What this worker holds apart from its lanes."""
        return [*(lease[0] for lease in self._held), *self._flows.taking]

    def _count_ended(self, jobs: int) -> None:
        self.jobs_executed += jobs

    def _occupy(self, is_busy: bool) -> None:
        (self._occupancy.started if is_busy else self._occupancy.finished)(time.monotonic())

    # --- one job -----------------------------------------------------------------------------------------------

    def _start(self, claim: Claim, *, streak_began: float | None = None) -> None:
        logger.info("claimed job=%s tag=%s attempt=%s", claim.id, claim.tag, claim.attempt)
        self._last_claim = claim
        self.count_begun(1)
        held = self._hold(claim)
        if streak_began is not None:
            held.streak_began = streak_began
        held.task = asyncio.create_task(self._run_job(held), name=f"job {claim.id}")

    def _hold(self, claim: Claim) -> HeldJob:
        lease = (claim.id, claim.attempt)
        log = JobLog(self._logs, lease) if self.options.keep_logs else SilentLog(self._logs, lease)
        held = self._held[lease] = HeldJob(claim=claim, log=log)
        self._flows.taking.discard(claim.id)
        self._occupancy.started(held.started_at)
        return held

    def _let_go(self, held: HeldJob, *, next_claim: Claim | None = None) -> None:
        """The slot is free, or goes on with the next step of a flow."""
        del self._held[held.lease]
        self._occupancy.finished(time.monotonic())
        self.jobs_executed += 1
        self._lanes.whole_ended(held.claim.id)
        if next_claim is not None:
            self._start(next_claim, streak_began=held.streak_began)
        else:
            self._slot_freed.set()

    @contextlib.contextmanager
    def _lend_slot(self) -> Iterator[None]:
        """Somebody's slot is free while they wait for another job."""
        self._lent_slots += 1
        self._slot_freed.set()
        try:
            yield
        finally:
            self._lent_slots -= 1

    def _look_again_in(self, seconds: float) -> None:
        """Claim in so many seconds: something becomes due that the polls in between would find late."""
        if seconds < _LONGEST_TIMER_S:
            asyncio.get_running_loop().call_later(seconds, self._work_hint.set)

    async def _run_job(self, held: HeldJob) -> None:
        next_claim = None
        try:
            next_claim = await self._runs.run(held)
        finally:
            held.log.abandon()
            self._let_go(held, next_claim=next_claim)

    # --- leases ------------------------------------------------------------------------------------------------

    def _look_at_lease(self, job_id: UUID | None) -> None:
        if job_id is None or self._lanes.holds(job_id) or any(lease[0] == job_id for lease in self._held):
            self._beat_now.set()

    async def _keep_leases(self) -> None:
        while True:
            await _wait(self._beat_now, timeout_s=self.options.heartbeat_s)
            self._beat_now.clear()
            held = list(self._held.values())
            in_lanes = list(self._lanes.leases())
            if not held and not in_lanes:
                continue
            try:
                kept = await self._queue.heartbeat(
                    [*((job.lease, job.mem_peak_kb) for job in held), *in_lanes]
                )
            except QueueAway:
                self._beat_now.set()  # at once when it is back: the others may think we are dead
                continue
            except Exception:
                logger.exception("a heartbeat failed")
                continue
            self._lanes.leases_answered([lease for lease, _ in in_lanes], kept)
            for job in held:
                if job.lease not in self._held or job.is_recording:
                    continue
                if job.lease not in kept:
                    logger.warning("lost the lease of job=%s attempt=%s; stopping it", *job.lease)
                    job.log.abandon()
                    job.stop_for(Stop.LOST)
                elif (request := kept[job.lease]) is not None:
                    job.stop_for(Stop.CANCELED, request)

    # --- being seen --------------------------------------------------------------------------------------------

    async def _keep_pinging(self) -> None:
        while True:
            self._occupancy.sample(time.monotonic())
            await self._ping()
            await self._options.look_after_flows()
            await asyncio.sleep(PING_S)

    async def _ping(self) -> None:
        try:
            await self._queue.ping(self._report())
        except QueueAway:
            pass  # the next one will do
        except Exception:
            logger.exception("a ping failed")

    @property
    def _languages(self) -> list[str]:
        return [language for language in self._runner.languages if self.options.runs(language)]

    @property
    def _runtimes(self) -> dict[str, dict[str, str]]:
        return {name: told for name, told in self._runner.runtimes.items() if self.options.runs(name)}

    def _report(self) -> WorkerReport:
        now = time.monotonic()
        current = next(iter(self._held), None)
        isolation, note = self._runner.isolation
        return WorkerReport(
            worker=self.options.name,
            worker_instance=self.options.instance,
            worker_group=self.options.group,
            ip=facts.ip(),
            state=self._state,
            custom_tags=list(self.options.tags),
            languages=self._languages,
            runtimes=self._runtimes,
            slots=self.options.slots,
            wm_version=self.options.version,
            busy_slots=min(
                self.options.slots, len(self._held) - self._host_scripts.running_count + self._lanes.busy
            ),
            jobs_executed=self.jobs_executed,
            current_job_id=current[0] if current else None,
            last_job_id=self._last_claim.id if self._last_claim else None,
            last_job_workspace_id=self._last_claim.workspace_id if self._last_claim else None,
            occupancy_rate=self._occupancy.rate(now),
            occupancy_rate_15s=self._occupancy.rate(now, 15),
            occupancy_rate_5m=self._occupancy.rate(now, 300),
            occupancy_rate_30m=self._occupancy.rate(now, 1800),
            memory=facts.memory_limit(),
            memory_usage=facts.memory_usage(),
            wm_memory_usage=facts.process_memory(),
            vcpus=facts.vcpus(),
            job_isolation=isolation,
            isolation_note=note,
            init_log=self._init_log,
            state_note=self._note or "; ".join(self.options.config.problems),
            native_mode=self.options.native,
            dedicated_workers=list(self.options.dedicated),
        )


async def _wait(event: asyncio.Event, *, timeout_s: float) -> None:
    """Return once `event` is set, or after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
