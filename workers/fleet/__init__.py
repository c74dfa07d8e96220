"""The workers of an instance as servers and operators see them: which are alive, what they take, what waits for them."""
