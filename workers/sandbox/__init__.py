"""Where jobs run: sandboxes forked from a warm interpreter, one for each job. Knows neither Django nor the queue.

The parts
    JobHost (host.py, in the worker)       keeps a fork server and a few prepared sandboxes; runs programs; asyncio
    fork server (job_process/fork_server)  a bare interpreter, started with an empty environment in a session of its
                                           own; holds no secret and no connection but the one to the worker
    guard (job_process/guard)              process 1 of a job's pid namespace: waits for the job process, watches the
                                           memory of all of them, kills what is left, reads result files, reports
    job process (job_process/job)          Python: calls the script in this very process (job_process/python_main);
                                           other languages: executes a program

Programs that stay (session.py)
    JobHost.open_session starts a program in such a sandbox, under the same guard and limits, that is told and tells
    things over two pipes of its own: warm processes (workers.dedicated), and Bun processes that wait for their one job.
    The pipes are handed to the prepared sandbox together with the program, so those of ordinary jobs cost nothing.

What a job sees
    The fork server moves into a root of its own once (job_process/root_view): /usr, /bin, /sbin, /lib*, /etc, /opt,
    /nix, /snap and the interpreter, read-only, with `hidden_paths` covered; nothing of /home, /root, /run, /srv, /var
    and /work. A job's mount namespace is a copy of it plus a fresh /proc, private terminals, and one tmpfs on /tmp,
    which holds its working folder /tmp/job, its HOME /tmp/home and /dev/shm. So nothing has to be deleted after it.
    Jobs with a `share` in common have one more tmpfs, at /shared and ./shared, and one user id. A folder cannot be
    put into a sandbox that stands ready, whose guard has given up all rights: theirs are made when they are wanted
    (3 ms more). So are those with another size of /tmp, and those without network.
    The network is the machine's, without `blocked_networks`, unless the program has network=False: a database that jobs
    must not reach needs a password or a hidden socket.

    Warm hosts for environments (HostPool in pool.py): the same once more for each Python environment that is used often.
    Its fork server imports the packages, so it gives up its rights first (job_process/environment_server).

What it may do
    Root: a user id that no other job has. Otherwise: the worker's user inside a user namespace. No capabilities,
    no_new_privs, no core dumps; a filter for system calls, inherited from the fork server (job_process/seccomp.py), and
    internet sockets that never hear from blocked addresses (job_process/address_guard.py). RLIMIT_DATA, NPROC, NOFILE
    and FSIZE; oom_score_adj 1000. All processes and /tmp together are held to their limits by a control group
    (cgroups.py), which the job process joins while its sandbox is prepared; many containers do not let us make one, and
    then the guard adds their memory up four times a second. The guard is in no group of a job, so it can tell what came
    of it. It is not dumpable: a job can neither trace it nor see its descriptors; it has nothing of the fork server or
    the worker, whose processes are outside its namespace.

How it ends
    The guard kills everything in the namespace and reaps it before it reports, so a job that has a result has no
    process left. Timeout, cancellation: the fork server kills process 1 and the kernel takes the namespace down. A
    dying worker closes the control socket, which ends the fork server; that is process 1 of the namespace all guards
    live in, so everything
    dies with it. Without namespaces children are found through their parents (guard and fork
    server are child subreapers) and, for root, by the job's user id.

Where the time goes
    Most of it is memory: each page that a process touches for the first time after a fork is copied, some 700 pages
    and 2.4 ms of system time in a no-op Python job. So sandboxes are prepared while nobody waits, and rehearse: they
    run a small script once before the real one arrives. That, with asyncio left out of what is preloaded (not told
    apart), took a no-op job from 5.3 to 4.3 ms, one run each on a machine with other work. Preparing the next sandbox
    after a short job instead of during it took it from 3.7 to 3.1 ms, one run each under the conditions below.

    Milliseconds from run() to its outcome, namespaces as root, 2 cores (EPYC, Linux 6.18). The machine was busy with
    other work (load 4 to 6), so the probe ran with real-time priority (chrt -f 1); the last column is without.
    In the same runs: fork and exit of the measuring process 2.4 (1.4 without), spawn of `bash -c 'echo ok'` 1.2 (1.1).

        no-op job                p50   p95 | of p50: send   job   teardown | prepared before | without priority p50
        python3, worker idle     2.9   3.3 |          0.2   2.2        0.3 |             2.0 |                  3.7
        python3, back to back    3.4   6.0 |          0.1   2.5        0.9 |             1.9 |                  4.6
        bash, worker idle        3.8   4.3 |          0.2   3.1        0.4 |             1.9 |                  4.9
        bash, back to back       4.4   6.8 |          0.1   2.8        0.9 |             2.0 |                  5.3

    `python -m workers.runtimes.bench_probe` measures it again.
"""

from workers.sandbox.host import JobHost
from workers.sandbox.pool import HostPool, preloadable
from workers.sandbox.programs import (
    ISOLATIONS,
    Ended,
    Environment,
    Isolation,
    IsolationRefused,
    Limits,
    Program,
    ProgramTimedOut,
    SandboxUnavailable,
    SharedFolderLost,
)
from workers.sandbox.session import Session

__all__ = [
    "ISOLATIONS",
    "Ended",
    "Environment",
    "HostPool",
    "Isolation",
    "IsolationRefused",
    "JobHost",
    "Limits",
    "Program",
    "ProgramTimedOut",
    "SandboxUnavailable",
    "Session",
    "SharedFolderLost",
    "preloadable",
]
