"""The processes that serve agents: brokers and workers."""
