"""Reads settings from files and variables, checks them, and resolves which one counts."""
