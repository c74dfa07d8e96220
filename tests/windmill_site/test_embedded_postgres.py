"""The embedded PostgreSQL: who gets in, what survives, who may stop it."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from windmill_site.child_process import Account, before_exec
from windmill_site.data_folder import DataFolder, StartError
from windmill_site.embedded_postgres import EmbeddedPostgres

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return DataFolder(tmp_path_factory.mktemp("instance"))


@pytest.fixture
def postgres(data):
    """A running server; the tests of this module share its data."""
    server = EmbeddedPostgres(data, durable=False)
    server.start(dies_with_us=True)
    yield server
    server.stop(even_if_used=True)


def query(dsn, statement):
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_the_application_connects_with_its_password_and_is_no_superuser(postgres):
    rows = query(postgres.dsn(), "SELECT current_user, current_database(), current_setting('is_superuser')")

    assert rows == [("windmill", "windmill", "off")]


@pytest.mark.parametrize("role", ["windmill", "postgres"])
@pytest.mark.parametrize("password", ["", "wrong"])
def test_nobody_gets_in_without_the_password(postgres, role, password):
    socket_folder = postgres.folder.path / "run"
    host = socket_folder if (socket_folder / ".s.PGSQL.5432").exists() else postgres._pid_file()[4]

    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=str(host), user=role, password=password, dbname="windmill")


def test_it_listens_on_a_socket_in_a_closed_folder_and_nowhere_else(postgres):
    ((addresses,),) = query(postgres.dsn(), "SHOW listen_addresses")
    ((folder,),) = query(postgres.dsn(), "SHOW unix_socket_directories")

    assert addresses == ""
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_passwords_and_data_are_readable_by_their_owner_alone(postgres):
    secrets = postgres.folder.secrets

    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o600}
    assert stat.S_IMODE(postgres.cluster.stat().st_mode) == 0o700


def test_passwords_and_queries_are_kept_out_of_its_log(postgres):
    with pytest.raises(psycopg.Error):
        query(postgres.dsn(), "SELECT 'classified' FROM no_such_table")

    def logs():
        return "".join(path.read_text() for path in (postgres.cluster / "log").glob("*.log"))

    until(lambda: "no_such_table" in logs())  # the collector writes when it gets to it
    assert "classified" not in logs()


def test_data_and_password_survive_a_restart(postgres):
    query(postgres.dsn(), "CREATE TABLE kept AS SELECT 42 AS answer")
    postgres.stop()
    assert not postgres.is_running()

    postgres.start()

    assert query(postgres.dsn(), "SELECT answer FROM kept") == [(42,)]
    query(postgres.dsn(), "DROP TABLE kept")


def test_a_second_user_joins_and_the_last_one_out_stops_it(postgres):
    second = EmbeddedPostgres(postgres.folder)

    assert second.start() is False
    assert postgres.stop() is False
    assert query(second.dsn(), "SELECT 1") == [(1,)]
    assert second.stop() is True
    assert not second.is_running()


def test_a_killed_server_is_taken_over_with_all_that_was_committed(postgres):
    # As a durable server would by itself: these tests run without.
    query(postgres.dsn(), "SET synchronous_commit = on; CREATE TABLE committed AS SELECT 1 AS one")
    process = psutil.Process(postgres.pid)
    process.kill()
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)

    again = EmbeddedPostgres(postgres.folder, durable=False)
    try:
        assert again.start() is True
        assert query(again.dsn(), "SELECT one FROM committed") == [(1,)]
    finally:
        again.stop(even_if_used=True)


def test_a_leftover_pid_file_that_names_a_living_process_is_no_obstacle(postgres):
    assert postgres.stop()
    (postgres.cluster / "postmaster.pid").write_text(
        f"{os.getpid()}\n{postgres.cluster}\n1\n5432\n/x\n\n\nready\n"
    )

    assert not postgres.is_running()
    assert postgres.start(dies_with_us=True) is True
    assert query(postgres.dsn(), "SELECT 1") == [(1,)]


def test_lost_passwords_are_replaced(postgres):
    postgres.stop()
    old = postgres.folder.secret("postgres-password")
    (postgres.folder.secrets / "postgres-password").unlink()

    postgres.start(dies_with_us=True)

    assert old not in postgres.dsn()
    assert query(postgres.dsn(), "SELECT 1") == [(1,)]


def test_data_of_another_major_version_is_refused_with_a_sentence(postgres):
    postgres.stop()
    version = postgres.cluster / "PG_VERSION"
    version.write_text("15\n")

    with pytest.raises(StartError, match=r"was written by PostgreSQL 15; this release brings 18"):
        postgres.start()

    version.write_text("18\n")


def test_a_folder_too_deep_for_a_socket_gets_one_elsewhere_just_as_closed(tmp_path):
    server = EmbeddedPostgres(DataFolder(tmp_path / ("deep" * 20) / "with a space"), durable=False)
    server.start(dies_with_us=True)
    try:
        ((folder,),) = query(server.dsn(), "SHOW unix_socket_directories")

        assert len(folder) < 60
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    finally:
        server.stop(even_if_used=True)
    assert not Path(folder).exists()


def test_an_interrupted_first_start_begins_anew(tmp_path):
    (tmp_path / "postgres.new" / "base").mkdir(parents=True)
    server = EmbeddedPostgres(DataFolder(tmp_path), durable=False)

    server.start(dies_with_us=True)
    server.stop(even_if_used=True)

    assert (tmp_path / "postgres" / "PG_VERSION").exists()
    assert not (tmp_path / "postgres.new").exists()


def test_files_that_are_no_cluster_are_left_alone(tmp_path):
    precious = tmp_path / "postgres" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("chapter one")

    with pytest.raises(StartError, match="holds files but no PostgreSQL data"):
        EmbeddedPostgres(DataFolder(tmp_path)).start()

    assert precious.read_text() == "chapter one"


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StartError, match=r"data folder .*/file/data cannot be written: Not a directory"):
        EmbeddedPostgres(DataFolder(tmp_path / "file" / "data")).start()


def test_it_goes_down_with_the_process_that_owns_it(data):
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from pathlib import Path\n"
            "from windmill_site.data_folder import DataFolder\n"
            "from windmill_site.embedded_postgres import EmbeddedPostgres\n"
            "EmbeddedPostgres(DataFolder(Path(sys.argv[1])), durable=False).start(dies_with_us=True)\n"
            "print('ready', flush=True)\n"
            "sys.stdin.read()\n",
            data.path,
        ],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout.readline() == "ready\n"
    server = EmbeddedPostgres(data)
    assert server.is_running()

    owner.kill()
    owner.communicate()

    until(lambda: not server.is_running())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up its account")
def test_a_closed_folder_is_passed_with_one_capability_and_no_other_right(tmp_path):
    tmp_path.chmod(0o700)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nid -u; grep CapEff /proc/self/status\n")
    program.chmod(0o755)
    asked = ["sh", "-c", 'test -x "$1" && "$1"', "sh", program]
    nobody = Account(uid=65534, gid=65534)

    closed = subprocess.run(asked, preexec_fn=before_exec(account=nobody), capture_output=True, text=True)
    passed = subprocess.run(
        asked,
        preexec_fn=before_exec(account=nobody, may_pass_closed_folders=True),
        capture_output=True,
        text=True,
    )

    assert closed.returncode != 0
    assert passed.stdout == "65534\nCapEff:\t0000000000000004\n"
