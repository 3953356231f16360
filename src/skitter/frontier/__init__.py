"""The shared store of a job. ``contract`` says what every backend promises."""
