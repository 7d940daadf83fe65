"""Where beam keeps its state: paths, their owners, and which root belongs to a folder."""
