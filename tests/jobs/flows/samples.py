"""Realistic flows. Each function gives {summary, value, schema}; its docstring says what goes in and what comes out.

`@sample(args, result)` keeps the same in a form that programs can use (SAMPLES: all samples by name). Scripts need
nothing but Python's standard library, Bash and curl.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = Any
Flow = dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A flow and one way to run it."""

    name: str
    make: Callable[..., Flow]
    args: dict[str, Json]
    result: Json  # of a failure: the part that matters
    is_success: bool = True
    is_skipped: bool = False
    # What it takes besides running it: an approval, a URL that its args name, another flow, a server, a webhook's body.
    needs: str | None = None

    def is_result(self, result: Json) -> bool:
        """Whether a run ended with what the sample promises; errors may say more."""
        return result == self.result if self.is_success else _contains(result, self.result)


def _contains(whole: Json, part: Json) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _contains(whole[key], inner) for key, inner in part.items())
    return whole == part


SAMPLES: dict[str, Sample] = {}


def sample(
    args: dict[str, Json], result: Json, **more: Any
) -> Callable[[Callable[..., Flow]], Callable[..., Flow]]:
    def keep(make: Callable[..., Flow]) -> Callable[..., Flow]:
        SAMPLES[make.__name__] = Sample(name=make.__name__, make=make, args=args, result=result, **more)
        return make

    return keep


# --- building blocks ---


def js(expr: str) -> Json:
    return {"type": "javascript", "expr": expr}


def static(value: Json) -> Json:
    return {"type": "static", "value": value}


def module(id: str, value: Json, **options: Json) -> Json:
    return {"id": id, "value": value} | options


def python(content: str, **inputs: Json) -> Json:
    return {"type": "rawscript", "language": "python3", "content": content, "input_transforms": inputs}


def bash(content: str, **inputs: Json) -> Json:
    return {"type": "rawscript", "language": "bash", "content": content, "input_transforms": inputs}


def for_loop(iterator: str, *modules: Json, **options: Json) -> Json:
    loop = {"type": "forloopflow", "iterator": js(iterator), "skip_failures": False, "modules": list(modules)}
    return loop | options


def schema(**properties: Json) -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "order": list(properties),
    }


def flow(summary: str, inputs: Json, *modules: Json, **options: Json) -> Flow:
    return {"summary": summary, "value": {"modules": list(modules)} | options, "schema": inputs}


# --- the flows ---

ORDERS = [
    {"item": "tea", "price": "3.50", "count": 2},
    {"item": "milk", "price": "1.25", "count": 4},
    {"item": "nothing", "price": "9.99", "count": 0},
]


@sample({"orders": ORDERS, "limit": 100}, {"rows": 2, "total": 12.0})
def etl() -> Flow:
    """Reads orders, computes each one in a loop, loads the sum; a handler reports what went wrong.

    args {"orders": ORDERS, "limit": 100} -> {"rows": 2, "total": 12.0}.
    With "limit": 10 step `load` fails, and the flow fails with the handler's result:
    {"alert": "load failed: ValueError: total 12.0 is above the limit of 10"}.
    """
    return flow(
        "Load the day's orders",
        schema(
            orders={"type": "array", "items": {"type": "object"}}, limit={"type": "number", "default": 100}
        ),
        module(
            "extract",
            python(
                "def main(orders: list):\n    return [order for order in orders if order['count'] > 0]\n",
                orders=js("flow_input.orders"),
            ),
            summary="Orders of something",
        ),
        module(
            "transform",
            for_loop(
                "results.extract",
                module(
                    "compute",
                    python(
                        "def main(order: dict):\n"
                        "    return {'item': order['item'], 'sum': float(order['price']) * order['count']}\n",
                        order=js("flow_input.iter.value"),
                    ),
                ),
            ),
        ),
        module(
            "load",
            python(
                "def main(rows: list, limit: float):\n"
                "    total = sum(row['sum'] for row in rows)\n"
                "    if total > limit:\n"
                "        raise ValueError(f'total {total} is above the limit of {limit}')\n"
                "    return {'rows': len(rows), 'total': total}\n",
                rows=js("results.transform"),
                limit=js("flow_input.limit"),
            ),
        ),
        failure_module=module(
            "failure",
            python(
                "def main(step: str, name: str, message: str):\n"
                "    return {'alert': f'{step} failed: {name}: {message}'}\n",
                step=js("error.step_id"),
                name=js("error.name"),
                message=js("error.message"),
            ),
        ),
    )


@sample({"amount": 250}, {"paid": 250, "note": "go ahead", "approvals": 1}, needs="approval")
def approval() -> Flow:
    """Waits up to an hour for one approval with a note, then pays.

    args {"amount": 250}; resume step `ask` with the payload {"note": "go ahead"}
    -> {"paid": 250, "note": "go ahead", "approvals": 1}. A disapproval fails the flow with SuspendedDisapproved.
    """
    return flow(
        "Pay after approval",
        schema(amount={"type": "number"}),
        module(
            "ask",
            python(
                "def main(amount: float):\n    return f'May {amount} be paid?'\n",
                amount=js("flow_input.amount"),
            ),
            suspend={
                "required_events": 1,
                "timeout": 3600,
                "resume_form": {"schema": schema(note={"type": "string"})},
            },
        ),
        module(
            "pay",
            python(
                "def main(amount: float, note: str, approvers: list):\n"
                "    return {'paid': amount, 'note': note, 'approvals': len(approvers)}\n",
                amount=js("flow_input.amount"),
                note=js("resume.note"),
                approvers=js("approvers"),
            ),
        ),
    )


@sample({"amount": 250}, {"paid": 0, "because": "SuspendedTimedOut"})
def approval_that_nobody_gives() -> Flow:
    """Waits one second for an approval and goes on without it.

    args {"amount": 250}, and nobody answers -> {"paid": 0, "because": "SuspendedTimedOut"}.
    """
    return flow(
        "Pay when approved in time",
        schema(amount={"type": "number"}),
        module(
            "ask",
            {"type": "identity"},
            suspend={"required_events": 1, "timeout": 1, "continue_on_disapprove_timeout": True},
        ),
        module(
            "pay",
            python(
                "def main(amount: float, refusal: str = None):\n"
                "    return {'paid': 0 if refusal else amount, 'because': refusal}\n",
                amount=js("flow_input.amount"),
                refusal=js("(resume?.error ?? resume)?.name"),
            ),
        ),
    )


@sample({"x": 3}, {"parts": [4, 6, 9], "sum": 19})
def fan_out() -> Flow:
    """Three branches at once, joined again.

    args {"x": 3} -> {"parts": [4, 6, 9], "sum": 19}.
    """

    def branch(id: str, what: str) -> Json:
        code = f"def main(x: int):\n    return {what}\n"
        return {
            "summary": what,
            "skip_failure": False,
            "modules": [module(id, python(code, x=js("flow_input.x")))],
        }

    return flow(
        "Compute in parallel",
        schema(x={"type": "integer"}),
        module(
            "fan",
            {
                "type": "branchall",
                "parallel": True,
                "branches": [branch("plus", "x + 1"), branch("double", "x * 2"), branch("square", "x * x")],
            },
        ),
        module(
            "join",
            python(
                "def main(parts: list):\n    return {'parts': parts, 'sum': sum(parts)}\n",
                parts=js("results.fan"),
            ),
        ),
    )


@sample({"numbers": [5, 1, 4, 2]}, [25, 1, 16, 4])
def parallel_loop() -> Flow:
    """Two iterations at a time; results keep the order of the list.

    args {"numbers": [5, 1, 4, 2]} -> [25, 1, 16, 4]. An empty list -> [].
    """
    square = module("square", python("def main(n: int):\n    return n * n\n", n=js("flow_input.iter.value")))
    return flow(
        "Square numbers",
        schema(numbers={"type": "array", "items": {"type": "integer"}}),
        module("all", for_loop("flow_input.numbers", square, parallel=True, parallelism=2)),
    )


@sample({"url": None}, {"length": 2}, needs="url")
def retry_with_backoff(base_s: int = 2) -> Flow:
    """Fetches a URL, up to four times, waiting 2, 4 and 8 seconds in between (powers of `base_s`; 0 or 1: no growth).

    args {"url": <answers 503 twice, then the text "ok">} -> {"length": 2}; step `fetch` ran three times, failed twice.
    A URL that never answers fails the flow after four tries.
    """
    return flow(
        "Fetch until it works",
        schema(url={"type": "string", "format": "uri"}),
        module(
            "fetch",
            bash('url="$1"\ncurl -fsS --max-time 10 "$url"\n', url=js("flow_input.url")),
            retry={"exponential": {"attempts": 3, "multiplier": 1, "seconds": base_s, "random_factor": 0}},
        ),
        module(
            "measure",
            python("def main(text: str):\n    return {'length': len(text)}\n", text=js("previous_result")),
        ),
    )


@sample({"name": "Ada"}, "Hello Ada")
def greet() -> Flow:
    """One step, for other flows to call.

    args {"name": "Ada"} -> "Hello Ada".
    """
    return flow(
        "Greet somebody",
        schema(name={"type": "string"}),
        module(
            "say", python("def main(name: str):\n    return f'Hello {name}'\n", name=js("flow_input.name"))
        ),
    )


@sample({"names": ["Ada", "Alan"]}, "Hello Ada, Hello Alan", needs="greet deployed at f/samples/greet")
def call_another_flow(path: str = "f/samples/greet") -> Flow:
    """Calls the flow at `path` (`greet`) for each name, and joins what it says.

    args {"names": ["Ada", "Alan"]} -> "Hello Ada, Hello Alan".
    """
    call = {"type": "flow", "path": path, "input_transforms": {"name": js("flow_input.iter.value")}}
    return flow(
        "Greet everybody",
        schema(names={"type": "array", "items": {"type": "string"}}),
        module("each", for_loop("flow_input.names", module("call", call))),
        module(
            "join",
            python("def main(texts: list):\n    return ', '.join(texts)\n", texts=js("results.each")),
        ),
    )


@sample({"limit": 10}, [0, 1, 4, 9, 16])
def while_loop() -> Flow:
    """Counts up until a square reaches the limit; the step that reaches it leaves the loop.

    args {"limit": 10} -> [0, 1, 4, 9, 16].
    """
    return flow(
        "Squares up to a limit",
        schema(limit={"type": "integer"}),
        module(
            "loop",
            {
                "type": "whileloopflow",
                "skip_failures": False,
                "modules": [
                    module(
                        "square",
                        python("def main(n: int):\n    return n * n\n", n=js("flow_input.iter.index")),
                        stop_after_if={"expr": "result >= flow_input.limit", "skip_if_stopped": False},
                    )
                ],
            },
        ),
    )


@sample({"country": "FR", "net": 100}, {"country": "FR", "gross": 120})
def branch_by_country() -> Flow:
    """The first branch whose predicate is true adds its tax; the default branch is empty and passes the net price on.

    args {"country": "FR", "net": 100} -> {"country": "FR", "gross": 120}; "US" -> 107; "CH" -> 100.
    """

    def tax(id: str, percent: int) -> Json:
        code = f"def main(price: int):\n    return price * {100 + percent} // 100\n"
        return module(id, python(code, price=js("previous_result")))

    return flow(
        "Price with tax",
        schema(country={"type": "string"}, net={"type": "integer"}),
        module("net", python("def main(net: int):\n    return net\n", net=js("flow_input.net"))),
        module(
            "tax",
            {
                "type": "branchone",
                "branches": [
                    {
                        "summary": "European Union",
                        "expr": '["FR", "DE", "IT"].includes(flow_input.country)',
                        "modules": [tax("vat", 20)],
                    },
                    {
                        "summary": "United States",
                        "expr": "flow_input.country === 'US'",
                        "modules": [tax("sales", 7)],
                    },
                ],
                "default": [],
            },
        ),
        module(
            "price",
            python(
                "def main(country: str, gross: int):\n    return {'country': country, 'gross': gross}\n",
                country=js("flow_input.country"),
                gross=js("results.tax"),
            ),
        ),
    )


@sample({"items": []}, {"new": 0}, is_skipped=True)
def early_stop() -> Flow:
    """Stops, labelled as skipped, when there is nothing to do.

    args {"items": []} -> {"new": 0}, skipped, step `send` never runs; {"items": [1, 2]} -> {"sent": 2}, not skipped.
    """
    return flow(
        "Send what is new",
        schema(items={"type": "array"}),
        module(
            "check",
            python("def main(items: list):\n    return {'new': len(items)}\n", items=js("flow_input.items")),
            stop_after_if={"expr": "result.new == 0", "skip_if_stopped": True},
        ),
        module("send", python("def main(n: int):\n    return {'sent': n}\n", n=js("results.check.new"))),
    )


@sample({"dry_run": True}, {"plan": ["a", "b"]})
def skip_a_step() -> Flow:
    """A step that is skipped passes the previous result on.

    args {"dry_run": true} -> {"plan": ["a", "b"]}, step `apply` succeeded as skipped;
    {"dry_run": false} -> {"applied": 2}.
    """
    return flow(
        "Plan and apply",
        schema(dry_run={"type": "boolean"}),
        module("plan", python("def main():\n    return {'plan': ['a', 'b']}\n")),
        module(
            "apply",
            python(
                "def main(plan: list):\n    return {'applied': len(plan)}\n", plan=js("results.plan.plan")
            ),
            skip_if={"expr": "flow_input.dry_run"},
        ),
    )


@sample({"lines": 3}, {"lines": 3, "last": "line 3"})
def shared_files() -> Flow:
    """Steps on one worker hand a file on in ./shared.

    args {"lines": 3} -> {"lines": 3, "last": "line 3"}.
    """
    return flow(
        "Write and read a file",
        schema(lines={"type": "integer"}),
        module(
            "write",
            bash(
                'lines="$1"\nfor n in $(seq "$lines"); do echo "line $n"; done > ./shared/data.txt\n',
                lines=js("flow_input.lines"),
            ),
        ),
        module(
            "read",
            python(
                "from pathlib import Path\n\n\n"
                "def main():\n"
                "    lines = Path('shared/data.txt').read_text().splitlines()\n"
                "    return {'lines': len(lines), 'last': lines[-1]}\n"
            ),
        ),
        same_worker=True,
    )


@sample({"name": "Ada"}, "Good morning, Ada (from dev)")
def flow_environment() -> Flow:
    """Constants of the flow, in expressions and as environment variables of its steps.

    args {"name": "Ada"} -> "Good morning, Ada (from dev)".
    """
    return flow(
        "Greet with constants",
        schema(name={"type": "string"}),
        module(
            "say",
            bash(
                'greeting="$1"\nname="$2"\necho "$greeting, $name (from $STAGE)"\n',
                greeting=js("flow_env.GREETING"),
                name=js("flow_input.name"),
            ),
        ),
        flow_env={"GREETING": "Good morning", "STAGE": "dev"},
    )


@sample({"user": {"first": "Ada", "last": "Lovelace"}}, "webhook: Ada Lovelace", needs="webhook")
def preprocessor() -> Flow:
    """The body of a webhook becomes the flow's own arguments.

    POST {"user": {"first": "Ada", "last": "Lovelace"}} to a run route -> "webhook: Ada Lovelace".
    With skip_preprocessor=true, args {"name": "Ada", "source": "form"} -> "form: Ada".
    """
    return flow(
        "Greet whom a webhook names",
        schema(name={"type": "string"}, source={"type": "string"}),
        module(
            "say",
            python(
                "def main(name: str, source: str):\n    return f'{source}: {name}'\n",
                name=js("flow_input.name"),
                source=js("flow_input.source"),
            ),
        ),
        preprocessor_module=module(
            "preprocessor",
            python(
                "def preprocessor(event: dict):\n"
                "    user = event['body']['user']\n"
                "    return {'name': f\"{user['first']} {user['last']}\", 'source': event['kind']}\n"
            ),
        ),
    )


@sample({"rows": [1, 2], "columns": [10, 20, 30]}, [[10, 20, 30], [20, 40, 60]])
def nested_loops() -> Flow:
    """In the inner loop `iter` is its own; that of the outer loop is called `iter_parent`.

    args {"rows": [1, 2], "columns": [10, 20, 30]} -> [[10, 20, 30], [20, 40, 60]].
    """
    cell = module(
        "cell",
        python(
            "def main(row: int, column: int):\n    return row * column\n",
            row=js("flow_input.iter_parent.value"),
            column=js("flow_input.iter.value"),
        ),
    )
    return flow(
        "Multiplication table",
        schema(rows={"type": "array"}, columns={"type": "array"}),
        module("outer", for_loop("flow_input.rows", module("inner", for_loop("flow_input.columns", cell)))),
    )


@sample({"text": "12x"}, {"number": 0, "because": "ValueError"})
def continue_after_an_error() -> Flow:
    """A step may fail; the next one sees its error.

    args {"text": "12x"} -> {"number": 0, "because": "ValueError"}; {"text": "12"} -> {"number": 12, "because": null}.
    """
    return flow(
        "A number, or 0",
        schema(text={"type": "string"}),
        module(
            "parse",
            python("def main(text: str):\n    return int(text)\n", text=js("flow_input.text")),
            continue_on_error=True,
        ),
        module(
            "choose",
            python(
                "def main(parsed, problem: str = None):\n"
                "    return {'number': 0 if problem else parsed, 'because': problem}\n",
                parsed=js("results.parse"),
                problem=js("results.parse.error?.name"),
            ),
        ),
    )


@sample({"items": [1, None, 3]}, [10, "TypeError", 30])
def loop_that_skips_failures() -> Flow:
    """Failed iterations stand as errors among the results.

    args {"items": [1, null, 3]} -> [10, "TypeError", 30].
    """
    times_ten = module("ten", python("def main(n):\n    return n * 10\n", n=js("flow_input.iter.value")))
    return flow(
        "Ten times each",
        schema(items={"type": "array"}),
        module("all", for_loop("flow_input.items", times_ten, skip_failures=True)),
        module(
            "names",
            python(
                "def main(results: list):\n"
                "    return [r['error']['name'] if isinstance(r, dict) else r for r in results]\n",
                results=js("results.all"),
            ),
        ),
    )


@sample({"cursor": 41}, {"read": 41, "next": 42}, needs="server")
def user_states() -> Flow:
    """A step keeps a value under a name at the flow, others read it.

    args {"cursor": 41} -> {"read": 41, "next": 42}.
    """
    return flow(
        "Remember a cursor",
        schema(cursor={"type": "integer"}),
        module(
            "remember",
            bash(
                'cursor="$1"\n'
                'curl -fsS -X POST -H "Authorization: Bearer $WM_TOKEN" -H "Content-Type: application/json" \\\n'
                '  -d "$cursor" "$BASE_INTERNAL_URL/api/w/$WM_WORKSPACE/jobs/flow/user_states/$WM_FLOW_JOB_ID/cursor"\n',
                cursor=js("flow_input.cursor"),
            ),
        ),
        module(
            "use",
            python(
                "def main(cursor: int):\n    return {'read': cursor, 'next': cursor + 1}\n",
                cursor=js('flow_user_state("cursor")'),
            ),
        ),
    )


@sample({"key": "a"}, {"is_same": True})
def cached_step() -> Flow:
    """Two steps with the same code and argument: the second takes the first one's result from the cache.

    args {"key": <anything not used within the last hour>} -> {"is_same": true}, and again with the same key.
    """
    code = "import uuid\n\n\ndef main(key: str):\n    return f'{key}-{uuid.uuid4()}'\n"
    slow = python(code, key=js("flow_input.key"))
    return flow(
        "Compute once an hour",
        schema(key={"type": "string"}),
        module("warm", for_loop("[1, 2]", module("compute", slow, cache_ttl=3600))),
        module(
            "compare",
            python(
                "def main(values: list):\n    return {'is_same': values[0] == values[1]}\n",
                values=js("results.warm"),
            ),
        ),
    )


@sample({}, {"recover": True, "used": "copy"})
def recovered() -> Flow:
    """The failure handler finds another way, and the flow succeeds.

    args {} -> {"recover": true, "used": "copy"}, success.
    """
    return flow(
        "Take the copy when the original is gone",
        schema(),
        module("read", python("def main():\n    raise FileNotFoundError('original')\n")),
        failure_module=module(
            "failure",
            python("def main():\n    return {'recover': True, 'used': 'copy'}\n"),
        ),
    )


@sample({"count": 3}, {"error": {"name": "EarlyStopError", "message": "3 is odd"}}, is_success=False)
def stop_with_an_error() -> Flow:
    """A condition makes the flow fail with a message of its own.

    args {"count": 3} -> fails with {"error": {"name": "EarlyStopError", "message": "3 is odd", ...}};
    {"count": 4} -> "4 is even".
    """
    return flow(
        "Only even counts",
        schema(count={"type": "integer"}),
        module(
            "judge",
            python(
                "def main(count: int):\n    return f\"{count} is {'odd' if count % 2 else 'even'}\"\n",
                count=js("flow_input.count"),
            ),
            stop_after_if={
                "expr": "result.endsWith('odd')",
                "skip_if_stopped": False,
                "error_message": "3 is odd",
            },
        ),
        module("done", {"type": "identity"}),
    )
