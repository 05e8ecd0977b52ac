"""The formats of files: encoders and writers."""
