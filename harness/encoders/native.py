"""Encoders under the modules of their sentence-transformers folder: `minilm.native`.

The vectors are those that sentence-transformers' `encode` gives: prompt, tokens,
pooling, and the maps of vectors after it. `modules.py` reads what the folder says. A
transformer is opened like any other, so that its tokenizer and its weights are checked
and its fast pass is used, and the library computes the modules after it. The library
alone opens a folder without a transformer, or with settings that change what it makes of
a text, such as a chat template; one text at a time, since some of its modules see the
padding. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.core.digests import digest_of
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import (
    Encoder,
    EncoderConfig,
    Encoding,
    Identity,
    Pooling,
    native_encoding,
)
from harness.encoders.checkpoint import (
    MODULES_FILE,
    files_digest,
    folder_digests,
    library_errors,
)
from harness.encoders.config import FunctionEncoder
from harness.encoders.fingerprints import Fingerprint
from harness.encoders.kernels.choose import PLAIN
from harness.encoders.modules import (
    BAG_OF_WORDS,
    POOLING,
    TRANSFORMER,
    Modules,
    read_modules,
    transformer_folder,
)
from harness.encoders.subword_vectors import is_subword_folder
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.weights import parameter_count
from harness.transforms.pooling import CLS, MEAN

LIBRARY = "sentence-transformers"
# Part of the key of every vector: change it with any change that moves one.
NATIVE_VERSION = "2: float32; modules of sentence-transformers 6"

Native = TypeVar("Native", bound="NativeConfig")


@dataclass(frozen=True)
class PromptedConfig(TransformerConfig):
    """A transformer encoder with prompts in addition to those in its folder.

    Args:
        prompts: Names and texts: `.native:sts` puts the text called `sts` before each
            sentence.

    Examples:
        >>> from harness.encoders.native import PromptedConfig
        >>> e5 = PromptedConfig("e5", "intfloat/e5-small", prompts=(("sts", "query: "),))
        >>> dict(e5.prompts)["sts"]
        'query: '
    """

    prompts: tuple[tuple[str, str], ...] = field(kw_only=True)


@dataclass(frozen=True)
class NativeConfig:
    """An encoder under the modules of its sentence-transformers folder.

    Args:
        of: The encoder.
        prompt: The name of the prompt that is put before each sentence, the folder's or
            the encoder's; empty is the folder's default, which may be none.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().parse("minilm.native").encoder.of.name
        'minilm'
    """

    of: EncoderConfig
    prompt: str = ""

    # Of the encoder: its name is `minilm` in `minilm.native`.
    name = property(attrgetter("of.name"))
    trained_on = property(attrgetter("of.trained_on"))
    cite = property(attrgetter("of.cite"))
    licence = property(attrgetter("of.licence"))
    source = property(attrgetter("of.source"))
    pin = property(attrgetter("of.pin"))

    def member(self: Native, seed: int) -> Native:
        """These modules, of the member of a trained family that belongs to a seed."""
        return replace(self, of=self.of.member(seed))

    def with_max_length(self: Native, max_length: int) -> Native:
        """These modules, with texts cut at `max_length` tokens."""
        return replace(self, of=self.of.with_max_length(max_length))

    def on(self: Native, hardware: Hardware) -> Native:
        """These modules, on the device and in the precision of `hardware`."""
        return replace(self, of=self.of.on(hardware))

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder, with the prompt."""
        modules = self.modules(path)
        _, dtype = precision_of(self.name)
        if modules.is_of_library and dtype != FLOAT32:
            raise UsageError(
                f"{self.name}: this encoder runs in float32 alone, not in {dtype}"
            )
        kind, subfolder = modules.entries[0]
        if kind == TRANSFORMER:
            identity = self._transformer().identify(path)
        elif kind == BAG_OF_WORDS:
            identity = Identity(files_digest(path), {})
        else:  # a table, whose texts are not cut
            table = path / subfolder
            pinned_digest = getattr(self.of.source, "sha256", None)
            files, parts = folder_digests(self.name, path, table, pinned_digest)
            identity = Identity(
                files, {"weights": parts["weights"]}, parameters=parameter_count(table)
            )
        facts: dict[str, Any] = {
            "version": NATIVE_VERSION,
            "encoder": identity.key,
            "pooling": modules.modes,
            "prompt": modules.prompt(self.prompt),
        }
        if modules.library_steps:
            facts["library"] = modules.library_steps
        return replace(identity, key=digest_of(facts))

    def fingerprint(
        self, path: Path, digests: Mapping[str, str], cache: Path
    ) -> Fingerprint:
        """What the checkpoint of the modules is; empty for a table."""
        if self.modules(path).kinds[0] != TRANSFORMER:
            return {}
        return self._transformer().fingerprint(path, digests, cache)

    def load(self, path: Path, cache: Path) -> Encoder:
        """The encoder, ready. Raises DataError for modules that are not understood."""
        modules = self.modules(path)
        key = self.identify(path).key
        prompt = modules.prompt(self.prompt)
        if modules.is_of_library:
            config = self._transformer() if modules.kinds[0] == TRANSFORMER else None
            model = _opened_by_library(self.name, modules, config, cache)
            return FunctionEncoder(
                key,
                lambda texts: _encoded(self.name, model, texts, prompt),
                lambda texts: _encoded(self.name, model, texts, prompt, len(texts)),
            )
        transformer = self._transformer().load(path, cache)
        return replace(_under_modules(transformer, modules, prompt), key=key)

    def modules(self, path: Path) -> Modules:
        """The folder's modules, with the encoder's own prompts among the folder's.

        Raises UsageError for a prompt whose name has another text in the folder.
        """
        modules = read_modules(self.name, path)
        prompts = dict(modules.prompts)
        own_prompts = self.of.prompts if isinstance(self.of, PromptedConfig) else ()
        for name, text in own_prompts:
            if prompts.setdefault(name, text) != text:
                raise UsageError(
                    f"{self.name}.native:{name}: wanted the prompt {text!r}, found "
                    f"{prompts[name]!r} in the folder; give the registered one another name"
                )
        return replace(modules, prompts=prompts)

    def _transformer(self) -> TransformerConfig:
        """The encoder, which must be a transformer for the modules of the folder."""
        if not isinstance(self.of, TransformerConfig):
            raise UsageError(
                f"{self.name}.native: wanted a transformer for the modules of the folder, found a "
                f"{type(self.of).__name__}; name the folder as a transformer"
            )
        return self.of


def _under_modules(
    encoder: TransformerEncoder, modules: Modules, prompt: str
) -> TransformerEncoder:
    """An encoder that gives the vectors of a text under the modules of its folder.

    A mean or a first token is taken from the encoder's own pass, which is the fastest;
    other poolings need the states of all tokens, which only the plain pass gives.

    Args:
        encoder: The transformer of the modules.
        modules: The modules of its folder.
        prompt: The text that is put before each sentence; its tokens are left out of
            the pooling where the modules say so.

    Raises:
        DataError: The library does not open a module.
    """
    import torch
    from sentence_transformers.sentence_transformer import modules as library

    from harness.encoders.kernels.loading import opening
    from harness.encoders.kernels.passes import to_numpy

    tokenizer = encoder.tokenizer
    if modules.lower_cases:
        tokenizer = tokenizer.lower_cased()
    skipped_tokens = 0
    if prompt and not modules.pooling.get("include_prompt", True):
        skipped_tokens = tokenizer.prompt_length(prompt)
    own_pooling: Pooling | None = None  # of the encoder's own pass
    if modules.kinds[1:2] == (POOLING,) and skipped_tokens == 0:
        if modules.modes == ("cls",) and encoder.plain_kernel.summary == 0:
            own_pooling = CLS
        if modules.modes == ("mean",):
            own_pooling = MEAN
    with opening(encoder.name, modules.folder, LIBRARY):
        layers: list[Any] = []
        for kind, subfolder in modules.entries[1:]:
            # The library refuses weights that are missing or left over.
            layer = getattr(library, kind).load(
                str(modules.folder), subfolder=subfolder, local_files_only=True
            )
            layers.append(layer.eval().float())
        choice = encoder.choice
        if own_pooling is not None:
            layers = layers[1:]
        else:
            tokens = encoder.hardware.batch_tokens or PLAIN.tokens
            choice = replace(PLAIN, tokens=tokens)

        def kernel(batch: Sequence[Sequence[int]]) -> Encoding:
            with torch.inference_mode():
                if own_pooling is not None:
                    pooled = torch.tensor(own_pooling(encoder.kernel(batch)))
                    features: Any = {"sentence_embedding": pooled}
                else:
                    features = _token_features(encoder.plain_kernel, batch)
                    features["prompt_length"] = skipped_tokens
                for layer in layers:
                    features = layer(features)
                vectors = features["sentence_embedding"][:, : modules.dimensions]
                return native_encoding(to_numpy(vectors))

        sample = kernel(tokenizer(["one sentence"]))
    return replace(
        encoder,
        tokenizer=tokenizer,
        kernel=kernel,
        sample=sample,
        choice=choice,
        prompt=prompt,
    )


def _token_features(kernel: Any, batch: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What a pooling of the library takes: the states of all tokens, from the plain pass."""
    states, mask, _ = kernel.states(batch)
    features: dict[str, Any] = {
        "token_embeddings": states[-1].float().cpu(),
        "attention_mask": mask.long().cpu(),
    }
    # The library passes over the weights of layers without this setting.
    if kernel.model.config.output_hidden_states:
        features["all_layer_embeddings"] = [state.float().cpu() for state in states]
    return features


def _opened_by_library(
    name: str, modules: Modules, config: TransformerConfig | None, cache: Path
) -> Any:
    """The `SentenceTransformer` of a folder, in float32.

    A transformer in it has the weights and the tokenizer that are checked here, so that
    the library draws none anew.

    Args:
        name: The name of the encoder, for messages.
        modules: The modules of the folder.
        config: The transformer among them, if there is one.
        cache: The cache folder, which keeps the safetensors form of a pickled checkpoint.

    Raises:
        DataError: The library does not open the folder, or it lacks weights.
        UsageError: A length is asked for, and the folder states one for each call.
    """
    import torch
    from sentence_transformers import SentenceTransformer

    from harness.encoders.kernels.loading import opening

    remedy = "mend the file, or fetch it again"
    if config is None:
        remedy = "fetch the whole folder, or save its table in float32"
        if is_subword_folder(modules.folder):
            remedy = f"take {name}.mean, which reads the table as Model2Vec does"
    with opening(name, modules.folder, LIBRARY, remedy):
        model = SentenceTransformer(
            str(modules.folder),
            device="cpu" if config is None else config.hardware.device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": torch.float32},
        )
        if config is not None:
            _check_transformer(model[0], modules, config, cache)
        model = model.float().eval()
        _encoded(name, model, ["one sentence"], "")
        return model


def _check_transformer(
    reader: Any, modules: Modules, config: TransformerConfig, cache: Path
) -> None:
    """Give the library's transformer the weights and the tokenizer that are checked here."""
    from transformers import PreTrainedTokenizerBase

    from harness.encoders.kernels.loading import model_with_weights, open_checkpoint
    from harness.encoders.weights import read_tensors

    folder = transformer_folder(modules.folder)
    tokenizer, _ = open_checkpoint(
        config.name,
        folder,
        config.max_length,
        rebuilt=config.tokenizer == "rebuilt",
        cache=cache,
    )
    model, loading = model_with_weights(
        type(reader.model), reader.model.config, read_tensors(folder, cache)
    )
    missing = [
        weight
        for weight in sorted(loading["missing_keys"])
        if not weight.startswith("pooler.") or "pooler" in str(reader.modality_config)
    ]
    if missing:
        raise DataError(
            f"{config.name}.native: the checkpoint lacks {len(missing)} of the weights of a "
            f"{type(model).__name__}, which sentence-transformers runs, first {missing[0]}; wanted "
            "all, for nothing newly initialised is scored: take another pooling than native"
        )
    reader.model = model.to(reader.model.device)
    if not isinstance(reader.processor, PreTrainedTokenizerBase):
        raise DataError(
            f"{config.name}.native: wanted a tokenizer alone, found a "
            f"{type(reader.processor).__name__} in {folder}; take another pooling than native"
        )
    if config.max_length and "max_length" in str(reader.processing_kwargs):
        raise UsageError(
            f"{config.name}: wanted texts cut to {config.max_length} tokens, found max_length in "
            f"processing_kwargs = {reader.processing_kwargs}; remove one of the two"
        )
    if modules.lower_cases:
        tokenizer = tokenizer.lower_cased()
    reader.processor = tokenizer.tokenizer
    reader.processor.model_max_length = tokenizer.max_length


def _encoded(
    name: str, model: Any, texts: Sequence[str], prompt: str, batch_size: int = 1
) -> Encoding:
    """What the library makes of each text, alone or in batches, with the prompt before it."""
    with library_errors(
        f"{name}.native: wanted a folder that {LIBRARY} encodes a text with",
        "fetch the whole folder, or mend its settings",
    ):
        vectors = model.encode(
            list(texts), prompt=prompt, batch_size=batch_size, show_progress_bar=False
        )
    return native_encoding(np.asarray(vectors, np.float32))


def bypass_note(config: EncoderConfig, path: Path, poolings: Iterable[str]) -> str:
    """A note on poolings that bypass the modules in an encoder's folder; empty for none.

    A pooling whose vectors differ from the modules' in length alone bypasses none.

    Args:
        config: The encoder.
        path: Its folder.
        poolings: The names of poolings.
    """
    if isinstance(config, NativeConfig) or not (path / MODULES_FILE).is_file():
        return ""
    try:
        modules = read_modules(config.name, path)
        equal_pooling, steps = modules.equal_pooling, modules.steps
        remedy = f"use `{config.name}.native`"
    except HarnessError:
        equal_pooling, steps = "", ["not all of which are read here"]
        remedy = "`native` says which"
    bypassing_poolings = sorted(set(poolings) - {equal_pooling})
    if not bypassing_poolings:
        return ""
    return (
        f"Poolings such as `{bypassing_poolings[0]}` bypass the modules of {config.name} "
        f"({', '.join(steps)}); {remedy}"
    )
