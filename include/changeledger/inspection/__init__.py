"""What people ask about a feed between its runs, and what they ask of its next one."""
