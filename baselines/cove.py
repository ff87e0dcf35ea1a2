"""CoVe: GloVe vectors, and what the encoder of a translation model makes of them in context.

McCann et al. 2017, arXiv 1708.00107. A word is [GloVe; CoVe], 900 numbers, and a text
their mean over its words. `glove-840b-penn` is the baseline of GloVe alone: the same
vectors and the same words, without the context. (Its mean leaves out words that GloVe
lacks; they are zeros in CoVe's, which changes the length of a mean and no cosine.)

Not as in the paper, whose texts were split by Moses: words are those of the Penn
Treebank's conventions, in lower case where GloVe lacks them as they are written.
"""

from harness.core.types import grid
from harness.encoders.recurrent import CoveConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.transforms.pooling import MEAN
from .glove import FULL, WEB, vectors

WORDS = Tokeniser("penn", "fallback")
GLOVE_ALONE = vectors("glove-840b-penn", WORDS, FULL, WEB)
COVE = CoveConfig(
    "cove",
    file="vectors/wmtlstm-8f474287.pth",
    vectors=FULL,
    tokeniser=WORDS,
    weights_sha256="8f474287",
    trained_on="WMT 2017 English-German (translation), over GloVe 840 B",
    cite="mccann2017cove",
    licence="BSD-3-Clause",
)

ENCODERS = (COVE, GLOVE_ALONE)
METHODS = grid(ENCODERS, (MEAN,))
