"""Rules: which calls of an agent's tools are allowed, asked about or denied, in one language for all agents."""
