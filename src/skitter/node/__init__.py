"""What one machine runs for a job: the node, its supervisor and worker processes, signals, dead workers."""
