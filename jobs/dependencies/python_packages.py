"""Which package brings a Python module, where its name on the package index is not the name that is imported."""

import sys

# Modules of Python itself that are newer than the Python that runs us.
_NEWER_STDLIB = frozenset({"annotationlib", "compression", "profiling"})
STDLIB = sys.stdlib_module_names | _NEWER_STDLIB

# By the dotted name that is imported. Names that differ in case, - and _ only are one name to an index: not listed.
_PACKAGES = {
    "absl": "absl-py",
    "airflow": "apache-airflow",
    "apiclient": "google-api-python-client",
    "argon2": "argon2-cffi",
    "attr": "attrs",
    "Bio": "biopython",
    "bs4": "beautifulsoup4",
    "cassandra": "cassandra-driver",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "cv2": "opencv-python-headless",
    "databricks.sql": "databricks-sql-connector",
    "dateutil": "python-dateutil",
    "decouple": "python-decouple",
    "discord": "discord.py",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "github": "PyGithub",
    "gitlab": "python-gitlab",
    "google.ai.generativelanguage": "google-ai-generativelanguage",
    "google.analytics.admin_v1alpha": "google-analytics-admin",
    "google.analytics.admin_v1beta": "google-analytics-admin",
    "google.analytics.data": "google-analytics-data",
    "google.analytics.data_v1beta": "google-analytics-data",
    "google.api": "googleapis-common-protos",
    "google.appengine": "appengine-python-standard",
    "google.cloud.exceptions": "google-cloud-core",
    "google.cloud.firestore_v1": "google-cloud-firestore",
    "google.cloud.monitoring_v3": "google-cloud-monitoring",
    "google.cloud.pubsub_v1": "google-cloud-pubsub",
    "google.cloud.secretmanager": "google-cloud-secret-manager",
    "google.cloud.speech_v1": "google-cloud-speech",
    "google.cloud.tasks_v2": "google-cloud-tasks",
    "google.cloud.translate_v2": "google-cloud-translate",
    "google.cloud.vision_v1": "google-cloud-vision",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "google.type": "googleapis-common-protos",
    "googleapiclient": "google-api-python-client",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "grpc_tools": "grpcio-tools",
    "jenkins": "python-jenkins",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "kafka": "kafka-python",
    "keycloak": "python-keycloak",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "memcache": "python-memcached",
    "mpl_toolkits": "matplotlib",
    "multipart": "python-multipart",
    "mysql": "mysql-connector-python",
    "mysql.connector": "mysql-connector-python",
    "MySQLdb": "mysqlclient",
    "nacl": "PyNaCl",
    "odf": "odfpy",
    "office365": "Office365-REST-Python-Client",
    "opensearchpy": "opensearch-py",
    "OpenSSL": "pyOpenSSL",
    "openstack": "openstacksdk",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.exporter.otlp": "opentelemetry-exporter-otlp",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "playhouse": "peewee",
    "pptx": "python-pptx",
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "pwnlib": "pwntools",
    "pylab": "matplotlib",
    "pythonjsonlogger": "python-json-logger",
    "qrcode": "qrcode[pil]",
    "rest_framework": "djangorestframework",
    "ruamel": "ruamel.yaml",
    "saml2": "pysaml2",
    "serial": "pyserial",
    "shapefile": "pyshp",
    "shopify": "ShopifyAPI",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slack": "slackclient",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "snowflake": "snowflake-connector-python",
    "snowflake.connector": "snowflake-connector-python",
    "snowflake.snowpark": "snowflake-snowpark-python",
    "snowflake.sqlalchemy": "snowflake-sqlalchemy",
    "socketio": "python-socketio",
    "socks": "PySocks",
    "speech_recognition": "SpeechRecognition",
    "ssh2": "ssh2-python",
    "stdnum": "python-stdnum",
    "talib": "TA-Lib",
    "telebot": "pyTelegramBotAPI",
    "telegram": "python-telegram-bot",
    "usb": "pyusb",
    "weaviate": "weaviate-client",
    "websocket": "websocket-client",
    "whois": "python-whois",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}

# Namespaces that many packages fill, which are named after the modules: google.cloud.pubsub comes with
# google-cloud-pubsub. The number says how many parts of a module's name make the package's.
_NAMESPACES = {
    "azure": 2,
    "azure.ai": 3,
    "azure.keyvault": 3,
    "azure.mgmt": 3,
    "azure.storage": 3,
    "backports": 2,
    "databricks": 2,
    "google": 2,
    "google.cloud": 3,
    "zope": 2,
}


def package_of(module: str) -> str | None:
    """The package that brings `module` ("google.cloud.storage"); None when there is none to install.

    The longest part of the name that is known decides. A module that is not known is brought by a package of the name
    of its first part, as most are.
    """
    parts = module.split(".")
    if parts[0] in STDLIB or not parts[0]:
        return None
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in _PACKAGES:
            return _PACKAGES[prefix]
        if count := _NAMESPACES.get(prefix):
            return "-".join(parts[:count]).replace("_", "-") if len(parts) >= count else None
    return parts[0]
