"""The audit trail: a chain of entries for each store, and which calls leave one."""
