"""What `changeledger migrate` does to a lake that version 0.1 has written."""
