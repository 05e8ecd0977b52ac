"""The reader of each type of field; `convert` imports it when a def names the type."""
