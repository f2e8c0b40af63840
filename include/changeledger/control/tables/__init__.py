"""The tables of the control store, one class each."""
