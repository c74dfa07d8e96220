"""The resource types that every instance starts with, under the names and fields that Windmill's scripts expect."""

from typing import Any, NamedTuple


class WellKnownType(NamedTuple):
    """A resource type before it is a row."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON Schema of the value


def _text(description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _secret(description: str = "") -> dict[str, Any]:
    # `password` makes forms keep the text in a secret variable and put `$var:path` here.
    return _text(description, password=True)


def _number(description: str = "", default: int | None = None) -> dict[str, Any]:
    return {
        "type": "integer",
        "description": description,
        **({} if default is None else {"default": default}),
    }


def _switch(description: str = "", *, default: bool = False) -> dict[str, Any]:
    return {"type": "boolean", "description": description, "default": default}


def _type(name: str, description: str, required: str = "", /, **properties: dict[str, Any]) -> WellKnownType:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "order": list(properties),
    }
    return WellKnownType(name, description, schema)


def _any(name: str, description: str) -> WellKnownType:
    return WellKnownType(name, description, {"type": "object", "properties": {}, "required": []})


WELL_KNOWN_TYPES: tuple[WellKnownType, ...] = (
    _type(
        "postgresql", "A PostgreSQL database", "host dbname",
        host=_text("Host name or address"),
        port=_number("Port", 5432),
        user=_text("User name"),
        dbname=_text("Database"),
        sslmode=_text("How to use TLS", enum=["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
        password=_secret("Password"),
        root_certificate_pem=_text("Certificate authority, PEM", **{"x-multiline": True}),
    ),
    _type(
        "mysql", "A MySQL or MariaDB database", "host database",
        host=_text("Host name or address"),
        port=_number("Port", 3306),
        user=_text("User name"),
        database=_text("Database"),
        ssl=_switch("Use TLS"),
        password=_secret("Password"),
    ),
    _type(
        "mssql", "A Microsoft SQL Server database", "host dbname",
        host=_text("Host name or address"),
        port=_number("Port", 1433),
        user=_text("User name"),
        dbname=_text("Database"),
        instance_name=_text("Named instance"),
        password=_secret("Password"),
        encrypt=_switch("Encrypt the connection", default=True),
        trust_cert=_switch("Accept any server certificate"),
        ca_cert=_text("Certificate authority, PEM", **{"x-multiline": True}),
    ),
    _type(
        "bigquery", "A Google BigQuery project, by its service account key", "project_id client_email private_key",
        type=_text("Always service_account", default="service_account"),
        project_id=_text("Project"),
        private_key_id=_text("Key id"),
        private_key=_secret("Private key, PEM"),
        client_email=_text("Service account"),
        client_id=_text("Client id"),
        auth_uri=_text(default="https://accounts.google.com/o/oauth2/auth"),
        token_uri=_text(default="https://oauth2.googleapis.com/token"),
        auth_provider_x509_cert_url=_text(default="https://www.googleapis.com/oauth2/v1/certs"),
        client_x509_cert_url=_text(),
    ),
    _type(
        "snowflake", "A Snowflake account", "account_identifier",
        account_identifier=_text("<organisation>-<account>"),
        private_key=_secret("Private key, PEM"),
        public_key=_text("Public key, PEM", **{"x-multiline": True}),
        warehouse=_text("Warehouse"),
        username=_text("User name"),
        database=_text("Database"),
        schema=_text("Schema"),
        role=_text("Role"),
    ),
    _type(
        "oracledb", "An Oracle database", "database",
        user=_text("User name"),
        database=_text("//host:port/service"),
        password=_secret("Password"),
    ),
    _type(
        "mongodb", "A MongoDB deployment", "db servers",
        db=_text("Database"),
        tls=_switch("Use TLS"),
        servers={
            "type": "array",
            "items": {"type": "object", "properties": {"host": _text("Host"), "port": _number("Port", 27017)}},
        },
        credential={
            "type": "object",
            "properties": {
                "username": _text("User name"),
                "password": _secret("Password"),
                "db": _text("Database that holds the user"),
                "mechanism": _text("Mechanism", default="SCRAM-SHA-256"),
            },
        },
    ),
    _type(
        "redis", "A Redis or Valkey server", "host",
        host=_text("Host name or address"),
        port=_number("Port", 6379),
        db=_number("Database", 0),
        password=_secret("Password"),
        tls=_switch("Use TLS"),
    ),
    _type(
        "s3", "A bucket of S3-compatible object storage", "bucket endPoint",
        bucket=_text("Bucket"),
        region=_text("Region"),
        useSSL=_switch("Use https", default=True),
        endPoint=_text("Host name, such as s3.eu-west-1.amazonaws.com"),
        accessKey=_text("Access key id"),
        secretKey=_secret("Secret access key"),
        pathStyle=_switch("Bucket in the path instead of the host name"),
        port=_number("Port, when not the usual one"),
    ),
    _type(
        "azure_blob", "A container of Azure Blob Storage", "accountName containerName",
        accountName=_text("Storage account"),
        containerName=_text("Container"),
        accessKey=_secret("Access key"),
        endpoint=_text("Endpoint, when not the usual one"),
        useSSL=_switch("Use https", default=True),
    ),
    _type(
        "gcloud", "A Google Cloud access token", "token",
        token=_secret("Access token"),
    ),
    _type(
        "aws", "Amazon Web Services credentials", "awsAccessKeyId awsSecretAccessKey",
        awsAccessKeyId=_text("Access key id"),
        awsSecretAccessKey=_secret("Secret access key"),
        region=_text("Region"),
    ),
    _type(
        "slack", "A Slack workspace", "token",
        token=_secret("Bot token (xoxb-...)"),
    ),
    _type(
        "discord_webhook", "A Discord channel", "webhook_url",
        webhook_url=_secret("Address of the webhook"),
    ),
    _type(
        "ms_teams_webhook", "A Microsoft Teams channel", "webhook_url",
        webhook_url=_secret("Address of the webhook"),
    ),
    _type(
        "telegram", "A Telegram bot", "token",
        token=_secret("Bot token"),
    ),
    _type(
        "smtp", "A mail server", "host",
        host=_text("Host name or address"),
        port=_number("Port", 587),
        user=_text("User name"),
        password=_secret("Password"),
    ),
    _type(
        "gmail", "A Gmail account", "token",
        token=_secret("Access token"),
    ),
    _type(
        "sendgrid", "A SendGrid account", "token",
        token=_secret("API key"),
    ),
    _type(
        "openai", "An OpenAI account", "api_key",
        api_key=_secret("API key"),
        organization_id=_text("Organisation"),
        base_url=_text("Address, for compatible services"),
    ),
    _type(
        "anthropic", "An Anthropic account", "apiKey",
        apiKey=_secret("API key"),
    ),
    _type(
        "mistral", "A Mistral account", "apiKey",
        apiKey=_secret("API key"),
    ),
    _type(
        "customai", "Any service that speaks the OpenAI protocol", "base_url",
        base_url=_text("Address"),
        api_key=_secret("API key"),
    ),
    _type(
        "github", "A GitHub account", "token",
        token=_secret("Personal access token"),
    ),
    _type(
        "gitlab", "A GitLab account", "token baseUrl",
        baseUrl=_text("Address", default="https://gitlab.com"),
        token=_secret("Access token"),
    ),
    _type(
        "git_repository", "A git repository to read and write", "url",
        url=_secret("Address, with credentials where it needs them"),
        branch=_text("Branch; empty: the default one"),
        folder=_text("Folder in the repository; empty: its root"),
        is_github_app=_switch("Credentials come from the GitHub app"),
    ),
    _type(
        "http", "An HTTP service", "base_url",
        base_url=_text("Address"),
        headers={"type": "object", "description": "Headers of every request", "properties": {}},
        token=_secret("Bearer token"),
    ),
    _type(
        "kafka", "A Kafka cluster", "brokers",
        brokers={"type": "array", "items": {"type": "string"}, "description": "host:port of each broker"},
        security={"type": "object", "properties": {}, "description": "Label, mechanism, user name and password"},
    ),
    _type(
        "nats", "A NATS cluster", "servers",
        servers={"type": "array", "items": {"type": "string"}, "description": "Addresses"},
        auth={"type": "object", "properties": {}},
        require_tls=_switch("Use TLS"),
    ),
    _type(
        "mqtt", "An MQTT broker", "broker",
        broker=_text("Host name or address"),
        port=_number("Port", 1883),
        credentials={"type": "object", "properties": {"username": _text(), "password": _secret()}},
        tls={"type": "object", "properties": {"enabled": _switch("Use TLS"), "ca_certificate": _text()}},
    ),
    _type(
        "graphql", "A GraphQL service", "base_url",
        base_url=_text("Address"),
        bearer_token=_secret("Bearer token"),
        custom_headers={"type": "object", "properties": {}},
    ),
    _type(
        "ssh", "A machine to reach by SSH", "host",
        host=_text("Host name or address"),
        port=_number("Port", 22),
        username=_text("User name"),
        password=_secret("Password"),
        private_key=_secret("Private key, PEM"),
    ),
    _type(
        "ansible_inventory", "An Ansible inventory", "content",
        content=_text("The inventory file", **{"x-multiline": True}),
    ),
    _type(
        "stripe", "A Stripe account", "token",
        token=_secret("Secret key"),
    ),
    _type(
        "airtable", "An Airtable account", "apiKey",
        apiKey=_secret("Personal access token"),
    ),
    _type(
        "notion", "A Notion integration", "token",
        token=_secret("Integration token"),
    ),
    _type(
        "supabase", "A Supabase project", "url key",
        url=_text("Address of the project"),
        key=_secret("Key"),
    ),
    _any("state", "What a script remembers between its runs"),
    _any("cache", "A result kept for later runs"),
    _any("app_theme", "Colours and styles of apps"),
    _any("json_schema", "A JSON Schema to share between scripts"),
)  # fmt: skip
