"""The launcher, run for real on small copies of the project, with the PATH of poorly equipped machines."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "dirname", "readlink", "cat", "cmp", "df", "awk", "grep", "find", "rm", "mkdir", "mv", "tail")


@pytest.fixture
def machine(tmp_path):
    """A folder to be PATH, with the usual small tools and no Python."""
    bin_folder = tmp_path / "machine bin"
    bin_folder.mkdir()
    for tool in TOOLS:
        (bin_folder / tool).symlink_to(shutil.which(tool))
    return bin_folder


@pytest.fixture
def project(tmp_path):
    """A copy with nothing to install, whose verbs tell how they were called."""
    root = tmp_path / "a project's folder"
    (root / "windmill_site").mkdir(parents=True)
    (root / "tests").mkdir()
    shutil.copy(PROJECT / "windmill", root)
    (root / "requirements.txt").write_text("# nothing\n")
    (root / "tests" / "requirements.txt").write_text("# nothing\n")
    (root / "windmill_site" / "__init__.py").touch()
    (root / "windmill_site" / "tasks.py").write_text(
        "import os, sys; print('ran', sys.argv[1:], os.environ['WINDMILL_CWD'])"
    )
    return root


def program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def launch(root, *arguments, cwd=None, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDMILL_")}
    return subprocess.Popen(
        [root / "windmill", *arguments],
        cwd=cwd,
        env=inherited | {name: str(value) for name, value in environment.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def test_help_has_a_line_for_each_verb(project):
    code, output, _ = answer(launch(project, "help"))

    assert code == 0
    for verb in ("up", "seed", "manage", "test", "check", "bench", "help"):
        assert f"\n  ./windmill {verb} " in output


def test_an_unknown_verb_is_named_and_installs_nothing(project):
    code, _, errors = answer(launch(project, "upp"))

    assert code == 2
    assert "there is no 'upp'" in errors
    assert not (project / ".venv").exists()


def test_the_first_calls_install_once_between_them_and_later_ones_not_at_all(project, tmp_path):
    first_calls = [
        launch(project, "manage", "a b", cwd=tmp_path, WINDMILL_PYTHON=sys.executable) for _ in "12"
    ]
    answers = [answer(call) for call in first_calls]
    index = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}  # nobody listens there
    later = answer(launch(project, "manage", cwd=tmp_path, **index))
    (project / "requirements.txt").write_text("never-heard-of==1.0\n")
    offline = answer(launch(project, "manage", **index))
    offline_again = answer(launch(project, "manage", **index))
    (project / "requirements.txt").write_text("# nothing again\n")
    repaired = answer(launch(project, "manage"))

    assert [code for code, _, _ in answers] == [0, 0], answers
    assert all(output == f"ran ['manage', 'a b'] {tmp_path}\n" for _, output, _ in answers)
    assert "".join(errors for _, _, errors in answers).count("Making .venv") == 1
    assert later == (0, f"ran ['manage'] {tmp_path}\n", "")
    for code, output, errors in (offline, offline_again):
        assert (code, output) == (1, "")
        assert "no package index could be reached" in errors or "no ready-made wheel" in errors
    assert repaired[0] == 0


def test_without_python_it_says_what_to_install(project, machine):
    code, _, errors = answer(launch(project, "up", PATH=machine))

    assert code == 1
    assert "needs Python 3.11 or newer; none was found" in errors
    assert "apt install python3 python3-venv" in errors


def test_broken_shims_and_old_versions_are_passed_over(project, machine):
    program(machine / "python3.13", "echo 'shim: command not found' >&2; exit 127\n")
    program(machine / "python3", "echo 3.9\n")

    code, _, errors = answer(launch(project, "up", PATH=machine))

    assert code == 1
    assert f"the newest found is {machine}/python3 (3.9)" in errors
    assert "command not found" not in errors


def test_a_python_without_the_venv_module_gets_the_package_name(project, machine):
    program(machine / "python3.12", 'case "$2" in *ensurepip*) exit 1 ;; esac; echo 3.12\n')

    code, _, errors = answer(launch(project, "up", PATH=machine))

    assert code == 1
    assert f"{machine}/python3.12 (3.12) has no venv, ensurepip or ssl module" in errors
    assert "apt install python3-venv" in errors


def test_a_later_folder_of_path_helps_out_when_the_first_hit_does_not_run(project, machine, tmp_path):
    shims = tmp_path / "shims"
    shims.mkdir()
    program(shims / "python3.11", "exit 127\n")
    # Stands for a good Python: it has the version and the modules; making a venv with it fails later.
    program(
        machine / "python3.11",
        'case "$2" in *%d.%d*) echo 3.11 ;; *ensurepip*) ;; *fcntl*) ;; *) exit 1 ;; esac\n',
    )

    _, _, errors = answer(launch(project, "up", PATH=f"{shims}:{machine}"))

    assert f"Making .venv with {machine}/python3.11" in errors


def test_windmill_python_that_is_no_program_is_named(project):
    code, _, errors = answer(launch(project, "up", WINDMILL_PYTHON="/nowhere/python"))

    assert code == 1
    assert "WINDMILL_PYTHON is '/nowhere/python'" in errors


def test_a_full_disk_is_told_before_anything_is_downloaded(project, machine):
    program(machine / "df.small", "printf 'x\\nx 1 1 2048 1%% /\\n'\n")
    (machine / "df").unlink()
    (machine / "df.small").rename(machine / "df")

    code, _, errors = answer(
        launch(project, "up", PATH=f"{machine}:{os.environ['PATH']}", WINDMILL_PYTHON=sys.executable)
    )

    assert code == 1
    assert "only 2 MB are free on the disk" in errors
