"""How a run goes: rates, health of the data, estimated end, and expectations."""
