"""JSON log lines for operators who collect logs (JSON_FMT=true)."""

import json
import logging


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
