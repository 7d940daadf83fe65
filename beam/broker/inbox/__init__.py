"""What waits for an agent: messages are composed, put, checked, closed and routed, and their turns are prepared."""
