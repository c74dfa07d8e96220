"""Warm processes of a worker that runs, while the configuration of its group changes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.tenancy import make_account, make_workspace
from tests.workers.dedicated_lane.conftest import TAG
from workers import pg_runtimes
from workers.dedicated import processes
from workers.groups import configs
from workspaces.access import Identity
from workspaces.models import InstanceSetting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def configure(transactional_db: None) -> Callable[..., configs.Change]:
    """Write the configuration of group `default`."""
    make_account("root@example.com", super_admin=True)
    make_workspace("admins", admin="root@example.com")
    root = Identity(email="root@example.com", super_admin=True)
    return lambda **config: configs.update(name="default", config=config, actor=root)


def test_new_variables_and_limits_of_the_group_reach_scripts_that_are_loaded(
    configure: Any, deploy: Any, run: Any, start_process: Any, outcomes: Any, wait_until: Any
) -> None:
    code = (
        "import os, resource\nn = 0\n"
        "def main():\n    global n\n    n += 1\n"
        "    return [n, os.environ.get('REGION'), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]\n"
    )
    script = deploy(code)
    configure(dedicated_workers=[TAG], env_vars_static={"REGION": "eu"})
    start_process()
    first = outcomes([run(script), run(script)])

    configure(dedicated_workers=[TAG], env_vars_static={"REGION": "us"}, job_limits={"open_files": 99})

    assert [result[:2] for result in first] == [[1, "eu"], [2, "eu"]]
    count, _, limit = wait_until(
        lambda: next((one for one in outcomes([run(script)]) if one[1] == "us"), None), timeout_s=40
    )
    assert (count, limit) == (1, 99)


def test_new_limits_of_the_instance_reach_scripts_that_are_loaded(
    deploy: Any, run: Any, start: Any, outcomes: Any, wait_until: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(pg_runtimes, "_SETTINGS_AGE_S", 0.05)
    monkeypatch.setattr(processes, "_LIMITS_AGE_S", 0.05)
    code = (
        "import resource\nn = 0\n"
        "def main():\n    global n\n    n += 1\n"
        "    return [n, resource.getrlimit(resource.RLIMIT_NOFILE)[0]]\n"
    )
    script = deploy(code)
    start()
    before = outcomes([run(script), run(script)])

    InstanceSetting.objects.update_or_create(name="job_limits", defaults={"value": {"open_files": 99}})

    assert [count for count, _ in before] == [1, 2] and before[0][1] != 99
    count, limit = wait_until(
        lambda: next((one for one in outcomes([run(script)]) if one[1] == 99), None), timeout_s=40
    )
    assert (count, limit) == (1, 99)


def test_a_script_that_grows_from_job_to_job_has_a_new_process_before_one_of_them_fails(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    code = (
        "# limits: memory=128MB\nimport time\nkept = []\n"
        "def main():\n"
        "    kept.append(b'x' * (18 << 20))\n"
        "    time.sleep(0.6)\n"  # the guard looks four times a second
        "    return len(kept)\n"
    )
    script = deploy(code)
    start()

    counts = outcomes([run(script) for _ in range(8)])

    assert counts == [1, 2, 3, 4, 5, 6, 1, 2]
