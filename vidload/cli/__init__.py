"""The command line. May import everything; nothing imports it."""
