"""Jobs whose processes flee from their group, ignore polite signals or stop themselves: all of them end with the job."""

import pytest

from tests.hostile.conftest import Place

# Four that try to outlive the job: in a session of its own, forked twice, deaf to polite signals, and stopped. Each tells
# the job that it is there.
FLEEING = {
    "bash": """
setsid sh -c 'echo >> there; exec sleep {marker}1' &
(setsid sh -c '(echo >> there; exec sleep {marker}2) & (echo >> there; sleep {marker}3; true) & wait' &)
sh -c 'trap "" TERM HUP INT; echo >> there; sleep {marker}4; sleep {marker}5' &
sh -c 'echo >> there; kill -STOP $$; exec sleep {marker}6' &
touch there
while [ "$(wc -l < there)" -lt 5 ]; do sleep 0.01; done
""",
    "python3": """
import os, signal, subprocess, sys
def flee(number, stopped=False):
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(done, b"x")
            if stopped:
                os.kill(os.getpid(), signal.SIGSTOP)
            os.execvp("sleep", ["sleep", "{marker}" + str(number)])
        os._exit(0)
    os.read(ready, 1)
def main(ending: str):
    for number in range(4):
        flee(number, stopped=number == 3)
    print("fled", flush=True)
    if ending == "ends":
        return "ended"
    if ending == "is killed from inside":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()
""",
    "bun": """
import {{ spawn, spawnSync }} from "node:child_process";
export async function main(ending: string) {{
  for (const number of [1, 2, 3]) {{
    const child = spawn("sleep", ["{marker}" + number], {{ detached: true, stdio: "ignore" }});
    await new Promise((resolve) => child.on("spawn", resolve));
    child.unref();
    if (number == 3) child.kill("SIGSTOP");
  }}
  spawnSync("sh", ["-c", "(trap '' TERM HUP; sleep {marker}4) > /dev/null 2>&1 &"]);
  console.log("fled");
  if (ending === "ends") return "ended";
  if (ending === "is killed from inside") process.kill(process.pid, "SIGKILL");
  await new Promise(() => setInterval(() => {{}}, 1000));
}}
""",
}
AFTER_FLIGHT = """
echo fled
case "$1" in
    ends) echo ended ;;
    "is killed from inside") kill -9 $$ ;;
    *) sleep 600 ;;
esac
"""


def code(language: str, place: Place) -> str:
    return FLEEING[language].format(marker=place.marker) + (AFTER_FLIGHT if language == "bash" else "")


@pytest.mark.parametrize("ending", ["ends", "is killed from inside"])
@pytest.mark.parametrize("language", FLEEING)
def test_what_fled_ends_with_the_job(place: Place, language: str, ending: str) -> None:
    text = code(language, place).replace('case "$1" in', f'case "{ending}" in')

    ran = place.run(language, text, args={"ending": ending} if language != "bash" else {})

    assert "fled" in ran.log.text, ran.error
    if ending == "ends":
        assert ran.result == "ended"
    else:
        assert "killed by signal 9" in ran.error["message"]


@pytest.mark.parametrize("language", FLEEING)
def test_what_fled_ends_when_the_time_is_over(place: Place, language: str) -> None:
    args = {"ending": "never"} if language != "bash" else {}

    ran = place.run(language, code(language, place), args=args, timeout_s=2)

    assert "fled" in ran.log.text
    assert ran.error["message"] == "Job timed out after (>2s)"


@pytest.mark.parametrize("language", FLEEING)
def test_what_fled_ends_when_the_job_is_cancelled(place: Place, language: str) -> None:
    text = (
        code(language, place)
        .replace("(ending: str)", "(ending = 'never')")
        .replace("ending: string", "ending = ''")
    )

    place.cancel(language, text, once_it_says="fled")


def test_a_job_that_stops_itself_ends_when_its_time_is_over(place: Place) -> None:
    ran = place.run("bash", "kill -STOP $$", timeout_s=0.5)

    assert "timed out" in ran.error["message"]


def test_a_job_that_closes_all_its_descriptors_is_reported(place: Place) -> None:
    ran = place.run("python3", "import os\ndef main():\n    os.closerange(0, 1000)\n    return 'unheard'")

    assert ran.error["name"] == "ExecutionErr"
    assert place.run("bash", "exec 0<&- 1>&- 2>&-; exit 3").error["message"].startswith("ExitCode: 3")
