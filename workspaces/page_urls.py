"""Addresses of this app's pages. Fixed words come after an item's path."""

from django.urls import path

from workspaces.views import account, people, resources, sign_in, start, variables

urlpatterns = [
    path("", start.start, name="start"),
    path("login/", sign_in.login, name="login"),
    path("logout/", sign_in.logout, name="logout"),
    path("account/", account.account, name="account"),
    path("account/password/", account.change_password, name="change-password"),
    path("account/tokens/", account.account_tokens, name="account-tokens"),
    path("account/tokens/<str:prefix>/delete/", account.delete_token, name="delete-token"),
    path("workspaces/", start.choose_workspace, name="choose-workspace"),
    path("workspaces/new/", start.new_workspace, name="new-workspace"),
    path("w/<str:workspace>/variables/", variables.variable_list, name="variables"),
    path("w/<str:workspace>/variables/new/", variables.new_variable, name="new-variable"),
    path("w/<str:workspace>/variables/<path:path>/edit/", variables.edit_variable, name="edit-variable"),
    path(
        "w/<str:workspace>/variables/<path:path>/reveal/", variables.reveal_variable, name="reveal-variable"
    ),
    path(
        "w/<str:workspace>/variables/<path:path>/delete/", variables.delete_variable, name="delete-variable"
    ),
    path("w/<str:workspace>/resources/", resources.resource_list, name="resources"),
    path("w/<str:workspace>/resources/new/", resources.new_resource, name="new-resource"),
    path("w/<str:workspace>/resources/<path:path>/edit/", resources.edit_resource, name="edit-resource"),
    path(
        "w/<str:workspace>/resources/<path:path>/delete/", resources.delete_resource, name="delete-resource"
    ),
    path("w/<str:workspace>/resource-types/", resources.type_list, name="resource-types"),
    path("w/<str:workspace>/resource-types/new/", resources.new_type, name="new-resource-type"),
    path("w/<str:workspace>/resource-types/<str:name>/edit/", resources.edit_type, name="edit-resource-type"),
    path(
        "w/<str:workspace>/resource-types/<str:name>/delete/",
        resources.delete_type,
        name="delete-resource-type",
    ),
    path("w/<str:workspace>/folders/", people.folder_list, name="folders"),
    path("w/<str:workspace>/folders/new/", people.new_folder, name="new-folder"),
    path("w/<str:workspace>/folders/<str:name>/", people.folder, name="folder"),
    path("w/<str:workspace>/folders/<str:name>/rights/", people.set_holder, name="set-holder"),
    path("w/<str:workspace>/folders/<str:name>/rights/remove/", people.remove_holder, name="remove-holder"),
    path("w/<str:workspace>/folders/<str:name>/delete/", people.delete_folder, name="delete-folder"),
    path("w/<str:workspace>/groups/", people.group_list, name="groups"),
    path("w/<str:workspace>/groups/new/", people.new_group, name="new-group"),
    path("w/<str:workspace>/groups/<str:name>/members/", people.change_group_members, name="change-group"),
    path("w/<str:workspace>/groups/<str:name>/delete/", people.delete_group, name="delete-group"),
    path("w/<str:workspace>/users/", people.user_list, name="users"),
    path("w/<str:workspace>/users/new/", people.new_user, name="new-user"),
    path("w/<str:workspace>/users/<str:username>/", people.change_user, name="change-user"),
    path("w/<str:workspace>/users/<str:username>/remove/", people.remove_user, name="remove-user"),
]
