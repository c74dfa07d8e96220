"""What a script, a group and the instance may say about limits, and which of it counts."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.limits import NOTHING, AskedLimits, Header, WrongHeader, header_of, limits_from_json, sized

MB = 1 << 20

ASKED = st.builds(
    AskedLimits,
    memory_bytes=st.none() | st.integers(1, 1 << 40),
    cpus=st.none() | st.floats(0.01, 64),
    processes=st.none() | st.integers(1, 5000),
    disk_bytes=st.none() | st.integers(1, 1 << 40),
)


def test_all_limits_can_be_said_in_one_line():
    code = "# limits: memory=512MB cpus=0.5 processes=64 open_files=256 disk=100MB file=1.5GB output=10KB\n"

    assert header_of(code, "python3").limits == AskedLimits(
        memory_bytes=512 * MB,
        cpus=0.5,
        processes=64,
        open_files=256,
        disk_bytes=100 * MB,
        file_bytes=1536 * MB,
        output_bytes=10 << 10,
    )


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python3", "#limits: memory=64MB\n#network: none\ndef main(): ..."),
        ("bash", "#!/bin/bash\n\n# limits: memory=64MB\n# a remark\n# network: none\necho"),
        ("bun", "/* Licensed to\n * nobody */\n// limits: memory=64MB\r\n// network: none\nexport"),
        ("go", "// limits: memory=64MB\n// network: none\npackage inner"),
        ("php", "<?php\n// limits: memory=64MB\n# network: none\nfunction main() {}"),
        ("powershell", "<# help #>\n# limits: memory=64MB\n# network: none\nparam($x)"),
        ("duckdb", "\ufeff-- limits: memory=64MiB\n-- network: none\nSELECT 1"),
        ("mysql", "# limits: memory=64mb\n-- network: none\nSELECT 1"),
        ("graphql", "# limits: memory=64MB,\n#  network:  none\n{ x }"),
    ],
)
def test_each_language_says_it_in_its_own_comments(language, code):
    header = header_of(code, language)

    assert (header.limits, header.network) == (AskedLimits(memory_bytes=64 * MB), False)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python3", "def main():\n    # limits: memory=1XB\n    # network: some\n    ..."),
        ("python3", "// limits: memory=64MB\n"),
        ("bun", "export function main() {}\n// network: none"),
        ("bun", "# network: none"),
        ("bun", "/* network: none */ main()\n// network: none"),
        ("python3", "# no limits: here\n# our network: fast\n#Limits: many"),
    ],
)
def test_what_is_not_a_line_of_its_own_above_the_code_says_nothing(language, code):
    assert header_of(code, language) == Header()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("limits: memory=12XB", "line 2, limits: memory=12XB is no size; write for instance memory=512MB"),
        ("limits: memory=512", "memory=512 is no size"),
        ("limits: memory=1MB", "memory=1MB cannot be: it must be between 32 MB and"),
        ("limits: ram=1GB", "there is no limit 'ram'; known are memory, cpus, processes, open_files, disk"),
        ("limits: memory = 1GB", "'memory' is not of the form name=value, without spaces"),
        ("limits: cpus=many", "cpus=many is no number"),
        ("limits: cpus=0", "cpus=0 cannot be: it must be between 0.01 and 4096"),
        ("limits: processes=1.5", "processes=1.5 is no whole number"),
        ("limits:", "nothing is said; write for instance memory=512MB"),
        ("network: off", "line 2, network: 'off' is not known; the only thing to say is none"),
    ],
)
def test_a_line_that_cannot_be_understood_is_refused_with_its_number(line, told):
    with pytest.raises(WrongHeader) as refused:
        header_of(f"# a remark\n# {line}\n", "python3")

    assert told in str(refused.value)
    assert "If this is only a remark" in str(refused.value)


def test_of_several_lines_the_smallest_counts():
    code = "# limits: memory=2GB\n# limits: memory=1GB processes=5 processes=4\n"

    header = header_of(code, "python3")

    assert header.limits == AskedLimits(memory_bytes=1 << 30, processes=4)
    assert header.lines == (1, 2)


def test_a_group_or_the_instance_says_it_as_json():
    said = {
        "memory_mb": 512,
        "cpus": 0.5,
        "processes": 64,
        "open_files": None,
        "disk_mb": 1.5,
        "output_mb": 1,
    }

    assert limits_from_json(said) == AskedLimits(
        memory_bytes=512 * MB, cpus=0.5, processes=64, disk_bytes=3 * MB // 2, output_bytes=MB
    )
    assert limits_from_json(None) == limits_from_json({}) == NOTHING


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([], r"job_limits is \[\]; expected an object with memory_mb, cpus"),
        ({"memory": 1}, "job_limits.memory is not known; known are memory_mb"),
        ({"memory_mb": "512"}, "job_limits.memory_mb is '512'; expected a number"),
        ({"memory_mb": True}, "job_limits.memory_mb is True; expected a number"),
        ({"memory_mb": 1}, "job_limits.memory_mb is 1; it must be between 32 and"),
        ({"cpus": float("nan")}, "job_limits.cpus is nan; expected a number"),
        ({"processes": 2.5}, "job_limits.processes is 2.5; expected a whole number"),
        ({"processes": 10**400}, "job_limits.processes is .* must be between"),
    ],
)
def test_json_that_makes_no_sense_is_refused_with_the_name_of_the_field(said, told):
    with pytest.raises(ValueError, match=told):
        limits_from_json(said)


@given(ASKED, ASKED)
def test_the_smallest_of_all_that_is_said_counts(one, other):
    both = one.and_also(other)

    assert both == other.and_also(one)
    assert both.and_also(one) == both
    assert one.and_also(NOTHING) == NOTHING.and_also(one) == one
    said = [asked.memory_bytes for asked in (one, other) if asked.memory_bytes is not None]
    assert both.memory_bytes == min(said, default=None)


@given(
    st.text(max_size=200), st.sampled_from(["python3", "bun", "php", "postgresql", "powershell", "nonsense"])
)
def test_no_text_is_too_strange_to_be_read_or_refused(text, language):
    for code in (text, f"# limits: {text}", f"// network: {text}", f"-- limits: memory={text}"):
        try:
            assert isinstance(header_of(code, language), Header)
        except WrongHeader as refused:
            assert str(refused).startswith("line ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(string.printable, max_size=12), inner)
    ),
)


@given(JSON | st.dictionaries(st.sampled_from(["memory_mb", "cpus", "processes", "x"]), JSON))
def test_no_json_is_too_strange_to_be_read_or_refused(value):
    try:
        assert isinstance(limits_from_json(value), AskedLimits)
    except ValueError as refused:
        assert str(refused).startswith("job_limits")


@given(st.integers(32, 1 << 20), st.integers(1, 10**6))
def test_what_a_script_and_json_call_the_same_is_the_same(megabytes, processes):
    in_script = header_of(f"# limits: memory={megabytes}MB processes={processes}", "bash").limits

    assert in_script == limits_from_json({"memory_mb": megabytes, "processes": processes})


def test_sizes_are_told_in_the_units_they_are_said_in():
    assert [sized(size) for size in (512 * MB, 1536 * MB, 2 << 30, 10 << 10, 530 * MB + 5, 7)] == [
        "512 MB",
        "1536 MB",
        "2 GB",
        "10 KB",
        "530.0 MB",
        "7 bytes",
    ]
