"""What jobs have in common stays as the worker made it, whoever tries to change it."""

import hashlib
from pathlib import Path

import pytest

from tests.hostile.conftest import Place
from workers.cache import state_folder


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
