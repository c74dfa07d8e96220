"""Python scripts with packages: how they get them, and what they are told when they cannot."""

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.dependencies import WantedFiles
from tests.workers.job_runs import Jobs, Log
from tests.workers.package_index import PackageIndex, serving
from workers.runtimes import Execution, ExecutionFailed, Imported, Registries
from workers.runtimes.python3 import Python3
from workers.runtimes.python_environments import link_together
from workers.runtimes.python_versions import Python, found_pythons

REPORT = "f/ops/report"


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    """An index that asks for a password, with a few small packages."""
    index = PackageIndex(user="reader:open-sesame")
    index.add_wheel("tiny", "1.0", {"tiny/__init__.py": "VERSION = '1.0'"})
    index.add_wheel("tiny", "2.0", {"tiny/__init__.py": "VERSION = '2.0'"})
    index.add_wheel(
        "plugin", "1.0", {"tiny/plugin.py": "X = 1", "plugin.py": "import tiny"}, needs=["tiny<2"]
    )
    index.add_wheel("future", "1.0", {"future.py": ""}, python=">=3.99")
    index.add_source("fromsource", "1.0", "import os\nBUILT = True")
    index.add_source("unbuildable", "1.0", "", preamble="raise RuntimeError('no compiler here')")
    with serving(index):
        yield index


@pytest.fixture
def private(index: PackageIndex) -> dict[str, Any]:
    """What an execution has to say to use `index`."""
    return {"registries": Registries(pip_index_url=index.url)}


def refusal(jobs: Jobs, code: str, **given: Any) -> str:
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("python3", code, **given)
    assert failed.value.error["name"] == "DependencyError"
    return str(failed.value.error["message"])


# --- packages that the host has ---


def test_packages_of_the_host_are_neither_resolved_nor_installed(jobs: Jobs, private: Any) -> None:
    log = Log()
    local = {"local_packages": frozenset({"plugin", "future"})}

    lock = jobs.lock("python3", "import plugin, future\ndef main(): ...", log=log, **local, **private)

    assert lock == ""
    assert "not resolved, because this worker's host has them: future, plugin" in log.text


def test_a_lock_that_names_them_is_installed_without_them(jobs: Jobs, private: Any) -> None:
    code = """
def main():
    import importlib.util, tiny
    return [tiny.VERSION, importlib.util.find_spec("plugin") is None]
"""
    lock = "# py: 3.11\nplugin==1.0\ntiny==1.0\n"

    ran = jobs.python(code, lock=lock, local_packages=frozenset({"plugin"}), **private)

    assert ran.result == ["1.0", True]


# --- locks ---


def test_imports_become_pins_for_the_python_that_runs_the_script(jobs: Jobs, private: Any) -> None:
    log = Log()

    lock = jobs.lock("python3", "import plugin\ndef main(): ...", log=log, **private)

    assert lock == "# py: 3.11\nplugin==1.0\ntiny==1.0\n"
    assert log.text.startswith("resolving for Python 3.11")
    assert "Resolved 2 packages" in log.text


@pytest.mark.parametrize(
    "code",
    [
        "def main(): ...",
        "import os\ndef main(): ...",
        "import requests\ndef main(:",
        "#requirements:\n\nimport tiny",
    ],
)
def test_a_script_without_packages_has_an_empty_lock(jobs: Jobs, code: str) -> None:
    assert jobs.lock("python3", code) == ""


def test_a_lock_names_the_python_that_was_asked_for(jobs: Jobs) -> None:
    assert jobs.lock("python3", "# py311\ndef main(): ...") == "# py: 3.11\n"


def test_dependency_files_of_the_workspace_count(jobs: Jobs, private: Any) -> None:
    files = WantedFiles(by_name={"": "tiny==2.0", "ml": "plugin"})

    assert jobs.lock("python3", "import x", wanted_files=files, **private).endswith("\ntiny==2.0\n")
    assert "plugin==1.0" in jobs.lock("python3", "#requirements: ml\nimport x", wanted_files=files, **private)


def test_imported_scripts_are_resolved_together_with_the_script(jobs: Jobs, private: Any) -> None:
    imports = {
        "f/ops/lib": Imported(path="f/ops/lib", language="python3", content="import tiny  # pin: tiny<2")
    }

    lock = jobs.lock("python3", "from .lib import x", script_path=REPORT, imports=imports, **private)

    assert lock == "# py: 3.11\ntiny==1.0\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import absent", "There is no package absent in the package index 127.0.0.1:"),
        ("import tiny # pin: tiny==9", "There is no version tiny==9 in the package index"),
        ("#requirements:\n#plugin\n#tiny>=2", "The requirements contradict each other.\n"),
        ("import future", "future==1.0 needs Python >=3.99; this is 3.11"),
        ("import unbuildable", "unbuildable==1.0 has to be built from its source, and that fails"),
        ("#requirements:\n#-e ./here", "'-e ./here' is an option of pip"),
        ("#requirements: nothere", "this workspace has no dependency file nothere for Python"),
        ("# py: 3.99", "This script asks for Python ==3.99.*, which this worker does not have; it has 3.11"),
    ],
)
def test_what_cannot_be_had_is_named_with_the_reason(
    jobs: Jobs, private: Any, code: str, expected: str
) -> None:
    assert expected in refusal(jobs, code, **private)


def test_a_module_that_no_package_brought_comes_with_a_hint(jobs: Jobs) -> None:
    ran = jobs.python("def main():\n    import yaml", lock="")
    stranger = jobs.python("def main():\n    import xml.nothing", lock="")

    assert ran.error["message"] == "No module named 'yaml'"
    assert "#extra_requirements: on one line, #PyYAML on the next" in ran.log.text
    assert stranger.log.text == ""


def test_how_uv_put_it_is_shown_too(jobs: Jobs, private: Any) -> None:
    message = refusal(jobs, "#requirements:\n#plugin\n#tiny>=2", **private)

    assert "all versions of plugin depend on tiny<2" in message.replace("\n", " ")


def test_a_registry_that_stays_silent_is_named_after_a_while(jobs: Jobs) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        registries = Registries(pip_index_url=f"http://{host}/simple")
        execution = Execution(
            job_id="j",
            workspace_id="w",
            language="python3",
            code="import tiny",
            args={},
            env={},
            registries=registries,
        )

        with pytest.raises(ExecutionFailed) as failed:
            jobs.runner.run(Python3(jobs.site, registry_timeout_s=1).resolve(execution, Log()))

    assert failed.value.error["message"].startswith(
        f"The package registry {host} does not answer within 1 seconds."
    )


def test_a_registry_that_is_not_there_is_named(jobs: Jobs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    registries = Registries(pip_index_url=f"http://127.0.0.1:{port}/simple")

    message = refusal(jobs, "import tiny", registries=registries)

    assert message.startswith(f"The package registry 127.0.0.1:{port} cannot be reached: Connection refused")


def test_a_registry_that_refuses_access_is_named_without_the_password(
    jobs: Jobs, index: PackageIndex
) -> None:
    url = index.url.replace("open-sesame", "wrong-secret")
    log = Log()

    message = refusal(jobs, "import tiny", registries=Registries(pip_index_url=url), log=log)

    assert message.startswith(
        f"The package registry 127.0.0.1:{index.port} refuses access (401 Unauthorized)"
    )
    assert "wrong-secret" not in message + log.text


def test_several_registries_are_asked(jobs: Jobs, index: PackageIndex) -> None:
    other = PackageIndex()
    other.add_wheel("elsewhere", "1.0", {"elsewhere.py": ""})
    with serving(other):
        registries = Registries(pip_index_url=other.url, pip_extra_index_urls=(index.url,))

        lock = jobs.lock("python3", "import tiny, elsewhere", registries=registries)

    assert lock == "# py: 3.11\nelsewhere==1.0\ntiny==2.0\n"


# --- environments ---


def test_packages_are_installed_once_and_the_log_says_so(
    jobs: Jobs, index: PackageIndex, private: Any
) -> None:
    code = "import tiny, plugin, tiny.plugin\ndef main():\n    return [tiny.VERSION, tiny.plugin.X]"
    lock = "plugin==1.0\ntiny==1.0"

    first = jobs.python(code, lock=lock, **private)
    fetched = index.downloads("plugin")
    second = jobs.python(code, lock=lock, **private)

    assert first.result == second.result == ["1.0", 1]
    assert "installing 2 packages for Python 3.11\n" in first.log.text
    assert "+ plugin==1.0 (" in first.log.text
    assert second.log.text == ""
    assert index.downloads("plugin") == fetched
    assert "open-sesame" not in first.log.text


def test_another_lock_uses_the_packages_that_are_there(jobs: Jobs, index: PackageIndex, private: Any) -> None:
    jobs.python("def main(): ...", lock="tiny==1.0", **private)
    fetched = index.downloads("tiny")

    ran = jobs.python(
        "import fromsource\ndef main():\n    return fromsource.BUILT",
        lock="fromsource==1.0\ntiny==1.0",
        **private,
    )

    assert ran.result is True
    assert "fromsource==1.0 has no wheel that fits: it is built from its source" in ran.log.text
    assert "installed 1 package in" in ran.log.text and "1 had been installed before" in ran.log.text
    assert index.downloads("tiny") == fetched


@pytest.mark.parametrize("file", ["tiny-1.0-py3-none-any.whl", "fromsource-1.0.tar.gz"])
def test_a_package_may_come_from_an_address_of_its_own(
    jobs: Jobs, index: PackageIndex, private: Any, file: str
) -> None:
    name = file.partition("-")[0]
    address = index.url.replace("/simple", f"/files/{file}")
    code = f"#requirements:\n#{name} @ {address}\nimport {name}\ndef main():\n    return {name}.__name__"
    log = Log()

    ran = jobs.python(code, lock=jobs.lock("python3", code, log=log, **private), **private)

    assert ran.result == name
    assert "open-sesame" not in log.text + ran.log.text


def test_jobs_that_start_together_install_once(jobs: Jobs, index: PackageIndex, private: Any) -> None:
    index.add_wheel("shared", "1.0", {"shared.py": "X = 1"})
    code = "import shared\ndef main():\n    return shared.X"

    async def both() -> list[Any]:
        return await asyncio.gather(
            *(jobs.run("python3", code, lock="shared==1.0", **private) for _ in range(3))
        )

    assert [ran.result for ran in jobs.runner.run(both())] == [1, 1, 1]
    assert index.downloads("shared") == 1


def test_packages_that_vanished_are_installed_again(jobs: Jobs, private: Any) -> None:
    code = "import tiny\ndef main():\n    return tiny.VERSION"
    jobs.python(code, lock="tiny==2.0", **private)
    for kind in ("python-environments", "python-packages"):
        shutil.rmtree(jobs.site.cache_dir / kind)

    again = jobs.python(code, lock="tiny==2.0", **private)

    assert again.result == "2.0"
    assert "+ tiny==2.0" in again.log.text


def test_packages_come_with_their_bytecode_and_cannot_be_changed_by_jobs(jobs: Jobs, private: Any) -> None:
    code = """
import os, tiny
def main():
    try:
        open(tiny.__file__, "a")
    except OSError as error:
        return [os.path.exists(tiny.__cached__), error.strerror]
"""
    has_bytecode, refusal = jobs.python(code, lock="tiny==2.0", **private).result

    assert has_bytecode
    assert refusal in ("Permission denied", "Read-only file system")


def test_what_another_registry_has_under_the_same_name_is_another_package(jobs: Jobs, private: Any) -> None:
    other = PackageIndex()
    other.add_wheel("tiny", "2.0", {"tiny/__init__.py": "VERSION = 'of others'"})
    code = "import tiny\ndef main():\n    return tiny.VERSION"
    with serving(other):
        theirs = jobs.python(code, lock="tiny==2.0", registries=Registries(pip_index_url=other.url))

    assert theirs.result == "of others"
    assert jobs.python(code, lock="tiny==2.0", **private).result == "2.0"


@pytest.mark.parametrize(
    "lock",
    [
        "# py: 3.11\ntiny==2.0\n    # via plugin\n",
        "# py311\ntiny==2.0",
        "# py: 3.11.9\r\n# why\r\n--index-url https://x.invalid/simple\r\ntiny==2.0 ; python_version > '3'\r\n",
    ],
)
def test_locks_that_somebody_supplies_work(jobs: Jobs, private: Any, lock: str) -> None:
    assert (
        jobs.python("import tiny\ndef main():\n    return tiny.VERSION", lock=lock, **private).result == "2.0"
    )


def test_a_lock_with_hashes_is_checked_against_them(jobs: Jobs, private: Any) -> None:
    ran = jobs.python("def main(): ...", lock="tiny==2.0 --hash=sha256:" + "0" * 64, **private)

    assert ran.error["name"] == "DependencyError"
    assert ran.error["message"].startswith(
        "What the registry has as tiny==2.0 is not what the lock was made of"
    )


@pytest.mark.parametrize(
    "lock",
    ["-r /etc/passwd", "tiny @ file:///etc/passwd", "/etc/passwd", "--find-links /tmp\ntiny==1.0", "-e /tmp"],
)
def test_a_lock_that_reaches_for_files_is_refused(jobs: Jobs, lock: str) -> None:
    error = jobs.python("def main(): ...", lock=lock).error

    assert error["name"] == "DependencyError"
    assert error["message"].startswith("the lock, line 1: ")


def test_a_package_that_cannot_be_installed_fails_the_job_with_the_reason(jobs: Jobs, private: Any) -> None:
    error = jobs.python("def main(): ...", lock="unbuildable==1.0", **private).error

    assert error["message"].startswith("unbuildable==1.0 has to be built from its source, and that fails.")
    assert "no compiler here" in error["message"]


def test_a_build_sees_no_package_of_others_to_change(jobs: Jobs, index: PackageIndex, private: Any) -> None:
    spoil = (
        "import pathlib\n"
        f"for one in pathlib.Path({str(jobs.site.cache_dir)!r}).glob('python-*/*/tiny/__init__.py'):\n"
        "    one.write_text('VERSION = 666')\n"
    )
    index.add_source("hostile", "1.0", "", preamble=spoil)
    code = "import tiny\ndef main():\n    return tiny.VERSION"
    jobs.python(code, lock="tiny==2.0", **private)

    jobs.python("def main(): ...", lock="hostile==1.0", **private)

    assert jobs.python(code, lock="tiny==2.0", **private).result == "2.0"


def test_packages_are_put_together_without_following_links_that_a_build_left(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of the worker")
    honest, linked = tmp_path / "honest", tmp_path / "linked"
    (honest / "sub").mkdir(parents=True)
    (honest / "sub" / "file").symlink_to(secret)
    (honest / "folder").symlink_to(tmp_path)
    (honest / "sub" / "module.py").write_text("x = 1")
    linked.symlink_to(tmp_path)
    together = tmp_path / "together"

    link_together([linked, honest, tmp_path / "absent"], together)

    assert sorted(str(path.relative_to(together)) for path in together.rglob("*")) == ["sub", "sub/module.py"]
    assert (together / "sub" / "module.py").samefile(honest / "sub" / "module.py")


def test_where_packages_have_the_same_file_that_of_the_first_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "b").mkdir(parents=True)
    (first / "a").write_text("first")
    (second / "a").mkdir(parents=True)
    (second / "a" / "inner").write_text("second")
    (second / "b").write_text("second")
    (second / "c").write_text("second")
    together = tmp_path / "together"

    link_together([first, second], together)

    assert sorted(path.name for path in together.rglob("*")) == ["a", "b", "c"]
    assert (together / "a").read_text() == "first"


# --- packages of the world ---


def test_a_well_known_package_is_locked_installed_and_imported(jobs: Jobs) -> None:
    code = "import requests\ndef main():\n    return requests.__version__"

    lock = jobs.lock("python3", code)
    ran = jobs.python(code, lock=lock)

    assert f"\nrequests=={ran.result}\n" in lock
    assert "\nurllib3==" in lock


def test_the_client_of_windmill_can_be_imported(jobs: Jobs) -> None:
    code = "import wmill\ndef main():\n    return callable(wmill.get_variable)"

    assert jobs.python(code, lock=jobs.lock("python3", code)).result is True


def test_a_package_that_exists_only_as_source_is_built(jobs: Jobs) -> None:
    code = "import docopt\ndef main():\n    return docopt.__version__"

    lock = jobs.lock("python3", code)

    assert lock == "# py: 3.11\ndocopt==0.6.2\n"
    assert jobs.python(code, lock=lock).result == "0.6.2"


def test_data_frames_become_rows(jobs: Jobs) -> None:
    code = """
import pandas as pd
import polars as pl
def main():
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, float("nan")], "at": pd.to_datetime(["2024-01-02", None])})
    return {"pandas": frame, "polars": pl.DataFrame({"a": [1, None], "b": ["x", "y"]}), "one": frame["n"].sum()}
"""
    lock = jobs.lock("python3", code)

    assert jobs.python(code, lock=lock).result == {
        "pandas": [[1, 0.5, "2024-01-02 00:00:00"], [2, None, None]],
        "polars": [[1, "x"], [None, "y"]],
        "one": 3,
    }


# --- other Pythons ---


OTHERS = [python for python in found_pythons() if python.minor != found_pythons()[0].minor]


@pytest.mark.parametrize("python", OTHERS, ids=lambda python: python.version)
def test_a_script_runs_on_the_python_it_asks_for(jobs: Jobs, private: Any, python: Python) -> None:
    code = (
        f"# py: {python.minor}\n"
        + """
import sys, tiny
from datetime import datetime
def main(at: datetime, data: bytes):
    print("hello")
    yield ".".join(map(str, sys.version_info[:3]))
    yield f" {tiny.VERSION} {at.year} {data.decode()} {tiny.__cached__.rpartition('.')[0].rpartition('.')[2]}"
"""
    )
    lock = jobs.lock("python3", code, **private)

    ran = jobs.python(code, lock=lock, args={"at": "2024-12-31T23:59:00Z", "data": "aGk="}, **private)

    assert lock == f"# py: {python.minor}\ntiny==2.0\n"
    assert ran.result == f"{python.version} 2.0 2024 hi cpython-{python.minor.replace('.', '')}"
    assert ran.log.text.endswith("hello\n")


@pytest.mark.parametrize("python", OTHERS[:1], ids=lambda python: python.version)
def test_an_empty_lock_leaves_the_python_to_the_script(jobs: Jobs, python: Python) -> None:
    code = f"# py: {python.minor}\nimport sys\ndef main():\n    return '%d.%d' % sys.version_info[:2]"

    assert jobs.python(code, lock="").result == python.minor


def test_a_lock_for_a_python_that_is_gone_runs_on_another_one_and_says_so(jobs: Jobs) -> None:
    ran = jobs.python("def main():\n    return 1", lock="# py: 3.99\n")

    assert ran.result == 1
    assert ran.log.text.startswith(
        "this script's lock was made for Python 3.99, which this worker does not have"
    )


def test_a_python_that_is_not_there_is_refused_when_the_script_asks_for_it(jobs: Jobs) -> None:
    error = jobs.python("# py: 3.99\ndef main(): ...", lock="# py: 3.99\n").error

    assert error["name"] == "DependencyError"
    assert (
        "This script asks for Python ==3.99.*, which this worker does not have; it has 3." in error["message"]
    )
    assert "uv python install 3.99" in error["message"]


def test_packages_that_are_imported_again_and_again_are_loaded_before_the_job(jobs: Jobs) -> None:
    code = "import sys\nloaded = 'idna' in sys.modules\nimport idna\ndef main():\n    return loaded"
    lock = jobs.lock("python3", code)

    async def until_loaded() -> None:
        async with asyncio.timeout(30):
            while not (await jobs.run("python3", code, lock=lock)).result:
                await asyncio.sleep(0.05)

    jobs.runner.run(until_loaded())
