"""Values that beam writes and reads: events, messages, outcomes, settings; and the fold of events into a state."""
