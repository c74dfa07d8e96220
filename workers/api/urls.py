"""The REST routes of this app."""

from django.urls import path

from workers.api import alerts, configs

urlpatterns = [
    path("configs/list_worker_groups", configs.ListWorkerGroups.as_view()),
    path("configs/list", configs.ListConfigs.as_view()),
    path("configs/get/<path:name>", configs.GetConfig.as_view()),
    path("configs/update/<path:name>", configs.UpdateConfig.as_view()),
    path("configs/list_autoscaling_events/<path:worker_group>", configs.ListAutoscalingEvents.as_view()),
    path("configs/native_kubernetes_autoscaling_healthcheck", configs.KubernetesHealthcheck.as_view()),
    path("configs/list_available_python_versions", configs.ListPythonVersions.as_view()),
    path("settings/restart_worker_group/<path:worker_group>", configs.RestartWorkerGroup.as_view()),
    path("settings/critical_alerts", alerts.ListAlerts.as_view()),
    path("settings/critical_alerts/acknowledge_all", alerts.AcknowledgeAllAlerts.as_view()),
    path("settings/critical_alerts/<str:id>/acknowledge", alerts.AcknowledgeAlert.as_view()),
]
