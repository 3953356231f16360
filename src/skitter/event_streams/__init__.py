"""Event streams for any number of subscribers. ``contract`` is the interface; ``publisher`` publishes to a stream."""
