"""Other normalising flows in place of BERT-flow's: does a better density model help?

NICE (Dinh et al. 2014, arXiv 1410.8516): additive couplings behind one actnorm. RealNVP (Dinh et
al. 2016, arXiv 1605.08803): couplings that also scale. Glow (Kingma & Dhariwal 2018, arXiv
1807.03039): a learned linear map in place of the reversal, fitted at 1e-4, since its maps
overshoot at 1e-3. i-ResNet (Behrmann et al. 2019, arXiv 1811.00995): invertible residual blocks;
as in the authors' run on CIFAR-10, an actnorm stands before each block and half of the
coordinates is finished behind each of three levels. f-VAE (Su & Wu 2018, arXiv 1809.05861):
BERT-flow's flow on the codes of a variational autoencoder. MAF (Papamakarios et al. 2017, arXiv
1705.07057): three affine transforms of each coordinate given those before it. NSF (Durkan et al.
2019, arXiv 1906.04032): three couplings by monotonic rational-quadratic splines of 8 bins on [-5,
5]. The last two come from the library zuko (extra `zuko`).

Not as in the papers, which fit images: rows are sentence embeddings, and levels, steps, width and
schedule are BERT-flow's unless said here. The final Gaussian of i-ResNet is standard, not
learned, and no ELU stands before its blocks. f-VAE reverses coordinates between couplings instead
of permuting them at random, and does not scale what a level finishes by what goes on. MAF has
three transforms instead of five, which take far longer to fit, and no batch normalisation; NSF
has a reversal in place of a learned linear map; both standardise their rows by one actnorm.
"""

from dataclasses import dataclass
from typing import ClassVar

from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN
from .flow import SEVEN, TASKS, Flow
from .miniature import BERT_MINI
from .minilm import MINILM


@dataclass(frozen=True)
class AutoencoderFlow(Flow):
    """A flow that is fitted together with an encoder and a decoder around it."""

    autoencoder: ClassVar[bool] = True


NICE = Flow("nice", levels=1, depth=4, step=("reversal", "additive"), first=("actnorm",))
REALNVP = Flow("realnvp", step=("actnorm", "reversal", "scaled"))
GLOW = Flow("glow", step=("actnorm", "mixing", "scaled"), learning_rate=1e-4)
IRESNET = Flow("iresnet", step=("actnorm", "residual"))
FVAE = AutoencoderFlow("fvae")
MAF = Flow("maf", levels=1, depth=1, step=("autoregressive",), first=("actnorm",))
NSF = Flow("nsf", levels=1, depth=1, step=("spline",), first=("actnorm",))

COUPLINGS = {NICE: "dinh2014nice", REALNVP: "dinh2017realnvp", GLOW: "kingma2018glow"}
OTHERS = {
    FVAE: "su2018fvae",
    IRESNET: "behrmann2019iresnet",
    MAF: "papamakarios2017maf",
    NSF: "durkan2019nsf",
}

POSTS = {flow.name: (lambda flow=flow: flow) for flow in (*COUPLINGS, *OTHERS)}
METHODS = (
    *(
        Method(MINILM, pooling, (flow,), "target", cite=cite, tasks=TASKS)
        for pooling in (FIRST_LAST, LAST2, MEAN)
        for flow, cite in COUPLINGS.items()
    ),
    *(
        Method(BERT_MINI, pooling, (flow,), "target", cite=cite, tasks=("sts-b", "mini-sts"))
        for pooling in (MEAN, FIRST_LAST)
        for flow, cite in COUPLINGS.items()
    ),
    *(
        Method(encoder, FIRST_LAST, (flow,), "target", cite=cite, tasks=SEVEN)
        for encoder in (MINILM, BERT_MINI)
        for flow, cite in OTHERS.items()
    ),
)
