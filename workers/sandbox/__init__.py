from workers.sandbox.host import (
    ISOLATIONS,
    Ended,
    Isolation,
    IsolationRefused,
    JobHost,
    Limits,
    Program,
    ProgramTimedOut,
    SandboxUnavailable,
)

__all__ = [
    "ISOLATIONS",
    "Ended",
    "Isolation",
    "IsolationRefused",
    "JobHost",
    "Limits",
    "Program",
    "ProgramTimedOut",
    "SandboxUnavailable",
]
