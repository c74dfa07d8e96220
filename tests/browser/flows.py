"""Flow values for tests of pictures: one that shows everything, and random trees."""

import random
from typing import Any

Module = dict[str, Any]


def script(step: str, summary: str = "", language: str = "python3", **options: Any) -> Module:
    value = {
        "type": "rawscript",
        "language": language,
        "content": "def main():\n    return 1\n",
        "input_transforms": {},
    }
    return {"id": step, "summary": summary, "value": value, **options}


def loop(step: str, modules: list[Module], summary: str = "", *, kind: str = "forloopflow") -> Module:
    value: dict[str, Any] = {"type": kind, "modules": modules, "skip_failures": False}
    if kind == "forloopflow":
        value["iterator"] = {"type": "javascript", "expr": "results.a.customers"}
    return {"id": step, "summary": summary, "value": value}


def branch_one(
    step: str, branches: list[list[Module]], default: list[Module], summary: str = "", expr: str = "true"
) -> Module:
    value = {
        "type": "branchone",
        "branches": [{"expr": expr, "modules": modules} for modules in branches],
        "default": default,
    }
    return {"id": step, "summary": summary, "value": value}


def branch_all(
    step: str, branches: list[list[Module]], summary: str = "", names: tuple[str, ...] = ()
) -> Module:
    named = [*names, *[""] * len(branches)]
    value = {
        "type": "branchall",
        "parallel": True,
        "branches": [
            {"summary": name, "modules": modules} for name, modules in zip(named, branches, strict=False)
        ],
    }
    return {"id": step, "summary": summary, "value": value}


RETRY = {"constant": {"attempts": 3, "seconds": 5}}
EXAMPLE: Module = {
    "modules": [
        script("a", "Load open orders", "postgresql"),
        branch_one(
            "b",
            [
                [
                    loop(
                        "c",
                        [script("d", "Build invoice PDF"), script("e", "Charge saved card", retry=RETRY)],
                        "For each customer",
                    ),
                    branch_all(
                        "f",
                        [
                            [script("g", "Post journal entries", "postgresql")],
                            [script("h", "Send receipts", "deno")],
                        ],
                        "Publish results",
                        ("Ledger", "Mail"),
                    ),
                ]
            ],
            [script("i", "Log a quiet night", "bash")],
            "Has anything to bill?",
            "results.a.orders.length > 0",
        ),
        script("j", "Ask the accountant", suspend={"required_events": 1}),
        script("k", "Close the day"),
    ],
    "failure_module": script("failure", "Tell the team"),
}


def random_flow(seed: int, steps: int = 60) -> Module:
    """A tree of up to `steps` modules: the same for the same seed."""
    dice = random.Random(seed)
    made = 0

    def sequence(depth: int, least: int) -> list[Module]:
        return [module(depth) for _ in range(dice.randint(least, 4)) if made < steps]

    def module(depth: int) -> Module:
        nonlocal made
        made += 1
        step = f"s{made}"
        kind = dice.choice(["script"] * 3 + (["loop", "while", "one", "all"] if depth < 4 else []))
        if kind in ("loop", "while"):
            return loop(
                step, sequence(depth + 1, 0), kind="forloopflow" if kind == "loop" else "whileloopflow"
            )
        if kind == "one":
            return branch_one(
                step, [sequence(depth + 1, 0) for _ in range(dice.randint(0, 3))], sequence(depth + 1, 0)
            )
        if kind == "all":
            return branch_all(step, [sequence(depth + 1, 0) for _ in range(dice.randint(0, 3))])
        return script(step)

    flow: Module = {"modules": []}
    while made < steps and len(flow["modules"]) < 12:
        flow["modules"].append(module(0))
    if seed % 2:
        flow["failure_module"] = script("failure")
    if seed % 3 == 0:
        flow["preprocessor_module"] = script("preprocessor")
    return flow


def wide_flow(steps: int) -> Module:
    """A flow of exactly `steps` steps, in groups of ten: a loop, a branch, and what is in them."""
    modules: list[Module] = []
    for group in range(steps // 10):
        one, two, three, *rest = (f"g{group}_{n}" for n in range(10))
        modules += [
            script(one),
            loop(two, [script(rest[0]), script(rest[1])]),
            branch_one(
                three,
                [[script(rest[2]), script(rest[3])]],
                [script(rest[4]), script(rest[5]), script(rest[6])],
            ),
        ]
    modules += [script(f"last_{n}") for n in range(steps % 10)]
    return {"modules": modules}
