"""One machine of a crawl: the supervisor and its worker processes, the pipe between them, signals."""
