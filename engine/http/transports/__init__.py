"""The chain of a request: host turn → cookies → body → address guard → route → a wire."""
