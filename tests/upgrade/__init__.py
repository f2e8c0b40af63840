"""A lake of version 0.1, and what this version makes of it."""
