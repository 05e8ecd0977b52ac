"""What the robots.txt of a host allows."""
