"""`python -m english FOLDER`, run in tests/tasks: write the files that the package carries."""

import sys
from pathlib import Path

from english.sets import files

for name, content in files():
    (Path(sys.argv[1]) / name).write_text(content, encoding="utf-8", newline="")
