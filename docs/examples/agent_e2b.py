"""An agent: a model that works in a sandbox of its own, by the Python SDK of E2B (`pip install e2b`).

    export E2B_API_URL=http://127.0.0.1:7880 E2B_SANDBOX_URL=http://127.0.0.1:7880 E2B_API_KEY=e2b_…
    OPENAI_BASE_URL=https://… OPENAI_API_KEY=… MODEL=… python3 agent_e2b.py 'which primes are below 30?'

Any server of OpenAI's chat completions will do.
"""

import json
import os
import sys
import urllib.request

from e2b import CommandExitException, Sandbox

BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MAX_STEPS = 50
# Of an answer to the model: more fills its context.
MAX_CHARS = 20_000


def run_command(sandbox, command):
    """Run a command line in the sandbox, and return its output and exit code."""
    try:
        result = sandbox.commands.run(command, timeout=120)
    except CommandExitException as error:
        result = error
    stderr = f"\n[stderr]\n{result.stderr}" if result.stderr else ""
    return f"{result.stdout}{stderr}\n[exit code {result.exit_code}]"


def write_file(sandbox, path, content):
    """Write a text file in the sandbox."""
    sandbox.files.write(path, content)
    return "written"


TOOLS = {
    "run_command": (run_command, ["command"]),
    "write_file": (write_file, ["path", "content"]),
}


def complete(messages):
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": function.__doc__,
                "parameters": {
                    "type": "object",
                    "properties": {each: {"type": "string"} for each in parameters},
                    "required": parameters,
                },
            },
        }
        for name, (function, parameters) in TOOLS.items()
    ]
    body = {"model": os.environ["MODEL"], "messages": messages, "tools": tools}
    request = urllib.request.Request(
        f"{BASE_URL}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)["choices"][0]["message"]


def call(sandbox, name, arguments):
    """What goes wrong in a tool is for the model to read, not the end of the agent."""
    print(f"> {name} {arguments}", file=sys.stderr)
    if name not in TOOLS:
        return f"there is no tool {name}"
    function, parameters = TOOLS[name]
    try:
        given = json.loads(arguments)
        output = function(sandbox, *(given[each] for each in parameters))
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"
    return output if len(output) <= MAX_CHARS else f"[cut]\n{output[-MAX_CHARS:]}"


def work(sandbox, task):
    messages = [
        {"role": "system", "content": "You work in a Linux sandbox by your tools. Answer when the task is done."},
        {"role": "user", "content": task},
    ]
    for _ in range(MAX_STEPS):
        message = complete(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for each in message["tool_calls"]:
            function = each["function"]
            content = call(sandbox, function["name"], function["arguments"])
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": content})
    return None


task = " ".join(sys.argv[1:])
if not task or "MODEL" not in os.environ:
    sys.exit("usage: OPENAI_BASE_URL=… OPENAI_API_KEY=… MODEL=… python3 agent_e2b.py <task>")
# Without a network, and deleted at the end of the program, or by the daemon after an hour.
with Sandbox.create(timeout=3600, allow_internet_access=False) as sandbox:
    answer = work(sandbox, task)
if answer is None:
    sys.exit(f"no answer after {MAX_STEPS} steps")
print(answer)
