"""Files that fields name: downloads, their parts on disk."""
