"""Commands that deliver, keep and delete what a data directory holds."""
