"""The machine: what a flow does next. Pure: (flow, state, event) -> (state, effects), by way of questions.

`advance` is a generator: it yields a `Question` wherever the outside must be asked (an expression, approvals, whether a
job has ended), is sent the answer, or is thrown StepFailed or LookupError as the question says, and appends `Effect`s.
It changes the state that it was given; whoever drives it stores that state and performs the effects in one transaction,
or drops both. After any interruption `Wake` looks at everything again, so no event is ever needed twice or missed.

Its parts stand on each other, from the last to the first, and each calls what is below it:

    events        what an event means for a flow, as far as it is
    beginnings    how a module begins; the preprocessor
    approvals     between a step that asks for approvals and the next one
    containers    loops and branches, as they begin
    iterations    loops and branchalls, as they go on: in a row, side by side
    endings       success, early stop, retry, failure, the failure module (which begins a module again: its two
                  abstract methods are all that is called upwards)
    part          state and effects, as all of them see them
    flow          the flow job, and what can be said of its modules by looking at them

Rules are those of reference/flows.md; the chapter is named where one is not obvious.
"""

from jobs.flows.machine.events import Machine
from jobs.flows.machine.flow import FAILURE, PREPROCESSOR, Flow, Steps
from jobs.flows.machine.iterations import CHUNK
from jobs.flows.protocol import Effect, Event
from jobs.flows.state import State

__all__ = ["CHUNK", "FAILURE", "PREPROCESSOR", "Flow", "advance"]


def advance(flow: Flow, state: State, event: Event, effects: list[Effect]) -> Steps:
    """Let `event` happen. Without effects nothing has changed: the event came too late."""
    return Machine(flow, state, effects).handle(event)
