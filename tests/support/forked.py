"""``forked.py <socket> <arguments>`` runs a ``fleet`` command as a fork of the template that listens there.

For programs that start a command themselves, such as clients on stdio. This process passes on its environment,
directory and standard streams, then signals, and ends with the exit code of the command. It imports next to nothing.
"""

import json
import os
import signal
import socket
import sys

_NUMBER = 8


def main() -> int:
    answers, told = os.pipe()
    request = {"arguments": sys.argv[2:], "environment": dict(os.environ), "directory": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as template:
        template.connect("\0" + sys.argv[1])
        socket.send_fds(template, [json.dumps(request).encode()], [0, 1, 2, told])
    os.close(told)
    pid = _number(answers)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda given, _: os.kill(pid, given))
    return _number(answers)


def _number(answers: int) -> int:
    return int.from_bytes(os.read(answers, _NUMBER), "little", signed=True)


if __name__ == "__main__":
    sys.exit(main())
