"""Addresses of the pages of scripts, flows and runs, below /w/<workspace>/ (UI.md section 5).

A path holds slashes, so the fixed words edit, run and versions, in which no path ends, come after it; deeds (archive/…)
come before it. What stands directly below scripts/ and is no path (new, editor/…) cannot be one either: paths begin
with u/, f/ or g/.
"""

from django.urls import path

from jobs.views import approval, dependency_files, editor, flow_editor, flow_run, flows, run, run_form, runs, scripts

urlpatterns = [
    # What approval links look like is what clients of Windmill print and send: no slash at the end.
    path(
        "approve/<str:workspace>/<uuid:job_id>/<str:resume_id>/<str:signature>",
        approval.approve,
        name="approve",
    ),
    path("w/<str:workspace>/runs/", runs.runs_page, name="runs"),
    path("w/<str:workspace>/runs/batch/", runs.batch, name="runs-batch"),
    path("w/<str:workspace>/runs/export.csv", runs.export, name="runs-export"),
    path("w/<str:workspace>/runs/<uuid:job_id>/", run.run, name="run"),
    path("w/<str:workspace>/runs/<uuid:job_id>/state.json", run.state, name="run-state"),
    path("w/<str:workspace>/runs/<uuid:job_id>/result.json", run.result_json, name="run-result"),
    path("w/<str:workspace>/runs/<uuid:job_id>/result.html", run.result_html, name="run-result-html"),
    path("w/<str:workspace>/runs/<uuid:job_id>/file", run.result_file, name="run-result-file"),
    path("w/<str:workspace>/runs/<uuid:job_id>/args.json", run.args_json, name="run-args"),
    path("w/<str:workspace>/runs/<uuid:job_id>/log.txt", run.logs, name="run-log"),
    path("w/<str:workspace>/runs/<uuid:job_id>/flow.json", flow_run.flow_json, name="run-flow"),
    path(
        "w/<str:workspace>/runs/<uuid:job_id>/iterations.json",
        flow_run.iterations_json,
        name="run-iterations",
    ),
    path("w/<str:workspace>/runs/<uuid:job_id>/timeline.json", flow_run.timeline_json, name="run-timeline"),
    path("w/<str:workspace>/runs/<uuid:job_id>/code.json", flow_run.code_json, name="run-code"),
    path("w/<str:workspace>/runs/<uuid:job_id>/restart/", flow_run.restart, name="run-restart"),
    path("w/<str:workspace>/runs/<uuid:job_id>/cancel/", run.cancel, name="run-cancel"),
    path("w/<str:workspace>/runs/<uuid:job_id>/again/", run.run_again, name="run-again"),
    path("w/<str:workspace>/runs/<uuid:job_id>/now/", run.run_now, name="run-now"),
    path("w/<str:workspace>/runs/<uuid:job_id>/answer/", approval.answer, name="run-answer"),
    path("w/<str:workspace>/scripts/new/", editor.new_script, name="script-new"),
    path("w/<str:workspace>/scripts/editor/signature/", editor.signature, name="editor-signature"),
    path("w/<str:workspace>/scripts/editor/draft/", editor.save_draft, name="editor-draft"),
    path("w/<str:workspace>/scripts/editor/discard/", editor.discard_draft, name="editor-discard"),
    path("w/<str:workspace>/scripts/editor/test/", editor.test, name="editor-test"),
    path("w/<str:workspace>/scripts/editor/tests/", editor.tests, name="editor-tests"),
    path("w/<str:workspace>/scripts/editor/deploy/", editor.deploy, name="editor-deploy"),
    path("w/<str:workspace>/scripts/editor/picks/", editor.picks, name="editor-picks"),
    path("w/<str:workspace>/scripts/editor/paths/", editor.paths, name="editor-paths"),
    path("w/<str:workspace>/scripts/<path:path>/edit/", editor.edit_script, name="script-edit"),
    path("w/<str:workspace>/scripts/<path:path>/run/", run_form.run_script, name="script-run"),
    path("w/<str:workspace>/scripts/<path:path>/versions/", scripts.versions, name="script-versions"),
    path("w/<str:workspace>/scripts/<path:path>/", scripts.script, name="script"),
    path("w/<str:workspace>/archive/scripts/<path:path>/", scripts.archive, name="script-archive"),
    path("w/<str:workspace>/restore/scripts/<path:path>/", scripts.restore, name="script-restore"),
    path("w/<str:workspace>/move/scripts/<path:path>/", scripts.move, name="script-move"),
    path("w/<str:workspace>/relock/scripts/<path:path>/", scripts.relock, name="script-relock"),
    path("w/<str:workspace>/flows/import/", flows.import_flow, name="flow-import"),
    path("w/<str:workspace>/flows/new/", flow_editor.new_flow, name="flow-new"),
    path("w/<str:workspace>/flows/editor/check/", flow_editor.check, name="flow-editor-check"),
    path("w/<str:workspace>/flows/editor/draft/", flow_editor.save_draft, name="flow-editor-draft"),
    path("w/<str:workspace>/flows/editor/discard/", flow_editor.discard_draft, name="flow-editor-discard"),
    path("w/<str:workspace>/flows/editor/deploy/", flow_editor.deploy, name="flow-editor-deploy"),
    path("w/<str:workspace>/flows/editor/yaml/", flow_editor.convert, name="flow-editor-yaml"),
    path("w/<str:workspace>/flows/editor/test/", flow_editor.test, name="flow-editor-test"),
    path("w/<str:workspace>/flows/editor/step/", flow_editor.test_step, name="flow-editor-step"),
    path("w/<str:workspace>/flows/editor/inputs/", flow_editor.inputs, name="flow-editor-inputs"),
    path("w/<str:workspace>/flows/editor/tests/", flow_editor.tests, name="flow-editor-tests"),
    path("w/<str:workspace>/flows/editor/peek/", flow_editor.peek, name="flow-editor-peek"),
    path("w/<str:workspace>/flows/editor/find/", flow_editor.find, name="flow-editor-find"),
    path("w/<str:workspace>/flows/editor/callee/", flow_editor.callee, name="flow-editor-callee"),
    path("w/<str:workspace>/flows/<path:path>/edit/", flow_editor.edit_flow, name="flow-edit"),
    path("w/<str:workspace>/flows/<path:path>/run/", flows.run_flow, name="flow-run"),
    path("w/<str:workspace>/flows/<path:path>/versions/", flows.versions, name="flow-versions"),
    path("w/<str:workspace>/archive/flows/<path:path>/", flows.archive, name="flow-archive"),
    path("w/<str:workspace>/restore/flows/<path:path>/", flows.restore, name="flow-restore"),
    path("w/<str:workspace>/move/flows/<path:path>/", flows.move, name="flow-move"),
    path("w/<str:workspace>/export/flows/<path:path>/", flows.export, name="flow-export"),
    path("w/<str:workspace>/dependencies/", dependency_files.file_list, name="dependency-files"),
    path("w/<str:workspace>/dependencies/new/", dependency_files.new_file, name="dependency-new"),
    path(
        "w/<str:workspace>/dependencies/<str:language>/<str:name>/",
        dependency_files.file,
        name="dependency-file",
    ),
    path(
        "w/<str:workspace>/dependencies/<str:language>/<str:name>/delete/",
        dependency_files.delete_file,
        name="dependency-delete",
    ),
    # Last of flows/: a path could be anything.
    path("w/<str:workspace>/flows/<path:path>/", flows.flow, name="flow"),
]
