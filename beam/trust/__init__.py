"""Tells whether a folder's own files may run code, and finds the files that this depends on."""
