"""Flows (OpenFlow): a typed model, a pure state machine, and the shell that performs what the machine asks for.

value        what a flow says: parsed once, errors name the place
state        how far a flow job is
machine      (flow, state, event) -> (state, effects), without I/O
driver       drives the machine: loads, evaluates, applies everything in one transaction
expressions  input transforms and predicates, in V8
public       flow_status as clients read it
"""
