"""What a call costs, before it runs."""
