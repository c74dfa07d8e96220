"""What the configuration of a worker group may say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.groups import schema
from workers.groups.schema import GroupConfig
from workspaces.errors import BadRequest
from workspaces.job_limits import AskedLimits

FULL: dict[str, Any] = {
    "worker_tags": ["python3", "gpu", "acme:f/team/script"],
    "priority_tags": {"gpu": 100, "python3": 0},
    "dedicated_worker": "acme:f/team/script",
    "dedicated_workers": ["acme:flow/f/team/flow", "acme:f/team/script"],
    "native_mode": False,
    "init_bash": "apt-get install -y jq",
    "periodic_script_bash": "df -h",
    "periodic_script_interval_seconds": 60,
    "env_vars_static": {"REGION": "eu", "_EMPTY": ""},
    "env_vars_allowlist": ["AWS_PROFILE"],
    "additional_python_paths": ["/opt/lib/python"],
    "pip_local_dependencies": ["numpy", "torch==2.4.0", "requests[socks]>=2"],
    "job_limits": {"memory_mb": 512},
    "network": "none",
    "cache_clear": 3,
    "min_alive_workers_alert_threshold": 2,
    "autoscaling": {"enabled": True, "min_workers": 1, "max_workers": 4, "integration": {"type": "dryrun"}},
}


def test_a_configuration_with_every_field_is_accepted_as_it_is() -> None:
    assert schema.checked(FULL) == FULL


def test_a_worker_reads_what_it_says() -> None:
    assert schema.read(FULL) == GroupConfig(
        worker_tags=["python3", "gpu", "acme:f/team/script"],
        priority_tags={"gpu": 100},
        dedicated=["acme:f/team/script", "acme:flow/f/team/flow"],
        init_bash="apt-get install -y jq",
        periodic_script_bash="df -h",
        periodic_interval_s=60,
        env_vars_static={"REGION": "eu", "_EMPTY": ""},
        env_vars_allowlist=["AWS_PROFILE"],
        additional_python_paths=["/opt/lib/python"],
        pip_local_dependencies=["numpy", "torch==2.4.0", "requests[socks]>=2"],
        job_limits=AskedLimits(memory_bytes=512 << 20),
        network="none",
        cache_clear=3,
        min_alive_workers=2,
        problems=[],
    )


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ([], "JSON object"),
        ({"worker_tags": "gpu"}, "worker_tags is the text 'gpu'; expected a list"),
        ({"worker_tags": ["gpu", 1]}, r"worker_tags\[1\] is the number 1"),
        ({"worker_tags": ["gpu(acme)"]}, r"worker_tags\[0\] is 'gpu\(acme\)'.*custom tags"),
        ({"worker_tags": ["$workspace"]}, r"worker_tags\[0\] is '\$workspace'"),
        ({"worker_tags": [" gpu"]}, r"worker_tags\[0\]"),
        ({"worker_tags": ["x" * 256]}, r"worker_tags\[0\].*255"),
        ({"priority_tags": ["gpu"]}, "priority_tags is a list"),
        ({"priority_tags": {"gpu": 256}}, "priority_tags.gpu is 256; expected a whole number from 0 to 255"),
        ({"priority_tags": {"gpu": True}}, "priority_tags.gpu is True"),
        (
            {"dedicated_worker": "f/team/script"},
            "dedicated_worker: 'f/team/script' names no script or flow; expected workspace:path",
        ),
        ({"dedicated_workers": ["acme:nowhere"]}, r"dedicated_workers\[0\]"),
        ({"init_bash": ["ls"]}, "init_bash is a list; expected a text"),
        ({"init_bash": "nul\x00"}, "NUL"),
        ({"periodic_script_bash": "df"}, "periodic_script_interval_seconds is missing"),
        ({"periodic_script_interval_seconds": 59}, "expected a whole number from 60"),
        ({"env_vars_static": {"A=B": "x"}}, "a name in env_vars_static is 'A=B'"),
        ({"env_vars_static": {"A": 1}}, "env_vars_static.A is the number 1; expected a text"),
        ({"env_vars_allowlist": ["1A"]}, r"env_vars_allowlist\[0\] is '1A'"),
        (
            {"additional_python_paths": ["lib"]},
            r"additional_python_paths\[0\] is 'lib'; expected the absolute",
        ),
        ({"additional_python_paths": ["/"]}, "a folder below /"),
        ({"additional_python_paths": ["/opt/../etc"]}, "without .."),
        ({"pip_local_dependencies": ["-r /etc/passwd"]}, r"pip_local_dependencies\[0\]"),
        ({"job_limits": 5}, "job_limits is 5"),
        ({"job_limits": {"memory_mb": 10**400}}, "job_limits.memory_mb is 1000"),
        ({"network": "host"}, "network is 'host'"),
        ({"cache_clear": -1}, "cache_clear is -1"),
        ({"native_mode": "yes"}, "native_mode is the text 'yes'; expected true or false"),
        ({"min_alive_workers_alert_threshold": 1.5}, "min_alive_workers_alert_threshold is 1.5"),
        ({"autoscaling": {"min_workers": 5, "max_workers": 1}}, "autoscaling.min_workers is 5"),
        ({"autoscaling": {"integration": {}}}, "autoscaling.integration"),
    ],
)
def test_what_is_wrong_is_refused_with_the_field_and_what_would_be_right(config: Any, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        schema.checked(config)


@pytest.mark.parametrize("name", sorted(FULL))
def test_null_is_as_good_as_a_field_that_is_not_there(name: str) -> None:
    config = {**FULL, "periodic_script_bash": None, name: None}

    assert schema.checked(config) == config
    assert schema.difference(config, {key: value for key, value in config.items() if value is not None}) == []


def test_a_field_of_a_newer_version_is_kept_and_reported() -> None:
    config = {"worker_tag": ["gpu"], "from_the_future": {"a": 1}}

    assert schema.checked(config) == config
    assert schema.warnings(config) == [
        "from_the_future is not a field of this version: it is kept and has no effect",
        "worker_tag is not a field of this version: it is kept and has no effect; did you mean worker_tags?",
    ]


def test_what_cannot_have_an_effect_is_reported() -> None:
    said = schema.warnings(
        {"worker_tags": ["a"], "priority_tags": {"b": 1}, "env_vars_static": {"WM_TOKEN": "x"}}
    )

    assert [sentence.partition(" ")[0] for sentence in said] == [
        "env_vars_static.WM_TOKEN",
        "priority_tags.b",
    ]


def test_a_worker_follows_the_rest_of_a_configuration_that_somebody_broke_by_hand() -> None:
    config = schema.read({"worker_tags": ["gpu"], "env_vars_static": {"A": 1}, "cache_clear": None})

    assert (config.worker_tags, config.env_vars_static) == (["gpu"], {})
    assert config.problems == ["env_vars_static.A is the number 1; expected a text"]


def test_differences_say_when_they_take_effect() -> None:
    found = schema.difference(
        {"worker_tags": ["a"], "init_bash": "x", "env_vars_static": {"A": "1"}, "new": 1},
        {"worker_tags": ["b"], "init_bash": "", "env_vars_static": {"A": "2"}, "native_mode": False},
    )

    assert [tuple(one) for one in found] == [
        ("worker_tags", ["a"], ["b"], "live"),
        ("init_bash", "x", "", "restart"),
        ("env_vars_static", {"A": "1"}, {"A": "2"}, "next job"),
        ("new", 1, None, "none"),
    ]


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"worker_tags": ["other"], "priority_tags": {}, "env_vars_static": {}, "job_limits": None}, []),
        ({"init_bash": "true"}, ["init_bash"]),
        ({"dedicated_worker": None, "dedicated_workers": []}, ["dedicated_workers"]),
        # The same said in another way.
        (
            {"dedicated_worker": None, "dedicated_workers": ["acme:f/team/script", "acme:flow/f/team/flow"]},
            [],
        ),
        ({"cache_clear": 4}, ["cache_clear"]),
        ({"periodic_script_interval_seconds": 61}, ["periodic_script_interval_seconds"]),
        ({"native_mode": True}, ["native_mode"]),
        ({"additional_python_paths": []}, ["additional_python_paths"]),
    ],
)
def test_only_what_a_worker_cannot_follow_makes_it_start_again(
    change: dict[str, Any], reasons: list[str]
) -> None:
    old, new = schema.read(FULL), schema.read({**FULL, **change})

    assert schema.restart_reasons(old, new) == reasons


def test_others_see_neither_values_of_variables_nor_scripts_nor_paths_nor_what_we_do_not_know() -> None:
    shown = schema.without_secrets({**FULL, "unknown": "secret"})

    assert shown["env_vars_static"] == {"REGION": "********", "_EMPTY": "********"}
    assert shown["init_bash"] == shown["periodic_script_bash"] == "********"
    assert "unknown" not in shown
    assert shown["worker_tags"] == ["python3", "gpu"]
    assert not {"dedicated_worker", "dedicated_workers"} & set(shown)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(FULL)) | st.text(max_size=8), _json, max_size=5))
def test_any_object_is_accepted_as_it_is_or_refused_and_workers_can_always_read_it(
    config: dict[str, Any],
) -> None:
    try:
        accepted = schema.checked(config)
    except BadRequest as exc:
        assert exc.message
    else:
        assert accepted == config
        assert schema.read(config).problems == []
    parsed = schema.read(config)
    assert schema.restart_reasons(parsed, parsed) == []
    assert schema.difference(config, config) == []
    schema.without_secrets(config)
