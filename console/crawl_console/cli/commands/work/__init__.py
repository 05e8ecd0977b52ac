"""Commands that start runs and steer them."""
