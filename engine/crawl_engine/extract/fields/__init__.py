"""Reads the fields of a record and converts their texts."""
