"""English sentences made from scenes: an authored lexicon, a grammar, edits of known effect.

It made the files in harness/assets/embedded/mini. The lexicon is released under CC0 1.0, as they.
"""
