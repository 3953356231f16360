"""Egress: a proxy on a machine whose address changes, registered in the proxy pool of a job."""
