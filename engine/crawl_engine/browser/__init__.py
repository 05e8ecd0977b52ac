"""Pages that need a browser: Chromium in processes of its own, whose traffic a node carries."""
