"""From requirements to pins: uv finds versions that fit each other, in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.dependencies.python_comments import requirements_in
from workers.runtimes import python_uv
from workers.runtimes.base import Limits, LogSink, Registries, Site
from workers.runtimes.python_versions import Python
from workers.runtimes.tool_runs import run_tool

RESOLVE_TIMEOUT_S = 300.0
_MOST_SHOWN = 20  # requirements in one line of the log


async def compile_requirements(
    site: Site,
    python: Python,
    requirements: Sequence[str],
    *,
    registries: Registries,
    limits: Limits,
    log: LogSink,
    registry_timeout_s: float,
) -> list[str]:
    """Pins ("requests==2.32.3") of all that `requirements` need on `python`. Raises ExecutionFailed, with a sentence.

    Packages that offer no wheel may have to be built to learn what they need. That runs their code, so it is done only
    when nothing else helps. What uv keeps goes with the sandbox: there is nothing that one script could leave for others.
    """
    clean = python_uv.CleanLog(log, registries)
    shown = ", ".join(requirements[:_MOST_SHOWN]) + (", ..." if len(requirements) > _MOST_SHOWN else "")
    clean.write(f"resolving for Python {python.version}: {shown}\n")
    command = [
        *python_uv.arguments(site.tools[python_uv.UV.name].path, "pip", "compile"),
        *("requirements.in", "--output-file", "lock.txt", "--python", str(python.executable)),
        *("--no-header", "--no-annotate"),
    ]
    for allowed in (["--only-binary", ":all:"], []):
        ended = await run_tool(
            site,
            [*command, *allowed],
            env=python_uv.environment(registries, timeout_s=registry_timeout_s, cache="uv-cache"),
            files={"requirements.in": "\n".join(requirements) + "\n"},
            result_files={"L": "lock.txt"},
            limits=limits,
            log=None if allowed else clean,
            timeout_s=RESOLVE_TIMEOUT_S,
        )
        if ended.exit_code == 0 or not python_uv.needs_build(ended.output):
            clean.write(ended.output if allowed else "")
            break
        if allowed:
            clean.write(
                "not all of them have wheels that fit: resolving with packages built from their source\n"
            )
    clean.close()
    if ended.exit_code != 0:
        raise python_uv.failed(ended.output, registries, python=python.version, timeout_s=registry_timeout_s)
    return requirements_in(ended.values.get("L", b"").decode(), "what uv found")
