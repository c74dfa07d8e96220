"""The form of a worker group's configuration: lists a line each, names with values, texts, numbers.

It checks shape only; `workers.groups` decides what a field may hold. What the form does not show is kept as it is.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError

from workspaces.forms import PageForm, SwitchField
from workspaces.job_limits import JSON_NAMES

SCRIPT_ROWS = 6
_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)


class LinesField(forms.CharField):
    """A list of texts, one a line. Drawn by workers/_list_field.html, which shows them as chips."""

    def __init__(self, *, noun: str, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        widget = forms.Textarea(
            attrs={"rows": 2, "class": "mono", "spellcheck": "false", "autocomplete": "off"}
        )
        super().__init__(widget=widget, **kwargs)
        self.noun = noun

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> list[str]:
        lines = super().clean(value).splitlines()
        return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


class Pair(NamedTuple):
    """A row of names with values, as typed."""

    name: str
    value: str
    was: str = ""  # the name that it had when the form was opened; "" of a new row


class PairsWidget(forms.Widget):
    """Rows of two inputs, repeated under the same names. Drawn by workers/_pairs.html."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[Pair]:
        columns = [data.getlist(f"{name}-{part}") for part in ("name", "value", "was")]
        rows = [
            Pair(row[0].strip(), row[1].replace("\r\n", "\n"), row[2]) for row in zip(*columns, strict=False)
        ]
        return [row for row in rows if row.name or row.value]

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return False


class PairsField(forms.Field):
    """Names with values: [Pair]. A name stands once, and each value has one."""

    widget = PairsWidget

    def __init__(self, *, noun: str, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        super().__init__(**kwargs)
        self.noun = noun

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return [Pair(str(name), str(held), str(name)) for name, held in value.items()]
        return value or []

    def clean(self, value: Any) -> list[Pair]:
        rows: list[Pair] = super().clean(value) or []
        seen: set[str] = set()
        for row in rows:
            if not row.name:
                raise ValidationError(f"A {self.noun} has no name: give it one, or remove its row.")
            if row.name in seen:
                raise ValidationError(f"{row.name} is there twice: remove one of its rows.")
            seen.add(row.name)
        return rows


class RanksField(PairsField):
    """Tags with whole numbers: {tag: number}."""

    def clean(self, value: Any) -> Any:
        ranks: dict[str, int] = {}
        for row in super().clean(value):
            if not (row.value.isascii() and row.value.strip().isdigit() and len(row.value) < 10):
                raise ValidationError(
                    f"The priority of {row.name} is {row.value[:20]!r}; expected a number, such as 10."
                )
            ranks[row.name] = int(row.value)
        return ranks


class BashField(forms.CharField):
    """A script. Lines end as bash wants them, whatever the browser sends."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        attrs = {
            "rows": SCRIPT_ROWS,
            "class": "mono",
            "spellcheck": "false",
            "autocomplete": "off",
            "wrap": "off",
        }
        super().__init__(strip=False, widget=forms.Textarea(attrs=attrs), **kwargs)

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        return text.replace("\r\n", "\n")


def _number(
    label: str, *, step: str = "1", least: int = 0, help_text: str = "", unit: str = ""
) -> forms.Field:
    widget = forms.NumberInput(
        attrs={"step": step, "min": least, "inputmode": "decimal", "placeholder": unit}
    )
    return forms.DecimalField(label=label, required=False, widget=widget, help_text=help_text)


class GroupForm(PageForm):
    """A configuration (reference: workers.groups.schema.FIELDS). `current` is the one that the form was opened with."""

    worker_tags = LinesField(
        noun="tag",
        label="Tags",
        help_text="The workers of this group take the jobs with these tags. None: WORKER_TAGS of each worker, "
        "or all that it can run.",
    )
    priority_tags = RanksField(
        noun="tag",
        label="Priority of tags",
        help_text="1 to 255. Jobs with the tag of the highest number come first, whatever their own priority is.",
    )
    dedicated_workers = LinesField(
        noun="script or flow",
        label="Dedicated to",
        help_text="workspace:path of scripts, workspace:flow/path of flows. Each is loaded once and stays warm; the "
        "workers take their jobs, and those with the tags above.",
    )
    native_mode = SwitchField(
        label="Native workers",
        help_text="Eight jobs at once in one process: SQL, GraphQL and native TypeScript only.",
    )
    env_vars_static = PairsField(
        noun="variable",
        label="Variables with a value",
        help_text="Set for every job that runs here. Values are hidden; of a variable that is there already, an empty "
        "value means the one it has.",
    )
    env_vars_allowlist = LinesField(
        noun="variable",
        label="Variables of the worker that jobs see",
        help_text="Names only: the value is that of the worker's own environment.",
    )
    no_network = SwitchField(
        label="Jobs without network", help_text="They reach neither other hosts nor the platform's API."
    )
    memory_mb = _number("Memory (MB)")
    cpus = _number("Processors", step="any", unit="such as 0.5")
    processes = _number("Processes and threads")
    open_files = _number("Open files of each process")
    disk_mb = _number("Disk (MB in /tmp)")
    file_mb = _number("One file (MB)")
    output_mb = _number("Log (MB)", step="any")
    additional_python_paths = LinesField(
        noun="folder",
        label="Further folders of Python modules",
        help_text="Absolute paths on the worker's host.",
    )
    pip_local_dependencies = LinesField(
        noun="package",
        label="Python packages that the host has",
        help_text="They are not installed for jobs that ask for them.",
    )
    init_bash = BashField(
        label="Init script",
        help_text="Bash, run once when a worker starts, as the worker itself. When it fails, the worker leaves.",
    )
    periodic_script_bash = BashField(
        label="Periodic script",
        help_text="Bash, run again and again while a worker runs, as the worker itself.",
    )
    periodic_script_interval_seconds = _number("Seconds between its runs", least=60, help_text="60 or more.")
    min_alive_workers_alert_threshold = _number(
        "Alert when fewer workers are alive than", help_text="Empty: no alert."
    )

    LISTS = (
        "worker_tags",
        "env_vars_allowlist",
        "additional_python_paths",
        "pip_local_dependencies",
    )
    LIMITS = JSON_NAMES
    NUMBERS = ("periodic_script_interval_seconds", "min_alive_workers_alert_threshold")
    AS_GIVEN = ("priority_tags", "native_mode", "init_bash", "periodic_script_bash")
    # Which field an error of the domain belongs to, by what its message holds; longer names first.
    HINTS = {
        **{f"job_limits.{name}": name for name in JSON_NAMES},
        **{
            name: name
            for name in sorted((*LISTS, *NUMBERS, *AS_GIVEN, "env_vars_static"), key=len, reverse=True)
        },
        "dedicated_worker": "dedicated_workers",
        "network": "no_network",
    }

    def __init__(self, *args: Any, current: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        self.current = dict(current or {})
        super().__init__(*args, initial=_initial(self.current), **kwargs)

    @property
    def limits(self) -> list[forms.BoundField]:
        """The fields of job_limits."""
        return [self[name] for name in self.LIMITS]

    def config(self) -> dict[str, Any]:
        """The configuration that the form asks for: JSON, without what says nothing. After `is_valid`."""
        data = self.cleaned_data
        said: dict[str, Any] = {
            **{name: data[name] for name in self.LISTS},
            **{name: _plain(data[name]) for name in self.NUMBERS},
            **{name: data[name] for name in self.AS_GIVEN},
            "env_vars_static": self._variables(data["env_vars_static"]),
            "network": "none" if data["no_network"] else None,
            "job_limits": {name: _plain(data[name]) for name in self.LIMITS if data[name] is not None},
        }
        if data["dedicated_workers"] != _dedicated(self.current):
            # One list from now on; who changed nothing keeps both ways of saying it.
            said |= {"dedicated_workers": data["dedicated_workers"], "dedicated_worker": None}
        kept = {name: value for name, value in self.current.items() if name not in said}
        return kept | {name: value for name, value in said.items() if value not in _NOTHING}

    @property
    def kept(self) -> dict[str, str]:
        """What the configuration says beyond the form, as JSON texts."""
        shown = {*self.LISTS, *self.NUMBERS, *self.AS_GIVEN, "env_vars_static", "network", "job_limits"}
        shown |= {"dedicated_workers", "dedicated_worker", "cache_clear"}
        return {name: json.dumps(value) for name, value in self.current.items() if name not in shown}

    def _variables(self, rows: list[Pair]) -> dict[str, str]:
        held = self.current.get("env_vars_static")
        held = held if isinstance(held, dict) else {}
        return {row.name: row.value if row.value or row.was not in held else held[row.was] for row in rows}


def _initial(config: Mapping[str, Any]) -> dict[str, Any]:
    limits = config.get("job_limits")
    variables = config.get("env_vars_static")
    return {
        **config,
        **(limits if isinstance(limits, dict) else {}),
        # The values are not in the page: they come when somebody asks to see them.
        "env_vars_static": [
            Pair(name, "", name) for name in sorted(variables if isinstance(variables, dict) else {})
        ],
        "dedicated_workers": _dedicated(config),
        "no_network": config.get("network") == "none",
    }


def _dedicated(config: Mapping[str, Any]) -> list[str]:
    wanted = [config.get("dedicated_worker"), *(config.get("dedicated_workers") or ())]
    return [entry for entry in dict.fromkeys(wanted) if entry]


def _plain(value: Any) -> int | float | None:
    """A decimal as JSON has it."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)
