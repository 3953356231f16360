"""Celery app: ``celery -A shop worker``. Broker, results and frontier use three databases of one Redis."""

import os
from pathlib import Path

from celery import Celery
from celery.schedules import crontab

from skitter.contrib.celery import SkitterTask, beat_entry, register

REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379")


class Told(SkitterTask):
    """Base class of all tasks: logs how each one ends."""

    def on_success(self, retval, task_id, args, kwargs):
        print(f"done: {self.name} {retval}")

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        print(f"failed: {self.name} {exc}")


app = Celery("shop", broker=os.environ.get("BROKER_URL", f"{REDIS}/0"), backend=f"{REDIS}/1")
app.conf.worker_prefetch_multiplier = 1
register(app, frontier=f"{REDIS}/2", base=Told)

app.conf.beat_schedule = {
    "books, every night": beat_entry(crontab(hour=2, minute=0), "books", spider="books.py:Books"),
}


@app.task
def count_books(exported):
    """Your own task at the end of the chain. It gets the return value of export."""
    return len(Path(exported["outputs"][0]).read_text().splitlines())
