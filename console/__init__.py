"""The command line, headless mode and the terminal console. The engine never imports it."""
