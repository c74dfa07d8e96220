"""Arguments to JSON Schema, keeping what people edited by hand in the schema shown before."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from jobs.signatures.signature import Argument, Typ

SKELETON_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Schema keywords an author edits in the form editor, by the JSON type they make sense for.
_EDITED_ALWAYS = (
    "title", "placeholder", "password", "showExpr", "customErrorMessage", "nullable", "disabled",
    "disableVariablePicker", "disableCreate", "hideInForm", "width",
)  # fmt: skip
_EDITED_BY_TYPE: dict[str, tuple[str, ...]] = {
    "string": ("pattern", "minLength", "maxLength", "minRows", "dateFormat", "allowCustomValue"),
    "integer": ("min", "max", "minimum", "maximum", "currency", "currencyLocale", "seconds"),
    "number": ("min", "max", "minimum", "maximum", "currency", "currencyLocale", "seconds"),
    "array": ("multiselect", "minItems", "maxItems", "uniqueItems", "itemsType"),
}
# On plain text the author may also narrow what is accepted. When the code said something narrower before
# (originalType "enum"), these came from the code and go away with it.
_EDITED_ON_PLAIN_TEXT = ("enum", "enumLabels", "format", "contentEncoding")

_SCALARS: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "originalType": "bytes", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "sql": {"type": "string", "format": "sql"},
    "yaml": {"type": "string", "format": "yaml"},
    "unknown": {"type": "object"},
}

_METASCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def build_schema(args: Sequence[Argument], previous: dict[str, Any] | None = None) -> dict[str, Any]:
    """The form's schema for `args`, in their order; edits found in `previous` are kept."""
    previous = previous if isinstance(previous, dict) else {}
    old_properties = previous.get("properties")
    old_properties = old_properties if isinstance(old_properties, dict) else {}
    schema: dict[str, Any] = {
        "$schema": SKELETON_DIALECT,
        "type": "object",
        "order": [arg.name for arg in args],
        "properties": {arg.name: _property(arg, old_properties.get(arg.name)) for arg in args},
        "required": [arg.name for arg in args if not arg.has_default],
    }
    return schema | _kept(previous, [key for key in previous if key not in schema and key[:1] != "$"])


def typ_schema(typ: Typ) -> dict[str, Any]:
    """The JSON Schema keywords that express `typ`."""
    if isinstance(typ, str):
        return dict(_SCALARS.get(typ, _SCALARS["unknown"]))
    [(kind, detail)] = typ.items()
    if kind == "str":
        if detail:
            return {"type": "string", "originalType": "enum", "enum": list(detail)}
        return {"type": "string", "originalType": "string"}
    if kind == "list":
        return _list_schema(detail)
    if kind == "object":
        named = {"format": f"resource-{detail['name']}"} if detail["name"] else {}
        return {"type": "object", **named, "properties": _properties(detail["props"])}
    if kind == "oneof":
        return {"type": "object", "oneOf": [_variant(variant) for variant in detail]}
    return {"type": "object", "format": f"{kind}-{detail}"}  # resource, dynselect, dynmultiselect


def _list_schema(item: Typ) -> dict[str, Any]:
    def array(original: str, items: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "originalType": f"{original}[]", "items": items}

    if item in ("int", "float"):
        return array("number", {"type": "number"})
    if item == "bytes":
        return array("bytes", {"type": "string", "contentEncoding": "base64"})
    if isinstance(item, dict):
        [(kind, detail)] = item.items()
        if kind == "str":
            if detail:
                return array("enum", {"type": "string", "enum": list(detail)})
            return array("string", {"type": "string"})
        if kind == "resource":
            return array("resource", {"type": "resource", "resourceType": detail})
        if kind == "object":
            properties = {"properties": _properties(detail["props"])} if detail["props"] else {}
            return array("record", {"type": "object", **properties})
    return array("object", {"type": "object"})


def _properties(props: list[dict[str, Any]]) -> dict[str, Any]:
    return {prop["key"]: typ_schema(prop["typ"]) for prop in props}


def _variant(variant: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "title": variant["label"], "properties": _properties(variant["properties"])}


def _property(arg: Argument, old: object) -> dict[str, Any]:
    old = old if isinstance(old, dict) else {}
    keywords = typ_schema(arg.typ)
    if arg.typ == "unknown":
        # The code does not say: whatever shape the author gave the field stays.
        keywords |= _kept(old, [key for key in old if isinstance(key, str) and not key.startswith("$")])
    else:
        _keep_edits(keywords, old)
    description = old.get("description")
    keywords |= {
        "description": description if isinstance(description, str) and description else arg.description,
        "default": copy.deepcopy(arg.default),
    }
    leading = {key: keywords.pop(key) for key in ("type", "description", "default")}
    return leading | keywords


def _keep_edits(new: dict[str, Any], old: dict[str, Any]) -> None:
    """Copy to `new` the keywords of `old` that an author edits and that still fit its type."""
    keys = list(_EDITED_ALWAYS)
    if _form_type(old) == _form_type(new):
        keys += _EDITED_BY_TYPE.get(new["type"], ())
        if new.get("originalType") == "string" == old.get("originalType", "string"):
            keys += _EDITED_ON_PLAIN_TEXT
    new |= _kept(old, keys)
    old_items = old.get("items")
    if new.get("originalType") == "string[]" == old.get("originalType") and isinstance(old_items, dict):
        new["items"] |= _kept(old_items, ["enum", "enumLabels"])
    old_properties = old.get("properties")
    if isinstance(old_properties, dict):
        for name, nested in new.get("properties", {}).items():
            old_nested = old_properties.get(name)
            if isinstance(old_nested, dict):
                _keep_edits(nested, old_nested)
                nested |= _kept(old_nested, ["description"])


def _form_type(schema: dict[str, Any]) -> object:
    kind = schema.get("type")
    return "number" if kind == "integer" else kind  # limits survive a change between int and float


def _kept(old: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Copies of the `keys` that `old` has, without those no schema can hold.

    Patterns are not compiled: they are written in the browser's dialect.
    """
    kept: dict[str, Any] = {}
    for key in keys:
        try:
            if key in old and _METASCHEMA.is_valid({key: old[key]}):
                kept[key] = copy.deepcopy(old[key])
        except RecursionError:
            continue
    return kept
