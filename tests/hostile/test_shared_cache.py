"""What jobs have in common stays as the worker made it, whoever tries to change it."""

import hashlib
from pathlib import Path

import pytest

from tests.hostile.conftest import Place


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


def test_a_lock_of_the_cache_cannot_be_taken_by_a_job(place: Place) -> None:
    cache = place.jobs.site.cache_dir
    for folder in (cache / "python-packages" / ".locks", cache / "python-packages" / ".used"):
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ("cd" * 32)).touch(mode=0o600)
    code = """
import fcntl, os
def main(paths: list):
    taken = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken.append(path)
        except OSError:
            pass
    return taken
"""
    paths = [str(path) for path in cache.rglob("*") if path.is_file() and path.suffix != ".py"]

    assert len(paths) == 2
    assert place.run("python3", code, args={"paths": paths}).result == []
