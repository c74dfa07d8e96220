"""The no-op job with procrastinate."""

import os

import procrastinate
import told

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_DATABASE_URL"]))


@app.task(name="noop")
async def noop() -> None:
    told.tell_start()


def fill(count: int) -> None:
    noop.batch_defer(*({} for _ in range(count)))


if __name__ == "__main__":
    sync_app = app.with_connector(app.connector.get_sync_connector())
    with sync_app.open():
        told.main(setup=sync_app.schema_manager.apply_schema, push=lambda: noop.defer(), fill=fill)
