"""Crawl a site with two slices side by side, export when it is finished, and count: ``python run.py URL``."""

import sys
import time

from celery import chain, group
from shop import app, count_books

from skitter.contrib.celery import add, crawl, export, finished, parse, save, scrape

app.set_default()
url = sys.argv[1]
settings = {"allow_private": True} if "//127." in url else {}

# The job begins with its first URL, and two tasks work for it.
add.delay(url, "books", spider="books.py:Books", arguments={"url": url}, settings=settings).get()
crawls = group(crawl.s("books"), crawl.s("books"))()

# What follows begins when the job is finished, and no worker waits for it.
counted = chain(finished.s("books"), export.s("books.jsonl"), count_books.s())()
while not counted.ready():
    for task in crawls:
        if task.state == "PROGRESS":
            print(f"{task.info['counts']['done']} pages, {task.info['pages_per_second']} a second")
    time.sleep(1)
print(f"{counted.get()} books")

# One page alone, fetched, parsed and saved by three queues.
page = chain(scrape.s(url, settings=settings), parse.s(spider="books.py:Books"), save.s("page.jsonl"))()
print(page.get())
