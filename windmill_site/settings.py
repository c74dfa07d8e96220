"""Settings: every variable is read here, once, with its type; a wrong value stops the start with a sentence.

The table of variables in docs/configuration.md is the reader's view of this file.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from workers.networks import BlockedNetworks

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = "1.819.0"  # the Windmill API level that we speak: clients compare against it


def _stop(message: str) -> None:
    raise ImproperlyConfigured(message)


class _Env(environ.Env):
    """django-environ, with errors that name the variable, what it holds and what it should hold."""

    def get_value(
        self, var: str, cast: Any = None, default: Any = environ.Env.NOTSET, parse_default: bool = False
    ) -> Any:
        try:
            return super().get_value(var, cast=cast, default=default, parse_default=parse_default)
        except (ValueError, TypeError, KeyError) as exc:
            wanted = {int: "a whole number", float: "a number"}.get(cast, "a different value")
            raise ImproperlyConfigured(f"{var} is {self.ENVIRON.get(var)!r}; expected {wanted}.") from exc


env = _Env()


def _bool(name: str, *, default: bool) -> bool:
    """Read a switch. Only these words: a typo such as `flase` must not silently mean false."""
    raw = env.str(name, default="").strip().lower()
    if not raw:
        return default
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off"):
        return False
    raise ImproperlyConfigured(f"{name} is {raw!r}; expected true or false.")


def _positive(name: str, default: int, *, least: int = 1, most: int | None = None) -> int:
    value = env.int(name, default=default)
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"between {least} and {most}"
        _stop(f"{name} is {value}; expected {limits}.")
    return value


def _list(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in env.str(name, default=default).split(",") if item.strip()]


# --- what this process is ---

MODE = env.str("MODE", default="standalone")
if MODE not in ("standalone", "server", "worker"):
    _stop(f"MODE is {MODE!r}; expected standalone, server or worker.")

TESTING = "pytest" in sys.modules
DEBUG = _bool("DEBUG", default=False)
DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / ".data")))
INSTANCE_NAME = env.str("INSTANCE_NAME", default="") or socket.gethostname()
PORT = _positive("PORT", 8000, most=65535)
SERVER_BIND_ADDR = env.str("SERVER_BIND_ADDR", default="127.0.0.1")
BASE_URL = env.str("BASE_URL", default="").rstrip("/") or f"http://localhost:{PORT}"
# Where jobs reach the API; the wmill clients append /api themselves.
BASE_INTERNAL_URL = env.str("BASE_INTERNAL_URL", default="").rstrip("/") or f"http://localhost:{PORT}"
for _name, _url in (("BASE_URL", BASE_URL), ("BASE_INTERNAL_URL", BASE_INTERNAL_URL)):
    if not _url.startswith(("http://", "https://")):
        _stop(f"{_name} is {_url!r}; expected an address that starts with http:// or https://.")
TRUST_PROXY_HEADERS = _bool("TRUST_PROXY_HEADERS", default=False)  # the supervisor tells daphne the same
COOKIE_DOMAIN = env.str("COOKIE_DOMAIN", default="") or None
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO").upper()
if LOG_LEVEL not in ("DEBUG", "INFO", "WARNING", "ERROR"):
    _stop(f"LOG_LEVEL is {LOG_LEVEL!r}; expected DEBUG, INFO, WARNING or ERROR.")
JSON_FMT = _bool("JSON_FMT", default=False)

SECRET_KEY = env.str("SECRET_KEY", default="")
if not SECRET_KEY:
    _stop(
        "SECRET_KEY is not set. `./windmill up` makes one by itself and keeps it in the data folder; any other way to "
        "start needs the same long random SECRET_KEY on every server and worker."
    )
# Encrypts the workspace keys. Separate from SECRET_KEY so that the latter can be changed without losing secrets.
ENCRYPTION_KEY = env.str("ENCRYPTION_KEY", default="") or SECRET_KEY

# --- governance ---

SUPERADMIN_EMAIL = env.str("SUPERADMIN_EMAIL", default="admin@windmill.dev").lower()
SUPERADMIN_PASSWORD = env.str("SUPERADMIN_PASSWORD", default="changeme")
SUPERADMIN_SECRET = env.str("SUPERADMIN_SECRET", default="") or None
if SUPERADMIN_SECRET is not None and len(SUPERADMIN_SECRET) < 16:
    _stop(
        "SUPERADMIN_SECRET is shorter than 16 characters; it acts as a superadmin token, so make it long and random."
    )
CREATE_WORKSPACE_REQUIRE_SUPERADMIN = _bool("CREATE_WORKSPACE_REQUIRE_SUPERADMIN", default=True)
SESSION_DAYS = _positive("SESSION_DAYS", 14)

# --- jobs ---

TIMEOUT = _positive("TIMEOUT", 604_800)  # seconds no job may exceed
JOB_DEFAULT_TIMEOUT = env.int("JOB_DEFAULT_TIMEOUT", default=0) or None  # seconds; None: TIMEOUT applies
SCRIPT_TOKEN_EXPIRY = _positive("SCRIPT_TOKEN_EXPIRY", TIMEOUT)
ZOMBIE_JOB_TIMEOUT = _positive("ZOMBIE_JOB_TIMEOUT", 60, least=5)  # seconds without heartbeat
RESTART_ZOMBIE_JOBS = _bool("RESTART_ZOMBIE_JOBS", default=True)
RESTART_LIMIT = 3  # restarts of one job after lost workers (reference/queue.md section 9)
DISABLE_ZOMBIE_JOBS_MONITORING = _bool("DISABLE_ZOMBIE_JOBS_MONITORING", default=False)
STALE_JOB_THRESHOLD_MINUTES = env.int("STALE_JOB_THRESHOLD_MINUTES", default=0) or None
DISABLE_CONCURRENCY_LIMIT = _bool("DISABLE_CONCURRENCY_LIMIT", default=False)
MONITOR_INTERVAL_SECONDS = _positive("MONITOR_INTERVAL_SECONDS", 15)
JOB_CLEANUP_BATCH_SIZE = _positive("JOB_CLEANUP_BATCH_SIZE", 20_000)
JOB_CLEANUP_MAX_BATCHES = _positive("JOB_CLEANUP_MAX_BATCHES", 20)
JOB_RETENTION_SECONDS = _positive("JOB_RETENTION_SECONDS", 30 * 86_400, least=0)  # 0: keep for ever
TIMEOUT_WAIT_RESULT = _positive("TIMEOUT_WAIT_RESULT", 600)
QUEUE_LIMIT_WAIT_RESULT = env.int("QUEUE_LIMIT_WAIT_RESULT", default=0) or None
INCLUDE_HEADERS = _list("INCLUDE_HEADERS")
MAX_RESULT_SIZE_MB = _positive("MAX_RESULT_SIZE_MB", 500)
MAX_LOG_SIZE_MB = _positive("MAX_LOG_SIZE_MB", 50)
MAX_REQUEST_SIZE_MB = _positive("MAX_REQUEST_SIZE_MB", 50)
NO_LOGS = _bool("NO_LOGS", default=False)

# --- workers ---

WORKER_GROUP = env.str("WORKER_GROUP", default="default")
WORKER_TAGS = _list("WORKER_TAGS")
FORCE_WORKER_TAGS = _list("FORCE_WORKER_TAGS")
DEDICATED_WORKER = _list("DEDICATED_WORKER")  # workspace:path of scripts, workspace:flow/path of flows
ADD_FLOW_TAG = _bool("ADD_FLOW_TAG", default=False)  # dedicated workers take the flows of the instance, too
NATIVE_MODE = _bool("NATIVE_MODE", default=WORKER_GROUP == "native")
# None: NUM_WORKERS_DEFAULT, which `./windmill up` sets; of a native worker workers.tags.NATIVE_SLOTS.
NUM_WORKERS = _positive("NUM_WORKERS", 1, most=1000) if env.str("NUM_WORKERS", default="") else None
NUM_WORKERS_DEFAULT = _positive("NUM_WORKERS_DEFAULT", 1, most=1000)
SLEEP_QUEUE = _positive(
    "SLEEP_QUEUE", 50 * (NUM_WORKERS or NUM_WORKERS_DEFAULT), least=10
)  # milliseconds between polls without NOTIFY
# While jobs pile up, workspaces take turns (jobs.turns).
QUEUE_FAIRNESS = _bool("QUEUE_FAIRNESS", default=True)
EXIT_AFTER_N_JOBS = _positive("EXIT_AFTER_N_JOBS", 0, least=0) or None
HEARTBEAT_SECONDS = _positive("HEARTBEAT_SECONDS", 5)
if HEARTBEAT_SECONDS * 2 > ZOMBIE_JOB_TIMEOUT:
    _stop(
        f"HEARTBEAT_SECONDS is {HEARTBEAT_SECONDS} and ZOMBIE_JOB_TIMEOUT is {ZOMBIE_JOB_TIMEOUT}; the timeout must be "
        "at least twice the heartbeat, or healthy jobs are taken for dead."
    )
JOB_ISOLATION = env.str("JOB_ISOLATION", default="warn")
if JOB_ISOLATION not in ("refuse", "warn"):
    _stop(
        f"JOB_ISOLATION is {JOB_ISOLATION!r}; expected refuse (no isolation, no jobs) or warn (run and say so)."
    )
# Where clouds give out credentials to whoever asks: link-local (AWS, Azure, Google and most others), AWS over IPv6 (also
# ::23, of Kubernetes there), Google and Scaleway over IPv6, Azure's host agent, Alibaba, Oracle.
JOB_BLOCKED_NETWORKS = _list(
    "JOB_BLOCKED_NETWORKS",
    "169.254.0.0/16,fe80::/10,fd00:ec2::/32,fd20:ce::254,fd00:42::42,168.63.129.16,100.100.100.200,192.0.0.192",
)
if len(JOB_BLOCKED_NETWORKS) > 100:
    _stop(f"JOB_BLOCKED_NETWORKS names {len(JOB_BLOCKED_NETWORKS)} networks; at most 100 can be looked at.")
try:
    BlockedNetworks(JOB_BLOCKED_NETWORKS)
except ValueError as _error:
    _stop(f"JOB_BLOCKED_NETWORKS: {_error}, with commas between several. Empty: nothing is blocked.")
# What one job may use at most; groups and scripts may say less (docs/limits.md).
JOB_MEMORY_LIMIT_MB = _positive("JOB_MEMORY_LIMIT_MB", 2048, least=32)
JOB_CPU_LIMIT = env.float("JOB_CPU_LIMIT", default=0.0) or None  # processors' worth of time; None: no limit
if JOB_CPU_LIMIT is not None and not 0.01 <= JOB_CPU_LIMIT <= 4096:
    _stop(f"JOB_CPU_LIMIT is {JOB_CPU_LIMIT}; expected 0 (no limit) or a number from 0.01, such as 0.5 or 2.")
JOB_PROCESS_LIMIT = _positive("JOB_PROCESS_LIMIT", 512)
JOB_OPEN_FILES_LIMIT = _positive("JOB_OPEN_FILES_LIMIT", 4096, least=16, most=1 << 20)
JOB_DISK_LIMIT_MB = _positive("JOB_DISK_LIMIT_MB", 1024)
JOB_FILE_LIMIT_MB = _positive("JOB_FILE_LIMIT_MB", 4096)
JOB_CONTROL_GROUPS = _bool("JOB_CONTROL_GROUPS", default=True)
CACHE_MAX_MB = _positive("CACHE_MAX_MB", 10_000)
INIT_SCRIPT = env.str("INIT_SCRIPT", default="")
PERIODIC_BASH_SCRIPT = env.str("PERIODIC_BASH_SCRIPT", default="")
PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS = (
    _positive("PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS", 60, least=60)
    if env.str("PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS", default="")
    else None
)
if PERIODIC_BASH_SCRIPT.strip() and PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS is None:
    _stop(
        "PERIODIC_BASH_SCRIPT is set and PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS is not; say every how many seconds it "
        "shall run (60 or more)."
    )
ADDITIONAL_PYTHON_PATHS = _list("ADDITIONAL_PYTHON_PATHS")  # folders
PIP_LOCAL_DEPENDENCIES = _list("PIP_LOCAL_DEPENDENCIES")  # packages that this host has already
WHITELIST_ENVS = _list("WHITELIST_ENVS")
# Each user of the machine has one of their own: a folder made by root would shut everybody else out.
WORKER_DIR = Path(env.str("WORKER_DIR", default="/tmp/windmill" + (f"-{os.getuid()}" if os.getuid() else "")))

# --- database ---

_url_file = env.str("DATABASE_URL_FILE", default="")
if _url_file:
    try:
        DATABASE_URL = Path(_url_file).read_text().strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"DATABASE_URL_FILE is {_url_file!r}, which cannot be read: {exc.strerror}."
        ) from exc
else:
    DATABASE_URL = env.str("DATABASE_URL", default="")
if not DATABASE_URL:
    _stop(
        "DATABASE_URL is not set. `./windmill up` starts an embedded PostgreSQL; anything else needs the address of one."
    )
if not DATABASE_URL.startswith(("postgres://", "postgresql://")):
    _stop(
        "DATABASE_URL must start with postgres:// or postgresql://; PostgreSQL 14 or newer is the one database we run on."
    )
# LISTEN needs a connection of its own that no transaction-mode pooler sits in front of.
DATABASE_DIRECT_URL = env.str("DATABASE_DIRECT_URL", default="") or DATABASE_URL
DATABASE_CONNECTIONS = _positive("DATABASE_CONNECTIONS", 50, least=2)

_database = env.db_url_config(DATABASE_URL)
_database["ENGINE"] = "django.db.backends.postgresql"
_database.setdefault("OPTIONS", {})
if not TESTING:
    # Threads come and go with requests; connections must not. (Tests count on one connection a thread.)
    _database["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": DATABASE_CONNECTIONS,
        "timeout": 15,
        "max_idle": 120,
    }
_database["CONN_MAX_AGE"] = 0
# After a restart or failover of the database the pool holds dead connections; a request must not be given one.
_database["CONN_HEALTH_CHECKS"] = True
# A transaction-mode pooler may hand each transaction another server connection: nothing may be session-scoped.
_database["DISABLE_SERVER_SIDE_CURSORS"] = True
if DATABASE_DIRECT_URL == DATABASE_URL:
    # For statements that ask to be prepared (jobs.pg); Django's own are put together by the client and never are.
    _database["OPTIONS"]["prepare_threshold"] = 5
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Django ---

ALLOWED_HOSTS = ["*"]  # the API answers under any name a proxy gives it; links are built from BASE_URL
INSTALLED_APPS = [
    "daphne",
    "workspaces.apps.WorkspacesConfig",
    "jobs.apps.JobsConfig",
    "workers.apps.WorkersConfig",
    "windmill_site.apps.SiteConfig",
    "windmill_site.apps.WindmillAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
]
MIDDLEWARE = [
    "windmill_site.csp.ContentSecurityPolicy",
    "workspaces.middleware.RequestLimits",
    "servestatic.middleware.ServeStaticMiddleware",
    "windmill_site.pages_only.PageSession",
    "windmill_site.pages_only.PageCsrf",
    "workspaces.middleware.TokenMiddleware",
    "windmill_site.pages_only.PageMessages",
]
ROOT_URLCONF = "windmill_site.urls"
ASGI_APPLICATION = "windmill_site.asgi.application"
APPEND_SLASH = False
AUTH_USER_MODEL = "workspaces.Account"
LOGIN_URL = "/login/"
AUTHENTICATION_BACKENDS = ["workspaces.accounts.PasswordBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 8}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Sign-in is our token (one mechanism for pages, API and admin); Django's session only carries flash state.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
COOKIE_SECURE = BASE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = COOKIE_SECURE
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_REQUEST_SIZE_MB * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "windmill_site.context.shell",
            ],
            "builtins": ["windmill_site.templatetags.ui"],
        },
    }
]
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(env.str("STATIC_ROOT", default=str(DATA_DIR / "static")))
# `./windmill up` collects static files once into STATIC_ROOT and serves hashed names; without that step (tests,
# a bare daphne) the finders serve plain names.
STATIC_IS_COLLECTED = (STATIC_ROOT / "staticfiles.json").is_file() and not TESTING
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "windmill_site.storage.ModuleManifestStorage"
        if STATIC_IS_COLLECTED or "collectstatic" in sys.argv
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
SERVESTATIC_USE_FINDERS = not STATIC_IS_COLLECTED
SERVESTATIC_AUTOREFRESH = False
SERVESTATIC_MAX_AGE = 60
LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
# Logs, results and watchers travel through PostgreSQL (LISTEN/NOTIFY); no channel layer is used between processes.
CHANNEL_LAYERS: dict[str, Any] = {}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["workspaces.api.protocol.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["workspaces.api.protocol.IsSignedIn"],
    "DEFAULT_RENDERER_CLASSES": ["workspaces.api.protocol.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["workspaces.api.protocol.JSONParser"],
    "EXCEPTION_HANDLER": "workspaces.api.protocol.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "workspaces.api.protocol.AlwaysOurRenderer",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Windmill API",
    "VERSION": VERSION,
    "DESCRIPTION": "The HTTP API of this instance. Authenticate with `Authorization: Bearer <token>`.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "workspaces.api.schema.add_errors",
    ],
    # Without .* at their ends, greedy path parameters would look like texts without slashes.
    "PATH_CONVERTER_OVERRIDES": {"path": {"type": "string", "description": "May contain slashes"}},
}
# E410 wants Django's session login for the admin; ours signs in with the token middleware instead.
SILENCED_SYSTEM_CHECKS = ["admin.E408", "admin.E410"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {
            "()": "windmill_site.logs.TextFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
        },
        "json": {"()": "windmill_site.logs.JsonFormatter"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json" if JSON_FMT else "text"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "daphne": {"level": "WARNING"},
        "asyncio": {"level": "WARNING"},
    },
}
