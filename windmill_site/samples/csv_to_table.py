import csv
import io

SAMPLE = """city,country,population
Lisbon,Portugal,545000
Oslo,Norway,709000
Kyoto,Japan,1460000
"""


def main(csv_text: str = SAMPLE, sort_by: str = "population", descending: bool = True) -> list[dict]:
    rows = list(csv.DictReader(io.StringIO(csv_text)))
    print(f"read {len(rows)} rows")
    for row in rows:
        for name, value in row.items():
            if value.isdigit():
                row[name] = int(value)
    rows.sort(key=lambda row: row[sort_by], reverse=descending)
    print(f"sorted by {sort_by}")
    return rows
