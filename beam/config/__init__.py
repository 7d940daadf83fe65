"""Reads settings from files and variables, checks them, and decides which setting takes precedence."""
