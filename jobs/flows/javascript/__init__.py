"""V8 for expressions: a few helper processes, each evaluating one call at a time, with limits of time and memory.

Why processes: a JavaScript program can make V8 end its process (an allocation that fails at a bad moment) or keep it in
a loop that cannot be interrupted (`new Array(2 ** 27).fill(1)`). A helper that does either is killed and replaced, and
nobody else notices. It also holds no credentials: code of users never shares memory with the worker.

    calls     what goes into a call and comes out of it
    helper    one helper process
    engine    helpers with a thread each, and the calls that wait for one

What runs in the helper: jobs/flows/isolate.py, and in each isolate jobs/flows/harness.js.
"""

from jobs.flows.javascript.calls import CALLS, Done, Failed, Needs, Program, Values
from jobs.flows.javascript.engine import Engine
from jobs.flows.javascript.helper import EngineLost, LimitExceeded

__all__ = [
    "CALLS",
    "Done",
    "Engine",
    "EngineLost",
    "Failed",
    "LimitExceeded",
    "Needs",
    "Program",
    "Values",
]
