"""A report in Markdown."""


def main(
    team: str = "Sales",
    week: int = 47,
    highlights: list[str] = ["Two new customers", "Invoices sent on Monday"],
):
    lines = [
        f"## {team}, week {week}",
        "",
        *(f"- {line}" for line in highlights),
        "",
        "| Day | Calls |",
        "| --- | --- |",
    ]
    lines += [
        f"| {day} | {calls} |" for day, calls in zip(("Mon", "Tue", "Wed", "Thu", "Fri"), (12, 9, 15, 11, 7))
    ]
    return {"markdown": "\n".join(lines)}
