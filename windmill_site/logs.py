"""How log lines look: text for people, JSON for operators who collect logs (JSON_FMT=true)."""

import json
import logging


class TextFormatter(logging.Formatter):
    """Time, level, logger, message. What people wrote (paths, tags) cannot pass for a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "\n    | ".join(
            "".join(char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in part)
            for part in line.split("\n")
        )


class JsonFormatter(logging.Formatter):
    """One JSON object a line: timestamp (UTC, ISO 8601), level, target, message, and the traceback when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "target": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
