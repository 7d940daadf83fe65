"""The wire formats of model APIs, as pure functions: Anthropic Messages, OpenAI Responses and Chat, Gemini."""
