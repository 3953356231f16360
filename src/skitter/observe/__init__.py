"""What can be seen of a crawl from outside: events today, metrics some day. Rooms above tell; nothing here asks."""
