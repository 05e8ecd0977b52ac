"""From the written defs to what the engine uses."""
