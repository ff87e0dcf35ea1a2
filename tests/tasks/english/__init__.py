"""English sentences made from scenes: an authored lexicon, a grammar, edits of known effect."""
