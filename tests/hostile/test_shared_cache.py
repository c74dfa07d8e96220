"""What jobs have in common stays as the worker made it, whoever tries to change it."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostile.conftest import Place
from workers.cache import state_folder
from workers.runtimes import ExecutionFailed
from workers.runtimes.tool_runs import run_tool
from workers.sandbox import ownership


def fingerprint(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, owner and content of all that is in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_uid,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


ATTACKS = {
    "python3": """
import contextlib, os, shutil, sys
def main(folder: str):
    file = folder + "/useful.py"
    for act in (
        lambda: open(file, "w").write("useful = False"),
        lambda: os.remove(file),
        lambda: os.rename(folder, folder + "-moved"),
        lambda: os.link(file, folder + "/sitecustomize.py"),
        lambda: os.symlink("/tmp/job", folder + "/planted.pth"),
        lambda: os.makedirs(folder + "/__pycache__"),
        lambda: os.chmod(folder, 0o777),
        lambda: os.chown(folder, os.getuid(), os.getgid()),
        lambda: os.utime(file, (0, 0)),
        lambda: os.truncate(file, 0),
        lambda: shutil.rmtree(folder, ignore_errors=True),
        lambda: os.setxattr(file, "user.x", b"y"),
    ):
        with contextlib.suppress(OSError):
            act()
    sys.path.insert(0, folder)
    import useful
    return useful.useful
""",
    "bash": """
folder="$1"
for attempt in "rm -rf $folder" "touch $folder/x.pth" "mv $folder $folder-moved" "chmod -R 777 $folder" \\
    "truncate -s 0 $folder/useful.py" "ln -sf /tmp/job $folder/node_modules" "cp main.sh $folder/useful.py" \\
    "mount -o remount,rw $folder" "mount --bind /tmp/job $folder" "dd of=$folder/useful.py if=/dev/zero count=1"; do
    $attempt 2>/dev/null || true
done
grep -c 'useful = True' "$folder/useful.py"
""",
    "bun": """
import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
export function main(folder: string) {
  for (const act of [
    () => writeFileSync(folder + "/useful.py", "useful = False"),
    () => appendFileSync(folder + "/useful.py", "useful = False"),
    () => mkdirSync(folder + "/node_modules"),
    () => symlinkSync("/tmp/job", folder + "/bunfig.toml"),
    () => renameSync(folder, folder + "-moved"),
    () => rmSync(folder, { recursive: true, force: true }),
  ]) {
    try {
      act();
    } catch {}
  }
  return true;
}
""",
}


@pytest.mark.parametrize("language", ATTACKS)
def test_a_package_in_the_cache_stays_what_it_is(place: Place, language: str) -> None:
    cache = place.jobs.site.cache_dir
    before = fingerprint(cache)
    folder = next(path for path in cache.rglob("useful.py")).parent

    ran = place.run(language, ATTACKS[language], args={"folder": str(folder)})

    assert ran.result in (True, "1"), ran.error
    assert fingerprint(cache) == before


def test_what_says_who_uses_the_cache_is_out_of_sight(place: Place) -> None:
    """Whoever can open a file can hold a lock on it, and with that every installation up."""
    state = state_folder(place.jobs.site.cache_dir)
    lock = state / "python-packages" / "locks" / ("cd" * 32)
    lock.parent.mkdir(parents=True, exist_ok=True)
    for path in (lock, lock.parent, lock.parent.parent, state):
        path.touch()
        path.chmod(0o777)  # as if it were the job's own user who made them

    ran = place.run("bash", f"cat {lock} || ls -A {state} || flock -n {state} true || echo refused")

    assert ran.result == "refused"


# What fills the disk with, and what of it the worker can still see: a job hides what it likes from its own user.
FLOODS = {
    "one file": "head -c 100M /dev/zero > {folder}/large",
    "many files": "for i in $(seq 100); do head -c 1M /dev/zero > {folder}/$i; done",
    "in a folder that nobody may open": "mkdir {folder}/x; head -c 100M /dev/zero > {folder}/x/y; chmod 0 {folder}/x",
}


@pytest.mark.parametrize("how", FLOODS)
def test_an_installation_that_fills_the_disk_is_stopped(place: Place, how: str) -> None:
    """Packages run code of their authors while they are built, and the folder for that is on the worker's disk."""
    site = replace(place.jobs.site, cache_max_bytes=20 << 20)
    folder = site.cache_dir / "flood"
    folder.mkdir()
    if place.jobs.host.isolation == "user-namespaces":
        folder.chmod(
            0o777
        )  # these tests run as root, and make a host of an ordinary user by giving its rights up
    try:
        with pytest.raises(ExecutionFailed, match="it wrote more than 20 MB") as failed:
            flood = FLOODS[how].format(folder=folder)
            place.jobs.runner.run(
                run_tool(site, ["sh", "-c", f"{flood}; sleep 600"], writable=[folder], timeout_s=60)
            )
    finally:
        ownership.remove(str(folder))

    assert failed.value.error["name"] == "ToolKilled"
    place.assert_sound()


def test_an_installation_that_stays_below_is_left_alone(place: Place) -> None:
    site = replace(place.jobs.site, cache_max_bytes=20 << 20)
    folder = site.cache_dir / "small"
    folder.mkdir()
    folder.chmod(0o777)
    try:
        command = f"head -c 5M /dev/zero > {folder}/file; sleep 0.6"
        ended = place.jobs.runner.run(run_tool(site, ["sh", "-c", command], writable=[folder]))
    finally:
        ownership.remove(str(folder))

    assert ended.exit_code == 0
