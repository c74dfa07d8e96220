"""Ordinary scripts, as people find them on the internet: pasted, tested, deployed and run, in every language."""

import os
import shutil
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.browser.site import Person, wait_until

pytestmark = pytest.mark.usefixtures("worker")


@dataclass(frozen=True)
class Sample:
    name: str
    language: str
    code: str
    result: Any
    args: dict[str, Any] = field(
        default_factory=dict
    )  # "{internet}" in a text is the address of the web server
    has_dependencies: bool = False
    program: str | None = None  # needed on the host


PANDAS = Sample(
    "sales_report",
    "python3",
    """\
import io

import pandas as pd
import requests


def main(url: str, minimum: int = 0):
    answer = requests.get(url, timeout=10)
    answer.raise_for_status()
    sales = pd.read_csv(io.StringIO(answer.text))
    totals = sales.groupby("region", as_index=False)["amount"].sum()
    print(totals)
    return totals[totals.amount > minimum].to_dict(orient="records")
""",
    [{"region": "north", "amount": 15}, {"region": "south", "amount": 20}],
    {"url": "{internet}/sales.csv"},
    has_dependencies=True,
)
INLINE_METADATA = Sample(
    "inline_metadata",
    "python3",
    """\
# /// script
# requires-python = ">=3.11"
# dependencies = ["python-dateutil>=2.8"]
# ///
from datetime import date

from dateutil.relativedelta import relativedelta


def main(day: date, months: int = 1):
    return day + relativedelta(months=months)
""",
    "2024-02-29",
    {"day": "2024-01-31"},
    has_dependencies=True,
)
TYPESCRIPT = Sample(
    "order_mail",
    "bun",
    """\
import { groupBy } from "lodash-es@4.17.21";
import dayjs from "dayjs";

type Item = { name: string; kind: "book" | "pen"; price: number };

export async function main(items: Item[], day: Date, currency = "EUR") {
  const kinds = groupBy(items, (item) => item.kind);
  console.log(`${items.length} items`);
  return {
    due: dayjs(day).add(14, "day").format("YYYY-MM-DD"),
    totals: Object.fromEntries(
      Object.entries(kinds).map(([kind, of]) => [kind, `${of.reduce((sum, one) => sum + one.price, 0)} ${currency}`]),
    ),
  };
}
""",
    {"due": "2024-03-15", "totals": {"book": "30 EUR", "pen": "2 EUR"}},
    {
        "items": [
            {"name": "SICP", "kind": "book", "price": 20},
            {"name": "Bic", "kind": "pen", "price": 2},
            {"name": "TAOCP", "kind": "book", "price": 10},
        ],
        "day": "2024-03-01T12:00:00Z",
    },
    has_dependencies=True,
)
DENO = Sample(
    "deno_slug",
    "deno",
    """\
import ms from "npm:ms@2.1.3";

export async function main(span: string, url: string) {
  const answer = await fetch(url);
  return { milliseconds: ms(span), ...(await answer.json()) };
}
""",
    {"milliseconds": 7_200_000, "path": "/deno"},
    {"span": "2h", "url": "{internet}/deno"},
    has_dependencies=True,
)
REST = Sample(
    "rest_call",
    "nativets",
    """\
export async function main(url: string, retries: number = 1) {
  for (let left = retries; ; left--) {
    const answer = await fetch(url, { headers: { accept: "application/json" } });
    if (answer.ok) return await answer.json();
    if (left <= 0) throw new Error(`HTTP ${answer.status}`);
  }
}
""",
    {"path": "/rest"},
    {"url": "{internet}/rest"},
)
GO = Sample(
    "word_count",
    "go",
    """\
package inner

import (
	"fmt"
	"sort"
	"strings"
)

type Count struct {
	Word  string `json:"word"`
	Times int    `json:"times"`
}

func main(text string, most int) ([]Count, error) {
	if most < 1 {
		return nil, fmt.Errorf("most is %d; expected at least 1", most)
	}
	times := map[string]int{}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		times[word]++
	}
	counts := []Count{}
	for word, n := range times {
		counts = append(counts, Count{word, n})
	}
	sort.Slice(counts, func(i, j int) bool { return counts[i].Times > counts[j].Times })
	if len(counts) > most {
		counts = counts[:most]
	}
	return counts, nil
}
""",
    [{"word": "the", "times": 3}],
    {"text": "The cat and the dog and The bird", "most": 1},
)
BASH = Sample(
    "one_liner",
    "bash",
    """\
name="$1"
times="${2:-2}"
for i in $(seq "$times"); do echo "$i: hello $name"; done | tail -1
""",
    "3: hello world",
    {"name": "world", "times": "3"},
)
DUCKDB = Sample(
    "duck_report",
    "duckdb",
    """\
-- $minimum (int) = 10
CREATE TABLE sales AS SELECT * FROM (VALUES ('north', 10), ('south', 20), ('north', 5)) AS t (region, amount);
SELECT region, sum(amount)::int AS total FROM sales GROUP BY region HAVING sum(amount) > $minimum ORDER BY total DESC;
""",
    [{"region": "south", "total": 20}, {"region": "north", "total": 15}],
)
PHP = Sample(
    "invoice",
    "php",
    """\
<?php

function main(array $lines, float $vat = 0.2, string $currency = "EUR")
{
    $net = array_sum(array_map(fn($line) => $line["price"] * $line["count"], $lines));
    echo count($lines) . " lines\\n";
    return ["net" => $net, "gross" => round($net * (1 + $vat), 2), "currency" => $currency];
}
""",
    {"net": 25, "gross": 30, "currency": "EUR"},
    {"lines": [{"price": 10, "count": 2}, {"price": 5, "count": 1}]},
    program="php",
)
GRAPHQL = Sample(
    "graphql_hello",
    "graphql",
    """\
query Hello($name: String!) {
  hello(name: $name)
}
""",
    {"hello": "Hello Ada"},
    {"name": "Ada", "api": {"base_url": "{internet}/graphql"}},
)

SAMPLES = [PANDAS, INLINE_METADATA, TYPESCRIPT, DENO, REST, GO, BASH, DUCKDB, PHP, GRAPHQL]


def _filled(value: Any, internet: str) -> Any:
    if isinstance(value, str):
        return value.replace("{internet}", internet)
    if isinstance(value, dict):
        return {name: _filled(one, internet) for name, one in value.items()}
    return value


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_an_ordinary_script_is_tested_deployed_and_run(
    sample: Sample, http: httpx.Client, ada: Person, internet: str
) -> None:
    if sample.program is not None and shutil.which(sample.program) is None and not os.environ.get("CI"):
        pytest.skip(f"{sample.program} is not installed")
    args = _filled(sample.args, internet)
    path = f"u/{ada.username}/{sample.name}"

    preview = http.post(
        "jobs/run_wait_result/preview",
        json={"content": sample.code, "language": sample.language, "args": args},
        timeout=180,
    )
    assert preview.json() == sample.result

    deployed = http.post(
        "scripts/create",
        json={"path": path, "content": sample.code, "language": sample.language, "summary": ""},
    )
    assert deployed.status_code == 201, deployed.text
    status = wait_until(
        lambda: _settled(http.get(f"scripts/deployment_status/h/{deployed.text}").json()), "the lock", 120
    )
    assert status["lock_error_logs"] is None
    assert bool(status["lock"]) == sample.has_dependencies

    run = http.post(f"jobs/run_wait_result/p/{path}", json=args, timeout=120)
    assert run.json() == sample.result


def _settled(status: dict[str, Any]) -> dict[str, Any] | None:
    return status if status["lock"] is not None or status["lock_error_logs"] is not None else None
