"""Addresses that belong to nobody's slice."""

from django.test import Client


def test_browsers_that_ask_for_a_favicon_get_the_brand_mark() -> None:
    answer = Client().get("/favicon.ico")

    assert (answer.status_code, answer.headers["Location"]) == (302, "/static/brand.svg")
