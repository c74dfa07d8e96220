"""Dependency files of a workspace, and which languages have dependencies at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Languages whose scripts get a lock from a dependency job when they are deployed.
LANGUAGES_WITH_LOCKS = frozenset({"python3", "bun", "bunnative", "nativets", "deno", "go", "php"})


@dataclass(frozen=True, kw_only=True)
class WantedFiles:
    """The dependency files of one language in a workspace (dependencies/requirements.in, dependencies/x.package.json)."""

    by_name: Mapping[str, str] = field(default_factory=dict)  # text by name; "" names the default one
