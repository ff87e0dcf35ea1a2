"""Cut the vectors of some words out of a GloVe file: what `glove-840b-sick-vectors` was made as.

    python tools/cut_glove.py vectors/glove.840B.300d.txt sick-subset.npz
    raw/SICK/SICK_*.txt

Words are the tokens of the texts, split at white space and punctuation, as written. The
result holds `words` and `vectors`, sorted by word; it has another digest than the
asset, whose words came from two published copies, so it is read under `--encoder`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

WORD = re.compile(r"'?\w+|[^\w\s]")


def words_of(texts: Iterable[Path]) -> set[str]:
    """The distinct words of files of text."""
    words: set[str] = set()
    for path in texts:
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            words.update(WORD.findall(line))
            words.update(line.split())
    return words


def cut(vectors: Path, words: set[str]) -> dict[str, np.ndarray]:
    """The vectors of those words that the file has, each a line of word and numbers."""
    found: dict[str, np.ndarray] = {}
    with vectors.open(encoding="utf-8") as lines:
        for line in lines:
            word, _, numbers = line.rstrip("\n").partition(" ")
            if word in words and word not in found:
                found[word] = np.array(numbers.split(" "), dtype=np.float32)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vectors", type=Path, help="a GloVe file, unpacked")
    parser.add_argument("target", type=Path, help="the .npz to write")
    parser.add_argument(
        "texts", type=Path, nargs="+", help="files whose words are kept"
    )
    chosen = parser.parse_args()
    found = cut(chosen.vectors, words_of(chosen.texts))
    words = sorted(found)
    np.savez(
        chosen.target,
        words=np.array(words),
        vectors=np.stack([found[w] for w in words]),
    )
    print(f"{chosen.target}: {len(words):,} words")


if __name__ == "__main__":
    main()
