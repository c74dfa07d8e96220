"""Total a CSV of orders by region, largest first."""

import csv
import io

EXAMPLE = """region,customer,amount
north,Abel,120.50
south,Baker,80.00
north,Cole,42.25
west,Dunn,310.00
south,Ellis,19.99
"""


def main(orders_csv: str = EXAMPLE, minimum: float = 0):
    totals: dict[str, dict] = {}
    for number, row in enumerate(csv.DictReader(io.StringIO(orders_csv)), start=1):
        region = totals.setdefault(row["region"], {"region": row["region"], "orders": 0, "total": 0.0})
        region["orders"] += 1
        region["total"] = round(region["total"] + float(row["amount"]), 2)
        print(f"order {number}: {row['region']} {float(row['amount']):.2f}")
    return sorted((r for r in totals.values() if r["total"] >= minimum), key=lambda r: -r["total"])
