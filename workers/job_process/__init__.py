"""What runs on the far side of the fork: the fork server, the sandbox it builds, and the code around a job.

These modules are loaded by a bare interpreter (`python -I -S`) that knows neither Django nor the rest of the
project, and they are forked into every job. So they import the standard library and each other, nothing else.
"""
