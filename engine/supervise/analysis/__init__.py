"""How a run goes: its rates, the health of its data, when it will end, and what it was expected to give."""
