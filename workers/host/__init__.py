"""The machine that a worker runs on: what it offers, and what a worker group asks to have done to it."""
