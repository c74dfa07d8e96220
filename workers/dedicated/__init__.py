"""Warm processes: a script is loaded once, in one sandbox, and runs many jobs one after another.

    calls.py     Call, Answer: what goes in and comes out
    process.py   WarmProcess: one process, from its start to its end
    pool.py      DedicatedPool: the warm processes of one worker, by script
    lanes.py     Lanes: the lanes of one worker
    lane.py      Lane: the jobs of one script, from the queue to its processes and back

What users see of it: docs/dedicated.md.
"""

from workers.dedicated.calls import Answer, Call, Listener, WarmKey
from workers.dedicated.pool import DedicatedPool
from workers.dedicated.process import WarmProcess

__all__ = ["Answer", "Call", "DedicatedPool", "Listener", "WarmKey", "WarmProcess"]
