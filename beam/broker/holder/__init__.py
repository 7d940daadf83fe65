"""The process that holds an agent: its lease, its duty, its requests, its turn."""
