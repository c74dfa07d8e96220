"""The sample flows are what they say they are, before anybody runs them."""

import ast
import json
import subprocess

import pytest

from jobs.flows.text import flow_from_text, to_yaml
from jobs.flows.value import Javascript, RawScript, fill_ids, parse_flow_value
from jobs.signatures import infer_schema
from tests.jobs.flows.samples import SAMPLES, Sample

each = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


@each
def test_a_sample_is_a_flow_with_all_its_ids(sample: Sample):
    value = sample.make()["value"]

    assert parse_flow_value(value).index
    assert fill_ids(value) is value


@each
def test_a_sample_survives_its_text(sample: Sample):
    assert flow_from_text(to_yaml(sample.make())) == sample.make()


@each
def test_a_sample_tells_what_goes_in_and_what_comes_out(sample: Sample):
    text = sample.make.__doc__ or ""

    assert all(name in text for name in sample.args)
    assert "->" in text
    json.dumps([sample.args, sample.result])


@each
def test_the_scripts_of_a_sample_are_well_formed_and_get_the_arguments_that_they_take(sample: Sample):
    for place, module in parse_flow_value(sample.make()["value"]).every_module():
        if not isinstance(script := module.value, RawScript):
            continue
        if script.language == "python3":
            ast.parse(script.content)
        else:
            subprocess.run(["bash", "-n"], input=script.content, text=True, check=True)
        if module.id != "preprocessor":
            arguments = infer_schema(script.language, script.content).schema["properties"]
            assert set(script.input_transforms) == set(arguments), place


@each
def test_the_arguments_of_a_sample_are_those_of_its_form(sample: Sample):
    made = sample.make()
    named = set(made["schema"]["properties"])
    expressions = [
        transform.expr
        for _, module in parse_flow_value(made["value"]).every_module()
        for transform in getattr(module.value, "input_transforms", {}).values()
        if isinstance(transform, Javascript)
    ]

    read = {
        expr.removeprefix("flow_input.").split(".")[0]
        for expr in expressions
        if expr.startswith("flow_input.")
    }
    assert read - {"iter", "iter_parent"} <= named
    assert set(sample.args) == named or sample.name == "preprocessor"
