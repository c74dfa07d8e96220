"""Worker groups: what their configuration may say, the one place that writes it, and how changes are shown."""
