"""Egress: a proxy on a machine whose address changes, kept in the pool of a job."""
