"""The runner of an ordinary worker: executors of workers.runtimes, each job in a sandbox of workers.sandbox."""

import asyncio
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jobs.models import JobKind, Language
from jobs.queue import Claim
from jobs.signatures.bash import positional_order
from workers import cache, job_limits, preparing
from workers.dedicated import DedicatedPool, WarmKey, WarmProcess
from workers.dedicated.pool import IDLE_S
from workers.failures import error_as_result
from workers.logs import JobLog
from workers.networks import BlockedNetworks
from workers.runner import RunnerLost, RunOutcome, RunRequest
from workers.runtime_store import RuntimeStore
from workers.runtimes import (
    Available,
    Closing,
    Execution,
    ExecutionFailed,
    Executor,
    Installer,
    Limits,
    Resolver,
    SandboxUnavailable,
    Site,
)
from workers.runtimes.python_local import names_of
from workers.sandbox import HostPool, JobHost, SharedFolderLost


class SandboxRunner:
    """See workers.runner.Runner. `hidden_paths` are folders that no job may see; `warm` sandboxes are kept ready.

    `folder` is this worker's own and is removed at the end; `cache_dir` stays, other workers may use it too. A script
    that has dedicated workers has at most `dedicated_each` warm processes here. `blocked` are networks
    that jobs cannot reach. Python jobs have `python_paths` on sys.path; `local_packages` are neither resolved
    nor installed for them.
    """

    def __init__(
        self,
        *,
        folder: Path,
        cache_dir: Path,
        cache_max_bytes: int,
        available: Available,
        store: RuntimeStore,
        hidden_paths: Sequence[Path],
        policy: Literal["refuse", "warn"],
        limits: Limits,
        warm: int,
        python_paths: Sequence[Path] = (),
        local_packages: Sequence[str] = (),
        control_groups: bool = True,
        dedicated_each: int = 1,
        dedicated_idle_s: float = IDLE_S,
        blocked: BlockedNetworks | None = None,
    ) -> None:
        self._folder = folder
        self._cache_dir = cache_dir
        self._cache_max_bytes = cache_max_bytes
        self._collecting: asyncio.Task[None] | None = None
        self._limits = limits
        self._policy = policy
        self._local_packages = local_packages
        self._available = available
        self._runtimes = available.as_json()  # once: it reads the metadata of packages, and each job asks
        self._store = store
        self._host = JobHost(
            base_dir=folder,
            hidden_paths=[*hidden_paths, cache.state_folder(cache_dir)],
            read_only=preparing.readable_paths(available),
            python_paths=python_paths,
            writable_root=cache_dir,
            policy=policy,
            warm=warm,
            usual=limits,
            groups="find" if control_groups else None,
            blocked_networks=blocked.spelled if blocked is not None else (),
        )
        self._hosts = HostPool(self._host)
        site = Site(
            host=self._host,
            hosts=self._hosts,
            tools=available.tools,
            cache_dir=cache_dir,
            blocked=blocked or BlockedNetworks(),
            cache_max_bytes=cache_max_bytes,
        )
        self._executors: dict[str, Executor] = {}
        for runtime in available.runtimes:
            self._executors |= dict.fromkeys(runtime.languages, runtime.make(site))
        self.dedicated = DedicatedPool(self._executors, most_each=dedicated_each, idle_s=dedicated_idle_s)

    @property
    def languages(self) -> Sequence[str]:
        """Languages whose tools were found on this host."""
        return list(self._executors)

    @property
    def runtimes(self) -> dict[str, dict[str, str]]:
        """See workers.runner.Runner.runtimes."""
        return self._runtimes

    @property
    def isolation(self) -> tuple[str, str]:
        """The isolation in force, and what exactly that is here."""
        reasons = (self._host.isolation_reason, self._host.limits_reason, self._host.confinement_reason)
        return self._host.isolation, " ".join(filter(None, reasons))

    async def start(self) -> None:
        """Start the fork server. Raises IsolationRefused when the policy asks for isolation and there is none."""
        # Jobs pass through and cannot list it: what is in it is named by hashes, and may be of other workspaces.
        self._cache_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
        # Before the fork server: only what is there can be hidden.
        cache.state_folder(self._cache_dir).mkdir(mode=0o700, exist_ok=True)
        await self._host.start()
        self._collecting = asyncio.create_task(cache.keep_small(self._cache_dir, self._cache_max_bytes))

    async def close(self) -> None:
        """End the fork server, and with it whatever still runs."""
        if self._collecting is not None:
            self._collecting.cancel()
        await self.dedicated.close()
        for executor in self._executors.values():
            if isinstance(executor, Closing):
                await executor.close()
        await self._hosts.close()
        await self._host.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def drop_share(self, name: str, *, is_missed: bool = False) -> None:
        """See workers.runner.Runner.drop_share."""
        self._host.drop_share(name, is_missed=is_missed)

    async def run(self, request: RunRequest) -> RunOutcome:
        """See workers.runner.Runner.run."""
        if self._host.isolation == "none":
            request.log.write(f"this job runs without isolation: {self._host.isolation_reason}\n")
        executor = self._executors[request.claim.language or ""]
        sink = _Sink(request.log)
        try:
            if request.dedicated and self.dedicated.can(request.claim.language or ""):
                outcome = await self.dedicated.run(
                    _warm_key(request.claim),
                    await self._execution(request),
                    sink,
                    prepare=lambda execution: self._prepared(execution, request),
                )
            else:
                execution = await self._prepared(await self._execution(request), request)
                outcome = await executor.run(execution, sink)
        except ExecutionFailed as failed:
            error = error_as_result(failed.error)
            return RunOutcome(False, error, failed.mem_peak_kb or None, failed.preprocessed_args_json)
        except SharedFolderLost as exc:
            # Started again it would find an empty folder: what earlier steps left there is gone.
            return RunOutcome(False, error_as_result({"name": "SharedFolderLost", "message": str(exc)}))
        except SandboxUnavailable as exc:
            raise RunnerLost(str(exc)) from exc
        return RunOutcome(
            True, outcome.result_json, outcome.mem_peak_kb or None, outcome.preprocessed_args_json
        )

    def stays_warm(self, language: str) -> bool:
        """See workers.runner.Runner.stays_warm."""
        return self.dedicated.can(language)

    async def warm_process(self, request: RunRequest) -> WarmProcess:
        """See workers.runner.Runner.warm_process."""
        return await self.dedicated.process(
            _warm_key(request.claim),
            await self._execution(request),
            _Sink(request.log),
            prepare=lambda execution: self._prepared(execution, request),
        )

    async def let_misfits_leave(self, request: RunRequest) -> None:
        """See workers.runner.Runner.let_misfits_leave."""
        self.dedicated.let_misfits_leave(_warm_key(request.claim), await self._execution(request))

    async def _prepared(self, execution: Execution, request: RunRequest) -> Execution:
        claim = request.claim
        executor = self._executors[claim.language or ""]
        return await preparing.prepared(
            execution, claim, executor=executor, store=self._store, log=_Sink(request.log)
        )

    async def lock(self, request: RunRequest) -> str:
        """See workers.runner.Runner.lock."""
        executor = self._executors[request.claim.language or ""]
        if not isinstance(executor, Resolver):
            return ""
        sink = _Sink(request.log)
        try:
            execution = await preparing.with_surroundings(
                await self._execution(request), request.claim, store=self._store, resolving=True
            )
            lock = await executor.resolve(execution, sink)
            if isinstance(executor, Installer) and request.claim.runnable_id is not None:
                # Deployed: the first job need not wait, and what cannot be installed is no lock to run with.
                await executor.install(replace(execution, lock=lock), sink)
            return lock
        except SandboxUnavailable as exc:
            raise RunnerLost(str(exc)) from exc

    async def _execution(self, request: RunRequest) -> Execution:
        """Raises ExecutionFailed: what is said about limits and network cannot be kept."""
        claim = request.claim
        code = claim.code or ""
        said = job_limits.header_for(claim)
        network = job_limits.has_network(
            said, group_network=request.group.network, language=claim.language or ""
        )
        instance = await preparing.while_database_is_away(self._store.job_limits)
        usual = job_limits.limits_of(self._limits, [instance, request.group.job_limits])
        self._host.expect(usual)
        limits = job_limits.limits_of(usual, [said.limits])
        if not network and not self._host.cuts_network:
            request.log.write(job_limits.without_network_namespaces(self._policy))
        if limits.cpus is not None and not self._host.limits_cpus:
            request.log.write(f"the limit of {limits.cpus:g} CPUs is not kept: {self._host.limits_reason}\n")
        return Execution(
            job_id=str(claim.id),
            workspace_id=claim.workspace_id,
            language=claim.language or "",
            code=code,
            args=request.args,
            env=request.environment,
            script_path=claim.runnable_path,
            timeout_s=request.timeout_s,
            entrypoint=claim.script_entrypoint_override or "main",
            preprocess=bool(claim.has_preprocessor),
            arg_order=positional_order(code) if claim.language == Language.BASH else None,
            share=request.share,
            local_packages=names_of([*self._local_packages, *request.group.pip_local_dependencies]),
            limits=limits,
            tool_limits=self._limits,
            network=network,
            lock=claim.lock,
        )


def _warm_key(claim: Claim) -> WarmKey:
    path = claim.runnable_path or ""
    if claim.kind == JobKind.SCRIPT and claim.runnable_id is not None:
        return WarmKey(claim.workspace_id, path, str(claim.runnable_id))
    code = hashlib.sha256(f"{claim.lock}\0{claim.code}".encode("utf-8", "replace")).hexdigest()
    return WarmKey(claim.workspace_id, path, code, claim.flow_step_id or "")


class _Sink:
    """A job's log as executors write it. Pieces of the result stream are lines of it, as the clients read them."""

    def __init__(self, log: JobLog) -> None:
        self._log = log

    def write(self, text: str) -> None:
        self._log.write(text)

    def stream(self, text: str) -> None:
        self._log.write(f"WM_STREAM: {text}\n")
