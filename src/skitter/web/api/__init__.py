"""The REST API at /api/v1: a table of routes, each with its role, parameters and answer."""
