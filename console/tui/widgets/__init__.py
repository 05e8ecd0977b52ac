"""Parts of screens that draw lines of cleaned text."""
