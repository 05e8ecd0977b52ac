"""The chain of a request: middleware → host turn → cookies → body → address guard → route → a wire."""
