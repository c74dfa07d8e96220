"""Static files with content hashes in their names, so that browsers may keep them for a year."""

from servestatic.storage import CompressedManifestStaticFilesStorage


class ModuleManifestStorage(CompressedManifestStaticFilesStorage):
    """Hash the names of static files and rewrite `import ... from "./x.js";` inside ES modules to match.

    Django rewrites only imports written as literal relative paths that end in a semicolon.
    """

    support_js_module_import_aggregation = True
