"""Write the sentences of the embedded tasks, which `english` generates, into a folder."""

import argparse
from pathlib import Path

from english.sets import files

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to write")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files():
        (folder / name).write_text(content, encoding="utf-8", newline="")
