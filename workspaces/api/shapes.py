"""The shapes that answers have, for the schema of the API (reference/governance.md section 2).

The values are built by the domain modules; a test holds every answer against these.
"""

from rest_framework import serializers

from workspaces.api.fields import Flag, Json, JsonObject, Name, Rules, Shape, Text, Texts, Time, Whole


class GlobalUserInfo(Shape):
    """An account."""

    email = Text()
    login_type = Text()
    super_admin = Flag()
    devops = Flag()
    verified = Flag()
    name = Text(allow_null=True)
    company = Text(allow_null=True)
    username = Text(allow_null=True)
    first_time_user = Flag()
    role_source = Text()
    disabled = Flag()
    operator_only = Flag(required=False)


class User(Shape):
    """A member of a workspace."""

    email = Text()
    username = Text()
    is_admin = Flag()
    name = Text(allow_null=True)
    is_super_admin = Flag()
    created_at = Time()
    operator = Flag()
    disabled = Flag()
    groups = Texts()
    folders = Texts(help_text="Folders the member may write")
    folders_read = Texts()
    folders_owners = Texts()
    non_member = Flag(required=False, help_text="A superadmin who is not a member")


class TruncatedToken(Shape):
    """A token without its text."""

    label = Text(allow_null=True)  # type: ignore[assignment]  # a field of that name
    expiration = Time(allow_null=True)
    token_prefix = Text()
    created_at = Time()
    last_used_at = Time()
    scopes = Texts(allow_null=True)
    email = Text()
    workspace_id = Text(allow_null=True)
    read_only = Flag()  # type: ignore[assignment]  # a field of that name


class Scope(Shape):
    """A scope that a token may be limited to."""

    value = Text(help_text="Such as variables:read")
    label = Text()  # type: ignore[assignment]  # a field of that name
    requires_resource_path = Flag()


class ScopeDomain(Shape):
    """The scopes of one part of the API."""

    name = Text()
    description = Text()
    scopes = Scope(many=True)


class WorkspaceShape(Shape):
    """A workspace."""

    id = Text()
    name = Text()
    owner = Text()
    deleted = Flag()
    color = Text(allow_null=True)
    parent_workspace_id = Text(required=False)


class UserWorkspace(Shape):
    """A workspace, and as whom one is in it."""

    id = Text()
    name = Text()
    username = Text()
    color = Text(allow_null=True)
    operator_settings = Json()
    parent_workspace_id = Text(allow_null=True)
    is_dev_workspace = Flag()
    created_by = Text()
    disabled = Flag()


class UserWorkspaceList(Shape):
    """The workspaces one is a member of."""

    email = Text()
    workspaces = UserWorkspace(many=True)


class WorkspaceSettings(Shape):
    """The settings of a workspace."""

    workspace_id = Text()
    name = Text()
    color = Text(allow_null=True)


class FolderShape(Shape):
    """A folder and who may do what in it."""

    workspace_id = Text()
    name = Text()
    display_name = Text()
    owners = Texts()
    extra_perms = Rules()
    created_by = Text(allow_null=True)
    edited_at = Time()
    summary = Text(required=False)
    default_permissioned_as = serializers.ListField(child=JsonObject(), required=False)
    labels = Texts(required=False)


class FolderUsage(Shape):
    """How many items of each kind lie in a folder."""

    scripts = Whole()
    flows = Whole()
    apps = Whole()
    resources = Whole()
    variables = Whole()
    schedules = Whole()


class GroupShape(Shape):
    """A group and its members."""

    workspace_id = Text()
    name = Text()
    summary = Text()
    members = Texts()
    extra_perms = Rules()


class VariableShape(Shape):
    """A variable."""

    workspace_id = Text()
    path = Text()
    value = Text(allow_null=True, help_text="null for a secret that was not asked for")
    is_secret = Flag()
    description = Text()
    extra_perms = Rules()
    account = Whole(allow_null=True)
    is_oauth = Flag()
    is_expired = Flag()
    is_linked = Flag()
    is_refreshed = Flag()
    refresh_error = Text(allow_null=True)
    edited_at = Time()
    expires_at = Time(required=False)
    labels = Texts(required=False)


class ContextualVariable(Shape):
    """A variable that every job finds in its environment."""

    name = Name()
    value = Text(help_text="An example")
    description = Text()
    is_custom = Flag()


class ResourceShape(Shape):
    """A resource."""

    workspace_id = Text()
    path = Text()
    value = Json()
    description = Text()
    resource_type = Text()
    extra_perms = Rules()
    is_oauth = Flag()
    created_by = Text(allow_null=True)
    edited_at = Time()
    labels = Texts(required=False)


class ListedResource(ResourceShape):
    """A resource in a list, and how the token behind it fares."""

    is_linked = Flag()
    is_expired = Flag()
    is_refreshed = Flag()
    account = Whole(allow_null=True)
    refresh_error = Text(allow_null=True)


class NamedResource(Shape):
    """A resource by name."""

    name = Text()
    path = Text()


class SearchedResource(Shape):
    """A resource for a full-text search in the browser."""

    path = Text()
    value = Json()


class ResourceTypeShape(Shape):
    """A resource type."""

    workspace_id = Text()
    name = Text()
    schema = Json()
    description = Text()
    created_by = Text(allow_null=True)
    edited_at = Time()
    is_fileset = Flag()
    format_extension = Text(required=False)
    display_name = Text(required=False)


class Setting(Shape):
    """A setting of the instance."""

    name = Text()
    value = Json()


class AuditLog(Shape):
    """Who did what, when."""

    workspace_id = Text()
    id = serializers.IntegerField()
    timestamp = Time()
    username = Text()
    email = Text()
    operation = Text()
    action_kind = serializers.ChoiceField(choices=["Created", "Updated", "Delete", "Execute"])
    resource = Text(allow_null=True)
    parameters = Json()
    span = Text(allow_null=True)
