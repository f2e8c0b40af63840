"""The commands: their arguments and what they do."""
