"""Crawl a site with two tasks at once, export the items at the end, and count them: ``python run.py URL``."""

import sys
import time

from celery import chain, group
from shop import app, count_books

from skitter.contrib.celery import add, crawl, export, finished, parse, save, scrape

app.set_default()
url = sys.argv[1]
settings = {"allow_private": True} if "//127." in url else {}

# The first URL begins the job; two tasks work on it.
add.delay(url, "books", spider="books.py:Books", arguments={"url": url}, settings=settings).get()
crawls = group(crawl.s("books"), crawl.s("books"))()

# The chain continues when the job has finished. No Celery worker is blocked meanwhile.
counted = chain(finished.s("books"), export.s("books.jsonl"), count_books.s())()
while not counted.ready():
    for task in crawls:
        if task.state == "PROGRESS":
            print(f"{task.info['counts']['done']} pages, {task.info['pages_per_second']} a second")
    time.sleep(1)
print(f"{counted.get()} books")

# A single page, fetched, parsed and saved by tasks in three queues.
page = chain(scrape.s(url, settings=settings), parse.s(spider="books.py:Books"), save.s("page.jsonl"))()
print(page.get())
