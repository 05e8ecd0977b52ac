"""What the command line and the console both say: alarms, and what a plan changes."""
