"""Many dedicated scripts on one worker, in several languages: each has its lane, its process and its own state."""

from collections.abc import Callable
from typing import Any

from jobs import queue
from tests.workers.dedicated_lane.conftest import entry_of

LANES = 20
COUNT = "calls = 0\n\ndef main(x: int = 0):\n    global calls\n    calls += 1\n    return [{own}, calls, x]\n"
DENO = """
let calls = 0;

export async function main(x: number) {
  console.log(`this is ${x}`);
  if (x === 1) throw new RangeError("no one");
  if (x === 2) await new Promise(() => {});
  return [++calls, x];
}
"""


def test_twenty_scripts_on_one_worker_do_not_keep_each_other_waiting(
    deploy: Any, run: Any, start: Any, outcomes: Any, wait_until: Callable[..., Any]
) -> None:
    paths = [f"u/ada/fast_{number}" for number in range(LANES)]
    scripts = [deploy(COUNT.format(own=number), path=path) for number, path in enumerate(paths)]
    endless = deploy("import time\ndef main():\n    time.sleep(600)\n", path="u/ada/endless")
    worker = start(*map(entry_of, [*paths, "u/ada/endless"]))
    run(endless)
    run(endless)

    jobs = [run(script, x=round_) for round_ in range(5) for script in scripts]

    assert outcomes(jobs) == [[number, round_ + 1, round_] for round_ in range(5) for number in range(LANES)]
    assert len(worker.runner.dedicated._kept) == LANES + 1


def test_a_deno_script_keeps_its_state_and_its_failures_to_themselves(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(DENO, language="deno")
    start()

    jobs = [run(script, x=x) for x in (0, 1, 3, 2, 4)]

    first, thrown, second, never, third = outcomes(jobs)
    assert [first, second, third] == [[1, 0], [2, 3], [3, 4]]
    assert (thrown["error"]["name"], thrown["error"]["message"]) == ("RangeError", "no one")
    assert never["error"]["name"] == "NeverReturned"
    assert [queue.read_logs(job)[0].splitlines()[-1] for job in jobs] == [
        f"this is {x}" for x in (0, 1, 3, 2, 4)
    ]
