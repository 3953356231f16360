"""The rig of the fault suite: a cluster on one machine, the ways to break it, and the report of what came out."""
