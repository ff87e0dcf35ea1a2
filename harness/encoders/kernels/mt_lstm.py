"""The forward pass of CoVe in PyTorch: torch's own bidirectional LSTMs over word vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from harness.core.arrays import Float32
from harness.core.errors import DataError, UsageError


@dataclass(frozen=True, eq=False)
class TranslationEncoder:
    """Rows of word vectors to the means of all layers; row -1 is a zero vector."""

    vectors: Float32[np.ndarray, "V E"]
    layers: tuple[nn.LSTM, ...]
    device: torch.device

    @property
    def depth(self) -> int:
        """The number of LSTM layers."""
        return len(self.layers)

    @property
    def dimensions(self) -> int:
        """Those of a layer: of both directions."""
        return 2 * self.layers[0].hidden_size

    def __call__(self, batch: Sequence[Sequence[int]]) -> Float32[np.ndarray, "B L D"]:
        lengths = torch.tensor([len(rows) for rows in batch])
        padded = np.full((len(batch), int(lengths.max())), -1)
        for row, rows in enumerate(batch):
            padded[row, : len(rows)] = rows
        words = self.vectors[padded] * (padded >= 0)[..., None]
        with torch.inference_mode():
            x = torch.from_numpy(words).to(self.device)
            means = [_mean(torch.cat([x, x], dim=-1), lengths)]
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            for layer in self.layers:
                packed, _ = layer(packed)
                state, _ = pad_packed_sequence(packed, batch_first=True)
                means.append(_mean(state, lengths))
            return torch.stack(means, dim=1).cpu().numpy()


def _mean(state: Tensor, lengths: Tensor) -> Tensor:
    """The means over texts, whose states behind their ends are zero."""
    return state.sum(dim=1) / lengths.to(state.device)[:, None]


def read_network(
    name: str,
    path: Path,
    tensors: Mapping[str, Tensor],
    vectors: Float32[np.ndarray, "V E"],
    device: str,
) -> TranslationEncoder:
    """The network of published weights, on a device.

    Raises DataError for weights that are not those of a two-layer bidirectional LSTM over vectors
    of this width, and UsageError for a device that torch lacks.
    """
    size, width = vectors.shape[1], vectors.shape[1]
    layers = []
    for number in (0, 1):
        lstm = nn.LSTM(width, size, bidirectional=True, batch_first=True)
        wanted = {key.replace("_l0", f"_l{number}"): key for key in lstm.state_dict()}
        state = {
            key: tensors[published] for published, key in wanted.items() if published in tensors
        }
        unlike = [
            k
            for k, own in lstm.state_dict().items()
            if k not in state or state[k].shape != own.shape
        ]
        if unlike:
            key = unlike[0].replace("_l0", f"_l{number}")
            found = tuple(tensors[key].shape) if key in tensors else "none"
            raise DataError(
                f"{name}: wanted {key} of shape {tuple(lstm.state_dict()[unlike[0]].shape)} in "
                f"{path}, found {found}; wanted the weights of CoVe and the vectors under them"
            )
        lstm.load_state_dict({key: tensor.float() for key, tensor in state.items()})
        layers.append(lstm.eval())
        width = 2 * size
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        place = torch.device(device)
        return TranslationEncoder(vectors, tuple(lstm.to(place) for lstm in layers), place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"wanted a device that torch has, found {device!r}: {reason}") from error
