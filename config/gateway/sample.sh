#!/bin/sh
# Makes the sample repository that config/gateway releases, unless it is there: sample.sh DIRECTORY
set -eu
directory=$1
if [ -d "$directory/.git" ]; then
  echo '{"created": false}'
  exit 0
fi
work=$directory.new.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests"
cd "$work"
cat > numbers_in_words.py <<'PYTHON'
"""Says numbers below a hundred in words."""

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number: int) -> str:
    """``forty-two`` for 42."""
    if not 0 <= number < 100:
        raise ValueError("only numbers from 0 to 99")
    if number < 20:
        return ONES[number]
    ones = number % 10
    return TENS[number // 10 - 2] + (f"-{ONES[ones]}" if ones else "")
PYTHON
: > tests/__init__.py
cat > tests/test_numbers_in_words.py <<'PYTHON'
import unittest

from numbers_in_words import in_words


class InWords(unittest.TestCase):
    def test_small_numbers_have_names_of_their_own(self):
        self.assertEqual([in_words(n) for n in (0, 7, 12, 19)], ["zero", "seven", "twelve", "nineteen"])

    def test_others_are_put_together(self):
        self.assertEqual([in_words(n) for n in (20, 42, 99)], ["twenty", "forty-two", "ninety-nine"])

    def test_every_number_has_one_name(self):
        self.assertEqual(len({in_words(n) for n in range(100)}), 100)

    def test_others_are_refused(self):
        for number in (-1, 100):
            with self.assertRaises(ValueError):
                in_words(number)


if __name__ == "__main__":
    unittest.main()
PYTHON
cat > pyproject.toml <<'TOML'
[project]
name = "numbers-in-words"
version = "0.0.0"

[tool.pytest.ini_options]
pythonpath = ["."]
TOML
printf '__pycache__/\n' > .gitignore
export GIT_AUTHOR_NAME=fleet GIT_AUTHOR_EMAIL=fleet@localhost GIT_COMMITTER_NAME=fleet GIT_COMMITTER_EMAIL=fleet@localhost
git init -q .
git add -A
git commit -q -m "Say numbers in words"
cd - > /dev/null
# Atomic: no process sees half a repository. Another process may have been first.
[ -e "$directory" ] || mv "$work" "$directory"
echo '{"created": true}'
