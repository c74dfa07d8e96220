"""Addresses of this app's pages. Fixed words come after an item's path."""

from django.urls import path

from workspaces.views import account, resources, sign_in, start, variables

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
    path("w/<str:workspace>/variables/<path:path>/reveal/", variables.reveal_variable, name="reveal-variable"),
    path("w/<str:workspace>/variables/<path:path>/delete/", variables.delete_variable, name="delete-variable"),
    path("w/<str:workspace>/resources/", resources.resource_list, name="resources"),
    path("w/<str:workspace>/resources/new/", resources.new_resource, name="new-resource"),
    path("w/<str:workspace>/resources/<path:path>/edit/", resources.edit_resource, name="edit-resource"),
    path("w/<str:workspace>/resources/<path:path>/delete/", resources.delete_resource, name="delete-resource"),
    path("w/<str:workspace>/resource-types/", resources.type_list, name="resource-types"),
    path("w/<str:workspace>/resource-types/new/", resources.new_type, name="new-resource-type"),
    path("w/<str:workspace>/resource-types/<str:name>/edit/", resources.edit_type, name="edit-resource-type"),
    path("w/<str:workspace>/resource-types/<str:name>/delete/", resources.delete_type, name="delete-resource-type"),
]
