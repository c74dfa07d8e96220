"""The no-op job with celery and Redis."""

import os

import told
from celery import Celery

app = Celery("celery_noop", broker=os.environ["PEER_REDIS_URL"])


@app.task(name="noop", ignore_result=True)
def noop() -> None:
    told.tell_start()


def fill(count: int) -> None:
    with app.producer_or_acquire() as producer:
        for _ in range(count):
            noop.apply_async(producer=producer)


if __name__ == "__main__":
    told.main(setup=lambda: None, push=lambda: noop.delay() and None, fill=fill)
