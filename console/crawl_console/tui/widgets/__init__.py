"""Widgets that draw lines of cleaned text."""
