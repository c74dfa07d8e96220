"""Jobs that print secrets which they read through the API: nothing of them is in the log."""

import pytest

from workspaces import variables

SECRET = "correct-horse-battery-staple"
CODES = {
    "python3": """
import os, sys, urllib.request
def main():
    url = f"{os.environ['BASE_INTERNAL_URL']}/api/w/{os.environ['WM_WORKSPACE']}/variables/get_value/u/alice/hidden"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['WM_TOKEN']}"})
    with urllib.request.urlopen(request) as answer:
        secret = answer.read().decode().strip('"')
    print("whole:", secret)
    for letter in secret:
        os.write(1, letter.encode())
    print()
    os.write(2, f"error: {secret}\\n".encode())
    return len(secret)
""",
    "bash": """
url="$BASE_INTERNAL_URL/api/w/$WM_WORKSPACE/variables/get_value/u/alice/hidden"
secret=$(curl -sS -H "Authorization: Bearer $WM_TOKEN" "$url" | tr -d '"')
echo "whole: $secret"
for ((at = 0; at < ${#secret}; at++)); do printf %s "${secret:at:1}"; done
echo
echo "error: $secret" >&2
echo "${#secret}" > result.json
""",
    "bun": """
export async function main() {
    const { BASE_INTERNAL_URL, WM_WORKSPACE, WM_TOKEN } = process.env;
    const answer = await fetch(`${BASE_INTERNAL_URL}/api/w/${WM_WORKSPACE}/variables/get_value/u/alice/hidden`, {
        headers: { Authorization: `Bearer ${WM_TOKEN}` },
    });
    const secret = (await answer.text()).replaceAll('"', "");
    console.log("whole:", secret);
    for (const letter of secret) process.stdout.write(letter);
    process.stdout.write("\\n");
    console.error("error:", secret);
    return secret.length;
}
""",
}


@pytest.mark.parametrize("language", CODES)
def test_a_secret_that_a_job_reads_is_not_in_its_log(acme, real_worker, language):
    variables.create_variable(
        acme.caller, path="u/alice/hidden", value=SECRET, is_secret=True, description=""
    )

    request = {"language": language, "content": CODES[language], "args": {}}
    job_id = acme.http.post(acme.api("jobs/run/preview"), json=request).text
    result = acme.http.get(acme.api(f"jobs_u/completed/get_result_maybe/{job_id}"))
    while not result.json()["completed"]:
        result = acme.http.get(acme.api(f"jobs_u/completed/get_result_maybe/{job_id}"))

    log = acme.http.get(acme.api(f"jobs_u/get_logs/{job_id}")).text
    assert result.json()["result"] == len(SECRET), log
    assert [line for line in log.splitlines() if "*****" in line] == ["whole: *****", "*****", "error: *****"]
