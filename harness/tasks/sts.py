"""Semantic textual similarity: the STS Benchmark and the yearly SemEval tasks of 2012 to 2016.

Gold runs from 0 to 5. STS-B has three splits; a year has one, of several subsets, which are its
groups. STS13 has no SMT subset (its licence; SIF 2017 is the only paper that scores it). STS-B is
drawn from STS12-17: 1,006 of its 1,379 test pairs also stand in the files of STS12-16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import DataError
from harness.core.scores import LeaderboardColumn
from harness.core.types import Pairs, Task
from harness.tasks.readers import (
    AGAIN,
    ScoredPair,
    Text,
    checked,
    fields,
    known_split,
    lines,
    locate_text,
    number,
    pairs_of,
)

SCALE = (0.0, 5.0)

# Scored pairs of each split of STS-B, and of each subset of a year, in SentEval's order.
SPLITS = {"train": 5749, "dev": 1500, "test": 1379}
SUBSETS = {
    12: {
        "MSRpar": 750,
        "MSRvid": 750,
        "SMTeuroparl": 459,
        "surprise.OnWN": 750,
        "surprise.SMTnews": 399,
    },
    13: {"FNWN": 189, "headlines": 750, "OnWN": 561},
    14: {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "images": 750,
        "OnWN": 750,
        "tweet-news": 750,
    },
    15: {
        "answers-forums": 375,
        "answers-students": 750,
        "belief": 375,
        "headlines": 750,
        "images": 750,
    },
    16: {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}

# `rows_digest` of the scored rows of each.
SHA256: dict[Text, dict[str, str]] = {
    "raw": {
        "b/train": "5310a528a30383778477c1168f92c256822cf925a022142330a03e71f8d7f18a",
        "b/dev": "11cc969a45df5eaff3b4129892497c33747cf1e41a228cb7ba7aa334af0f21f6",
        "b/test": "19cbb472f0bafd465825abfb5f1036b6f816e5dd53b37aa1f65d530f53b05a38",
        "12/MSRpar": "a945acc6e3148f5f200d0c6536094a13bdb7e6c16dfddcdc85889cd017c7c48b",
        "12/MSRvid": "1f0edd110bc074e858ae07cbc87e98dfd115d379cbf7711aad29421fcd45357d",
        "12/SMTeuroparl": "63564cd1c3143b2db0437ac9ff3f98d84836bb78b6d4134e3e218ca2e241881e",
        "12/surprise.OnWN": "82dbc67b2b6c0e8efb784672966a1893d927d14c96dfc7f823485deadf610915",
        "12/surprise.SMTnews": "c242e63954cca372d950085b5c6085bfbe76aac2811fd7e9ae19837bd74c74f0",
        "13/FNWN": "9a1809fe36a3df5d0c312b0ce2771323066fc6176cc5a2cd05875abc432dfcea",
        "13/headlines": "ee8c9c519274f4ac3c4cd53a083940927cd85cf3057c68242ca88ce218cb3872",
        "13/OnWN": "8e5ad2a75806a81268c883e63137be378fe1b0eed99aaf5431a1d98d64b24326",
        "14/deft-forum": "6c0c95211e86995393a40089d278aace8cb8a9eb4b8c2660d2b1b5e1fb916ff7",
        "14/deft-news": "654a8a914e676954ac841e93743773201d91245fab7fe3a7be27d660ebe56902",
        "14/headlines": "09ab76984760c21373b2d7ca3ff1a4ba34bb3260285de37e9fd7f293e3125533",
        "14/images": "da7216425fa34d2aaaa1a7d05ac2885cdd71a127120e8fa0b01b524605f1b388",
        "14/OnWN": "205791baaddcd0afea2c5df9b5c8adff3513f20f4b7e676b4465d5f7db2eb874",
        "14/tweet-news": "e637d07a63d71e951fc20ac277f5d59bf8ddde2209740911db9da16dc027a86e",
        "15/answers-forums": "eafabb374d5537559683361a4b6e2c5ea8028fffd30c226376ee907b95bc8874",
        "15/answers-students": "7de7690320d5552c825e40b4a2ffc3681a3e234fc7fcbf9166f30f57d0130244",
        "15/belief": "8f0a7cfe98aad30f2f30970b7644ce1538d0c261a307f32ac67bd6b2ad77a2e6",
        "15/headlines": "9ff2ddd69ffcc8970ed4a56ec68e9947c45a492b43fb0c27f6cbc076471c3830",
        "15/images": "228894cec92d47e117b02c96348ed70e7f62f43fbd1f0bdb82cd01e571af00ff",
        "16/answer-answer": "59529be14bd2b5e41dffb89a69368bea266daa6f2494243d5348cd42d387dfb0",
        "16/headlines": "2485feb7b28ef801a97b523a42eb8b7a4d607013885793a6a803e295a60af900",
        "16/plagiarism": "72c18dfa070790ca90db549f318820ff7bb807dbbbe067a3b86bed8cda7f2b70",
        "16/postediting": "c7630a293229a637d5d7bdaf244ba53db54eaa78330d425a169fcac2a38a019f",
        "16/question-question": "6f27c26f43f88539b0037df69f0b6391264b07986ae75938ada9d24fd9c3da71",
    },
    "senteval": {
        "b/train": "ff097b9e94e716cb76090734d51258a9f5e7075c961fe64bf28bb8061dc98088",
        "b/dev": "4f7ca0af52e21c17e97d921ab8f7c09aa79aaa11fd2863b9573f2d6237690c8f",
        "b/test": "59d8279de50656aeaa7de3acc122950c8790c8c28b7132a39234bd620be418c2",
        "12/MSRpar": "4b172caed5e41c73ca89ce720b252d4993d524831db4c630ea27bf8b755fbcea",
        "12/MSRvid": "2c42cd8ddb2d9c651d9091e4334119139a01c0b116443cb1497f4b73571e8e29",
        "12/SMTeuroparl": "25c0678055d546dff45eff72a584c2549d6edbe2a3e05ad73e7a36db687a480f",
        "12/surprise.OnWN": "bad22c449ea0fa13e4a1df043b65fe9aea2a6489c4d7d18fe2ab602e447d6085",
        "12/surprise.SMTnews": "b687ab2bb28b26f0c037708b21a2a49483cd5c1dffa5bce40c5146ae380d9e93",
        "13/FNWN": "75066690feced6214583c3ef7b8c2a027328127a725ba4e53601f8610dd23d4c",
        "13/headlines": "3a4557df39f704ddf2bcd29b123c984b7da7c0267dd9a2f1270452b72094eeae",
        "13/OnWN": "f846719f74b39431ee185573d88ed2eec9bd74e383f334b77a138754018e48bc",
        "14/deft-forum": "0173666d35d6c2c23eb791f2a81fd512fb4b284f856814eb4e07e8d77abf6bc4",
        "14/deft-news": "26043d238c94a34e69bea78c6e72f49f33a639fea6c3b838637cc705177a9043",
        "14/headlines": "5bfcde7be03f020f0cccb9c0572ee05c2cca6124ec439279cce220683e05d5d8",
        "14/images": "9e4aff7e38c2733dac4ec0d1172d224369ab09f8a67c3f8b9c3b4acb80fc851c",
        "14/OnWN": "f7adad5e70ac1b641f6d20b03631315a56e60b4ff0d39df16bb67f95b69d44b9",
        "14/tweet-news": "9e648f43b0eaaa2e648b85516b05ee75de909d00046a2664375d024e4e7ddb97",
        "15/answers-forums": "de65af63187738468eb2ae22783d91fa256f6e6c72f6ed67f63e19f74f73d6cf",
        "15/answers-students": "ebfe303a94610d5795008b6faf01801bfb4ad5e1df1f2f508905713034527b28",
        "15/belief": "65acbb34d3f9812ae85e055acb2a755f08545de8c90e99119b9b94c6ed750909",
        "15/headlines": "6e41ace466637a732bf274717ce9508e017f2ad416d02fd8c426764d7716f5b0",
        "15/images": "030a8ede0b21fd765f67076b43e649d14c5137ab68cf8063a71458fd3070e602",
        "16/answer-answer": "da7dee83622c4073842c3cfe2997f292aa070b59916e56f1f09e96a1de4f8c82",
        "16/headlines": "a450d6fe2ead3c5bc778b4bd590f9d3fdb0dbfee4113ff12aae1e4ba7deed675",
        "16/plagiarism": "f2b06702331e70f3b85a6077a4e5970cd0ad8fdaf0afee388bcdaff019fedcb5",
        "16/postediting": "b29b7386853457769c40aedeb2284642178894d9ccbc55fbf450d5a7c750e03e",
        "16/question-question": "e952987fec7ce3ec709c0b9eab11cb7ebc0389af02d5e7ebf3ac48e63336dd97",
    },
}


@dataclass(frozen=True)
class StsBenchmark:
    """Loads one split of STS-B."""

    text: Text = "raw"

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        rows = SPLITS[known_split(split, SPLITS)]
        path = locate_text(data_dir, self.text, "sts", f"STS/STSBenchmark/sts-{split}.csv")
        return checked(parse_benchmark(path), path, rows, SHA256[self.text][f"b/{split}"])


@dataclass(frozen=True)
class StsYear:
    """Loads all subsets of one year; the only split is `test`."""

    year: int
    text: Text = "raw"

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        known_split(split, ("test",))
        first, *rest = (self._subset(data_dir, subset) for subset in SUBSETS[self.year])
        return first.concatenate(*rest)

    def _subset(self, data_dir: Path, subset: str) -> Pairs:
        inputs, gold = (
            locate_text(data_dir, self.text, "sts", f"STS/STS{self.year}-en-test/{name}")
            for name in (f"STS.input.{subset}.txt", f"STS.gs.{subset}.txt")
        )
        rows, sha256 = SUBSETS[self.year][subset], SHA256[self.text][f"{self.year}/{subset}"]
        return checked(parse_subset(inputs, gold, subset), inputs, rows, sha256)


def parse_benchmark(path: Path) -> Pairs:
    """Genre, file, year, number, score, two sentences; in some raw rows then two source notes."""

    def row(place: str, line: str) -> ScoredPair:
        _, _, _, _, score, a, b, *_ = fields(place, line, 7, 9)
        return a, b, number(place, score, SCALE)

    return pairs_of((row(place, line) for place, line in lines(path)), "sts-b")


def parse_subset(inputs: Path, gold: Path, group: str) -> Pairs:
    """Two sentences a line (raw STS16: then two source notes) and, beside them, one score a line.

    An empty score marks a pair that was never annotated; it is dropped.
    """
    sentences, scores = list(lines(inputs)), list(lines(gold))
    if len(sentences) != len(scores):
        expected = f"wanted {len(sentences)} lines, as in {inputs.name}"
        raise DataError(f"{gold}: {expected}, found {len(scores)}; {AGAIN}")
    rows: list[ScoredPair] = []
    for (place, line), (gold_place, score) in zip(sentences, scores, strict=True):
        a, b, *_ = fields(place, line, 2, 4)
        if score.strip():
            rows.append((a, b, number(gold_place, score, SCALE)))
    return pairs_of(rows, group)


def benchmark(name: str, text: Text, scored: str) -> Task:
    """STS-B, scored on one split."""
    return Task(
        name=name,
        load=StsBenchmark(text),
        splits=tuple(SPLITS),
        scored=(scored,),
        metric="correlation",
        asset=f"sts-{text}",
        text=text,
        train="train",
        graded=SCALE,
        geometry=True,
        cite="cer2017stsb",
        licence="scores CC BY-SA 4.0, texts per source",
    )


def year(name: str, text: Text, held: int, cite: str) -> Task:
    """One year's task."""
    return Task(
        name=name,
        load=StsYear(held, text),
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset=f"sts-{text}",
        text=text,
        graded=SCALE,
        cite=cite,
        licence="per source; StackExchange texts CC BY-SA with attribution",
    )


PREDICTED = benchmark("sts-b.regression", "raw", "test")
BY_REGRESSION = "predicted by a regressor trained on labels, as SentEval's default; no paper here"

GEOMETRY = (
    LeaderboardColumn("other", "alignment", ("alignment",)),
    LeaderboardColumn("other", "uniformity", ("uniformity",)),
)

TASKS = (
    replace(benchmark("sts-b", "raw", "test"), columns=GEOMETRY),
    replace(
        benchmark("sts-b.dev", "raw", "dev"), columns=(LeaderboardColumn("other", "STS-B dev"),)
    ),
    benchmark("sts-b.train", "raw", "train"),
    replace(PREDICTED, metric="regression", geometry=False, note=BY_REGRESSION),
    benchmark("sts-b.senteval", "senteval", "test"),
    benchmark("sts-b.senteval.dev", "senteval", "dev"),
    benchmark("sts-b.senteval.train", "senteval", "train"),
    year("sts12", "raw", 12, cite="agirre2012sts"),
    year("sts13", "raw", 13, cite="agirre2013sts"),
    year("sts14", "raw", 14, cite="agirre2014sts"),
    year("sts15", "raw", 15, cite="agirre2015sts"),
    year("sts16", "raw", 16, cite="agirre2016sts"),
    year("sts12.senteval", "senteval", 12, cite="agirre2012sts"),
    year("sts13.senteval", "senteval", 13, cite="agirre2013sts"),
    year("sts14.senteval", "senteval", 14, cite="agirre2014sts"),
    year("sts15.senteval", "senteval", 15, cite="agirre2015sts"),
    year("sts16.senteval", "senteval", 16, cite="agirre2016sts"),
)
