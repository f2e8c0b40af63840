"""What the two dialects of change tables share: raw rows bound by name, their values, their outcomes."""
