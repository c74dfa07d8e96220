"""A scope for tests of expressions: plain values, and a record of what was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PlainScope:
    flow_input_value: Any = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    previous: Any = None
    env: Any = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def flow_input(self) -> Any:
        self.asked.append("flow_input")
        return self.flow_input_value

    async def flow_env(self) -> Any:
        self.asked.append("flow_env")
        return self.env

    async def previous_result(self) -> Any:
        self.asked.append("previous_result")
        return self.previous

    async def result(self, step_id: str) -> Any:
        self.asked.append(f"results.{step_id}")
        return self.results.get(step_id)

    async def variable(self, path: str) -> Any:
        self.asked.append(f"variable {path}")
        return self.variables[path]

    async def resource(self, path: str) -> Any:
        self.asked.append(f"resource {path}")
        return self.resources[path]

    async def flow_user_state(self, key: str) -> Any:
        self.asked.append(f"state {key}")
        return self.states.get(key)
