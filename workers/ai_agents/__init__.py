"""AI agents: jobs in which a model answers, and calls scripts and flows of the workspace as its tools."""
