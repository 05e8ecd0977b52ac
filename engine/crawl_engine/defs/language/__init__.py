"""The def language: declared keys, kinds of values, reader and JSON Schema."""
