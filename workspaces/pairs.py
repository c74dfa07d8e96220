"""Two rows in one round trip, for the two questions that every request of the API asks.

Who is this (token and account), and what are they here (workspace and membership)? No foreign keys lead from one to the
other, so the ORM would ask twice, and building its query takes longer than PostgreSQL needs to answer.
"""

from typing import Any, TypeVar

from django.db import connection
from django.db.models import Model

L = TypeVar("L", bound=Model)
R = TypeVar("R", bound=Model)


def fetch_pair(
    left: type[L], right: type[R], *, on: str, where: str, values: list[Any]
) -> tuple[L | None, R | None]:
    """The row of `left` that `where` finds, and the row of `right` that `on` joins to it; None for what there is not.

    The conditions call the tables `l` and `r`, and hold a placeholder for each of `values`.
    """
    statement = (
        f"SELECT {_columns(left, 'l')}, {_columns(right, 'r')}"
        f" FROM {left._meta.db_table} AS l LEFT JOIN {right._meta.db_table} AS r ON {on} WHERE {where}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone()
    if row is None:
        return None, None
    width = len(left._meta.concrete_fields)
    return _instance(left, row[:width]), _instance(right, row[width:])


def _columns(model: type[Model], alias: str) -> str:
    return ", ".join(f"{alias}.{field.column}" for field in model._meta.concrete_fields)


def _instance(model: type[R], row: tuple[Any, ...]) -> R | None:
    names = [field.attname for field in model._meta.concrete_fields]
    made = model.from_db("default", names, row)
    return None if made.pk is None else made
