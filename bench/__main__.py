"""`python -m bench NAME`: run one benchmark, or `all` of them in turn."""

import importlib
import sys

NAMES = {
    "overhead": "what the platform adds to a no-op job, beside the raw SQL loop and a bare fork",
    "throughput": "no-op jobs a second with 1, 2, 4 and 8 slots",
    "claim": "cost of a claim with an empty, a full and an old database, of few and many workspaces",
    "load": "100,000 jobs, 90 % of one workspace: how long another's single job waits",
    "peers": "the same no-op job with procrastinate, pgqueuer and celery, in the same run",
    "api": "requests a second and p95 of common routes",
    "logs": "from print in a job to the websocket of a browser",
    "runtimes": "every language beside its bare tool",
    "flow": "flows: sequential steps, loops, what a step costs and writes",
    "dedicated": "dedicated scripts: one job at low load, jobs a second, a flow of dedicated steps",
    "scale": "jobs of 100 ms with 1 to 100 slots, in dedicated processes and on a native worker",
    "chaos": "workers killed, stopped and cut off: each job recorded once, with its own result",
    "idle": "transactions a second and memory of an idle instance",
}


def main() -> None:
    chosen = sys.argv[1:2]
    if chosen == ["all"]:
        chosen = list(NAMES)
    if not chosen or chosen[0] not in NAMES:
        sys.exit(
            "usage: ./windmill bench NAME\n"
            + "\n".join(f"  {name:<11}{what}" for name, what in NAMES.items())
        )
    from bench import harness

    harness.prepare_database()
    for name in chosen:
        print(f"\n== {name}: {NAMES[name]}")
        importlib.import_module(f"bench.{name}").run(sys.argv[2:])


if __name__ == "__main__":
    main()
