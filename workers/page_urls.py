"""Addresses of this app's pages."""

from django.urls import path

from workers import views

urlpatterns = [
    path("w/<str:workspace>/workers/", views.workers, name="workers"),
]
