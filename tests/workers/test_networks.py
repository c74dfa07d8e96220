"""Addresses that jobs must not reach, judged by the worker for what it connects to itself."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.job_runs import Jobs, Log, started
from workers.job_process import address_guard
from workers.networks import AddressBlocked, BlockedNetworks
from workers.runtimes import Execution, ExecutionFailed, Executor, Site
from workers.runtimes.graphql import Graphql
from workers.runtimes.mysql import Mysql
from workers.runtimes.postgresql import Postgresql

LOOPBACK = BlockedNetworks(["127.0.0.0/8", "::1"])


@pytest.mark.parametrize(
    ("network", "address", "is_blocked"),
    [
        ("169.254.0.0/16", "169.254.169.254", True),
        ("169.254.0.0/16", "::ffff:169.254.169.254", True),
        ("169.254.0.0/16", "64:ff9b::a9fe:a9fe", True),
        ("169.254.0.0/16", "64:ff9b::a9ff:a9fe", False),
        ("169.254.0.0/16", "169.255.0.1", False),
        ("100.100.100.200", "100.100.100.200", True),
        ("fe80::/10", "fe80::1", True),
        ("fe80::/10", "169.254.169.254", False),
        ("::ffff:169.254.0.0/112", "169.254.1.1", True),
        ("::/0", "8.8.8.8", False),
    ],
)
def test_an_address_is_blocked_however_it_is_written(network: str, address: str, is_blocked: bool) -> None:
    blocked = BlockedNetworks([network])

    assert (blocked.blocking(ip_address(address)) == network) is is_blocked


@given(
    st.sampled_from(
        ["169.254.0.0/16", "10.0.0.0/7", "192.0.0.192", "fe80::/10", "2001:db8::/33", "fd00:ec2::254"]
    ),
    st.one_of(st.ip_addresses(), st.ip_addresses(network="168.0.0.0/6"), st.ip_addresses(network="fc00::/6")),
)
def test_the_guard_of_jobs_judges_as_the_worker_does(network: str, address: Any) -> None:
    blocked = BlockedNetworks([network])
    guard = address_guard.Rules(blocked.spelled, [])

    assert (blocked.blocking(address) is None) == (guard.blocking(address.packed, 80) is None)


@pytest.mark.parametrize(
    "wrong", ["169.254.169.254/16", "metadata.google.internal", "10.0.0.0/33", "fe80::%eth0"]
)
def test_what_is_no_network_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no network"):
        BlockedNetworks([wrong])


async def test_a_name_that_leads_to_a_blocked_address_is_refused() -> None:
    with pytest.raises(
        AddressBlocked, match=r"localhost \(.*\) cannot be reached from jobs: .*JOB_BLOCKED_NETWORKS"
    ):
        await LOOPBACK.resolve("localhost", 80)


@pytest.mark.parametrize(
    "spelling", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "::ffff:127.0.0.1", "::1"]
)
async def test_an_address_is_refused_in_all_spellings_that_resolvers_take(spelling: str) -> None:
    with pytest.raises(AddressBlocked, match="cannot be reached from jobs"):
        await LOOPBACK.resolve(spelling, 80)


async def test_what_is_not_blocked_is_resolved() -> None:
    blocked = BlockedNetworks(["169.254.0.0/16"])

    assert await blocked.resolve("127.0.0.1", 80) == ["127.0.0.1"]
    assert await asyncio.to_thread(blocked.resolve_here, "127.0.0.1", 80) == ["127.0.0.1"]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    with started(base_dir=tmp_path_factory.mktemp("base"), policy="warn") as jobs:
        yield jobs


RESOURCES: dict[str, tuple[Callable[[Site], Executor], str, Callable[[int], dict[str, Any]]]] = {
    "postgresql": (Postgresql, "SELECT 1", lambda port: {"database": {"host": "localhost", "port": port}}),
    "mysql": (
        Mysql,
        "SELECT 1",
        lambda port: {"database": {"host": "localhost", "port": port, "database": "x"}},
    ),
    "graphql": (Graphql, "query { a }", lambda port: {"api": {"base_url": f"http://localhost:{port}/"}}),
}


@pytest.mark.parametrize("language", RESOURCES)
def test_queries_that_run_in_the_worker_do_not_go_there(jobs: Jobs, language: str) -> None:
    make, code, args_for = RESOURCES[language]
    executor = make(replace(jobs.site, blocked=LOOPBACK))
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        args = args_for(server.getsockname()[1])
        execution = Execution(job_id="j", workspace_id="w", language=language, code=code, args=args, env={})

        with pytest.raises(ExecutionFailed) as failed:
            jobs.runner.run(executor.run(execution, Log()))

        assert "cannot be reached from jobs" in failed.value.error["message"]
        assert "JOB_BLOCKED_NETWORKS" in failed.value.error["message"]
        with pytest.raises(BlockingIOError):
            server.accept()
