"""What the SQL runtimes have in common: statements, arguments, and results that are written while they are read."""
