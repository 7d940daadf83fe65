"""Decides whether a folder's own files may run code, and finds the files on which that decision depends."""
