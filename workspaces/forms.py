"""The base of all HTML forms: fields dressed for the design system, domain errors on the field they speak of.

Forms check shape (required, length, choices); meaning is checked by the domain functions, whose errors come back by
`pages.add_error`. templates/partials/field.html draws a field.
"""

from typing import Any

from django import forms


class PageForm(forms.Form):
    """A form whose widgets carry the design system's classes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("label_suffix", "")
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxInput | forms.HiddenInput):
                classes = field.widget.attrs.get("class", "")
                field.widget.attrs["class"] = f"input {classes}".strip()


class SwitchField(forms.BooleanField):
    """A yes/no as a switch; not "required", or it could only be yes."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        super().__init__(**kwargs)


class LabelsField(forms.CharField):
    """Labels written with commas: "billing, nightly" -> ["billing", "nightly"]."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        kwargs.setdefault("help_text", "Separated by commas, for example billing, nightly.")
        super().__init__(**kwargs)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        text = super().clean(value)
        return list(dict.fromkeys(label.strip() for label in text.split(",") if label.strip()))
