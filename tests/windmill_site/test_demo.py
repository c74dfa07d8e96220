"""The demo data: complete, sound, and harmless when it is asked for again."""

import pytest

from jobs.flows import deployed
from jobs.flows.value import ScriptRef, SubFlow, parse_flow_value
from jobs.models import Flow, FlowVersion, Job, JobKind, Script
from tests.tenancy import make_account
from windmill_site import demo

pytestmark = pytest.mark.django_db


def test_seeding_fills_a_workspace_once():
    admin = make_account("root@example.com", super_admin=True)

    first, again = demo.seed(admin), demo.seed(admin)

    assert (first, again) == (Job.objects.exclude(kind=JobKind.FLOW_DEPENDENCIES).count(), 0)
    assert set(Flow.objects.values_list("path", flat=True)) == {path for path, _ in demo.FLOWS}
    assert FlowVersion.objects.count() == len(demo.FLOWS)


def test_every_step_of_the_demo_flows_calls_something_that_is_there():
    demo.seed(make_account("root@example.com", super_admin=True))
    known = {("script", path) for path in Script.objects.values_list("path", flat=True)}
    known |= {("flow", path) for path in Flow.objects.values_list("path", flat=True)}

    for flow in Flow.objects.all():
        for _, module in parse_flow_value(deployed.live_version(flow).value).every_module():
            if isinstance(module.value, ScriptRef | SubFlow):
                assert (module.value.type, module.value.path) in known, flow.path
