"""How the embedded PostgreSQL is configured, every value with its reason."""

from pathlib import Path

# For one instance on one machine: a busy queue of short statements, small rows, and memory shared with the
# jobs.
COMMON = {
    # Who gets in: the socket only, with a password. Jobs run on this machine, so no port may be open to them.
    "listen_addresses": "",
    "password_encryption": "scram-sha-256",
    "unix_socket_permissions": "0700",
    # 50 connections for the server's pool, a few for each worker process, a listener for each, and room for
    # operators.
    "max_connections": "200",
    # Memory. Pages are touched as they are needed: an idle instance stays far below this figure.
    "shared_buffers": "128MB",
    "effective_cache_size": "1GB",  # tells the planner that the kernel caches the rest
    "work_mem": "8MB",  # lists sort a page, not a table; many connections share the machine with jobs
    "maintenance_work_mem": "64MB",
    # PostgreSQL 18's default keeps three more processes for reading ahead; our reads are index look-ups.
    "io_method": "sync",
    "max_logical_replication_workers": "0",  # nobody subscribes here; spares the launcher process
    # Parallel plans take connections and /dev/shm (64 MB in a container) from a two-core machine for little.
    "max_parallel_workers_per_gather": "0",
    # Compiling a plan costs more than our statements run.
    "jit": "off",
    "random_page_cost": "1.1",  # SSD: an index look-up costs about what a sequential page costs
    # The queue's rows live for seconds; what they leave behind must be swept at once, or claims slow down.
    "autovacuum_naptime": "15s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_limit": "1000",
    # A laptop's disk: cap the log of changes, and spread checkpoints so that they are not felt as latency.
    "min_wal_size": "80MB",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",  # halves what full page images write after each checkpoint
    # A connection that died in the middle of a transaction must not hold row locks or keep vacuum back.
    "idle_in_transaction_session_timeout": "10min",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A file a weekday in postgres/log, replaced after a week. Terse, and without statements or row values:
    # those hold arguments, results and secrets.
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql-%a.log",
    "log_file_mode": "0600",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

DURABLE = {
    # What we said was done stays done, through a crash and a power cut.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}

# For tests: the server and its data are thrown away together, so nothing needs to reach the disk.
DISPOSABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "1min",
    "max_wal_size": "1GB",
}

HBA = """\
# Written at each start. The socket only, and a password for everybody.
local all         all scram-sha-256
local replication all scram-sha-256
"""


def render(*, socket_folder: Path, durable: bool) -> str:
    """The text of postgresql.conf. `postgresql.local.conf` beside it, if there is one, has the last word."""
    values = {**COMMON, **(DURABLE if durable else DISPOSABLE), "unix_socket_directories": str(socket_folder)}
    lines = [f"{name} = '{_quoted(value)}'" for name, value in values.items()]
    return "\n".join(
        [
            "# Written at each start (windmill_site/postgres_settings.py); your own values go to "
            "postgresql.local.conf.",
            *lines,
            "include_if_exists 'postgresql.local.conf'",
            "",
        ]
    )


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
