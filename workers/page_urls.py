"""Addresses of this app's pages."""

from django.urls import path

from workers.views import groups, tags, workers

_W = "w/<str:workspace>/workers"
_GROUP = f"{_W}/groups/<str:name>"

urlpatterns = [
    path(f"{_W}/", workers.workers, name="workers"),
    path(f"{_W}/forget/", workers.forget_workers, name="forget-workers"),
    path(f"{_W}/alerts/<int:alert_id>/", workers.acknowledge_alert, name="acknowledge-alert"),
    path(f"{_W}/new-group/", groups.new_group, name="new-worker-group"),
    path(f"{_W}/dedicated/", groups.dedicated_entries, name="dedicated-entries"),
    path(f"{_GROUP}/", groups.group, name="worker-group"),
    path(f"{_GROUP}/delete/", groups.delete_group, name="delete-worker-group"),
    path(f"{_GROUP}/clear-caches/", groups.clear_caches, name="clear-worker-caches"),
    path(f"{_GROUP}/restart/", groups.restart_workers, name="restart-worker-group"),
    path(f"{_GROUP}/variables/", groups.reveal_variables, name="reveal-group-variables"),
    path(f"{_W}/tags/", tags.tag_list, name="custom-tags"),
    path(f"{_W}/tags/uses/", tags.tag_uses, name="custom-tag-uses"),
    path(f"{_W}/tags/new/", tags.new_tag, name="new-custom-tag"),
    path(f"{_W}/tags/edit/", tags.edit_tag, name="edit-custom-tag"),
    path(f"{_W}/tags/delete/", tags.delete_tag, name="delete-custom-tag"),
]
