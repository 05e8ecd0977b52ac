"""Pages that need a browser: Chromium in processes of its own, all of whose traffic the node carries and judges."""
