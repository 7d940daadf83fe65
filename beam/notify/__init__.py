"""Tells a person, by a command or a webhook, that something happened."""
