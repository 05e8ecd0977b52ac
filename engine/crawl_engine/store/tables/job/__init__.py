"""Jobs, their sequences and rings, and what plugin steps reported of them."""
