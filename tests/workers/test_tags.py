"""Which tags a worker listens to."""

import re

import pytest

from workers.tags import resolve_tags, worker_name

LANGUAGES = ["python3", "bash"]


@pytest.mark.parametrize(
    ("group", "forced", "configured", "from_environment", "tags"),
    [
        ("default", [], None, [], ["python3", "bash", "dependency", "flow", "other"]),
        ("default", ["gpu"], ["bash"], ["flow"], ["gpu"]),
        ("default", [], ["bash", "gpu"], ["flow", "gpu"], ["bash", "gpu", "flow"]),
        ("gpu", [], ["bash", "gpu"], ["flow"], ["bash", "gpu"]),
        ("gpu", [], None, ["flow"], ["flow"]),
    ],
)
def test_forced_then_configured_then_environment_then_everything(
    group: str, forced: list[str], configured: list[str] | None, from_environment: list[str], tags: list[str]
) -> None:
    resolved = resolve_tags(
        group=group,
        languages=LANGUAGES,
        forced=forced,
        configured=configured,
        from_environment=from_environment,
    )

    assert resolved == (tags, [])


def test_a_language_that_cannot_be_run_is_left_out() -> None:
    resolved = resolve_tags(
        group="default", languages=LANGUAGES, forced=["go", "python3"], configured=None, from_environment=[]
    )

    assert resolved == (["python3"], ["go"])


@pytest.mark.parametrize(
    ("group", "configured", "from_environment", "tags"),
    [
        ("gpu", None, ["bash"], ["acme:f/x", "flow"]),
        ("gpu", ["bash", "flow"], [], ["bash", "flow", "acme:f/x"]),
        ("default", ["bash"], ["gpu"], ["bash", "acme:f/x", "flow"]),
    ],
)
def test_a_dedicated_worker_listens_for_what_it_is_dedicated_to(
    group: str, configured: list[str] | None, from_environment: list[str], tags: list[str]
) -> None:
    resolved = resolve_tags(
        group=group,
        languages=LANGUAGES,
        forced=[],
        configured=configured,
        from_environment=from_environment,
        dedicated=["acme:f/x", "flow"],
    )

    assert resolved == (tags, [])


@pytest.mark.parametrize(
    ("configured", "tags", "left_out"),
    [
        (None, ["postgresql", "graphql"], []),
        (["graphql", "slow-sql", "python3", "flow"], ["graphql", "slow-sql"], ["python3", "flow"]),
    ],
)
def test_a_native_worker_takes_native_work_only(
    configured: list[str] | None, tags: list[str], left_out: list[str]
) -> None:
    resolved = resolve_tags(
        group="native",
        languages=["postgresql", "graphql"],
        forced=[],
        configured=configured,
        from_environment=[],
        native=True,
    )

    assert resolved == (tags, left_out)


def test_a_worker_is_named_after_group_and_host() -> None:
    name = worker_name(group="gpu", hostname="ip-10-0-0-12.ec2.internal")

    assert re.fullmatch(r"wk-gpu-[A-Za-z0-9-]{1,12}-[A-Za-z0-9]{5}", name)
    assert name != worker_name(group="gpu", hostname="ip-10-0-0-12.ec2.internal")
