"""A storm: agents that count what they did, people and disasters that come at once, and the promises that hold then."""
