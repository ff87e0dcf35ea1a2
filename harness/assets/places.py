"""Where data and encoders are on this machine, and the pins of those that nothing else fixes.

A pin is trust on first use: what an unpinned download turned out to be, so that another
one is noticed. Pins of data are in the data folder and travel with it, pins of encoders
in the cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from harness.assets.catalogue import DATA_ASSETS, Asset
from harness.assets.snapshots import COMMIT, Snapshot, commit_of_main, repository_folder
from harness.core.digests import remembering
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import rewrite, safe, sized
from harness.core.hardware import base_name
from harness.core.interfaces import (
    EncoderConfig,
    Hub,
    Identity,
    Packaged,
    Source,
    Trained,
    VectorFile,
    fixed_by,
)
from harness.core.provenance import plugins_of, with_code
from harness.core.toml import read_typed

CACHE = "~/.cache/sentence-embedding-harness"
EMBEDDED_DATA = Path(__file__).parent / "embedded" / "mini"
WHEELS_FOLDER = "unpacked"  # under the cache folder: encoders that wheels carry
DIGESTS_FOLDER = "digests"  # under the cache folder: of large files, for plans
TRAINED_FOLDER = "trained"  # under the cache folder: what `harness train family` makes

PINS_SCHEMA = 1
DATA_PINS = ".harness/pins.json"  # under the data folder
ENCODER_PINS = "pins.json"  # under the cache folder
DIGEST_PATTERN = re.compile(r"[0-9A-Za-z]+")  # or the commit of a repository

Pin = Mapping[str, str]


PLUGIN_ASSETS: dict[str, Asset] = {}  # assets of plug-ins


def every_asset() -> tuple[Asset, ...]:
    """Every asset of the catalogue, and those of plug-ins."""
    return (*DATA_ASSETS, *PLUGIN_ASSETS.values())


def asset_named(name: str) -> Asset:
    """The data asset of that name. Raises UsageError if the catalogue holds none."""
    asset = next((asset for asset in every_asset() if asset.name == name), None)
    if asset is None:
        raise UsageError(f"no asset {name!r}: add it to harness/assets/catalogue.toml")
    return asset


@dataclass(frozen=True)
class Places:
    """The folders that are searched for data and encoders. Nothing is ever downloaded from here.

    Attributes:
        cache: Holds cached encodings, trained encoders and converted checkpoints.
        data_dir: Holds the data sets; None where only embedded ones are read.
        encoders: Folders and files of encoders given by hand, by name.

    Raises:
        UsageError: There is no such data folder, or the cache is a file.

    Examples:
        >>> from pathlib import Path
        >>> from harness import Places, load_registry
        >>> places = Places(cache=Path("cache"))
        >>> places.encoder(load_registry().encoders["bert-mini"]).name
        'bert-mini'
    """

    cache: Path
    data_dir: Path | None = None
    encoders: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data_dir is not None and not self.data_dir.is_dir():
            raise UsageError(f"--data-dir {self.data_dir}: there is no such folder")
        if self.cache.exists() and not self.cache.is_dir():
            raise UsageError(f"--cache {self.cache}: wanted a folder, found a file")

    def absolute(self) -> Places:
        """These places by absolute paths, for a process that runs in another folder."""
        data_dir = self.data_dir and self.data_dir.absolute()
        encoders = {name: path.absolute() for name, path in self.encoders.items()}
        return replace(
            self, cache=self.cache.absolute(), data_dir=data_dir, encoders=encoders
        )

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        *,
        cache: Path | None = None,
        data_dir: Path | None = None,
        encoders: Mapping[str, Path] | None = None,
    ) -> Places:
        """The folders given; else those of HARNESS_CACHE_DIR and HARNESS_DATA_DIR; else defaults.

        By default encodings are cached in the user's cache and there is no data folder.
        """
        data = environment.get("HARNESS_DATA_DIR")
        return cls(
            cache or Path(environment.get("HARNESS_CACHE_DIR") or CACHE).expanduser(),
            data_dir or (Path(data) if data else None),
            encoders or {},
        )

    @property
    def encoder_pins(self) -> Pins:
        """The digests of unpinned encoders at their first download."""
        return Pins(self.cache / ENCODER_PINS)

    @property
    def data_pins(self) -> Pins:
        """The digests of unpinned data at their first download; without a data folder, none."""
        return Pins((self.data_dir or self.cache) / DATA_PINS)

    def require_data(self, asset: str) -> Path:
        """The data folder, if it holds the asset; AssetMissing with the command that gets it."""
        entry = asset_named(asset)
        if entry.embedded:
            return EMBEDDED_DATA
        if self.data_dir is not None and self.data(entry) is not None:
            return self.data_dir
        about = "about " if entry.to_get == entry.estimated_size else ""
        size = f", {about}{sized(entry.to_get)}" if entry.to_get else ""
        why = "no data folder is set; give --data-dir DIR or set HARNESS_DATA_DIR, or"
        if self.data_dir is not None:
            why = f"{self.data_dir} holds no {entry.probe[0]};"
        message = f"{asset} ({entry.what}{size}): {why} get it: {entry.get}"
        raise AssetMissing(message, entry.get)

    def has_data(self, asset: str) -> bool:
        """Whether the asset is on this machine."""
        return self.data(asset_named(asset)) is not None

    def data(self, asset: Asset) -> Path | None:
        """The first of its places under the data folder that exists."""
        if asset.embedded:
            return EMBEDDED_DATA
        places = (
            [self.data_dir / place for place in asset.probe] if self.data_dir else []
        )
        return next((place for place in places if place.exists()), None)

    def identify(
        self,
        config: EncoderConfig,
        path: Path,
        *,
        noted: bool = False,
        writable: bool = True,
    ) -> Identity:
        """What an encoder's files are, and the plug-ins whose code reads them.

        All of their bytes are read. With `noted`, which a plan may ask for, digests
        that were taken earlier stand for large files that seem unchanged. Digests are
        noted in the cache for this, unless it is not `writable`.
        """
        with remembering(
            self.cache / DIGESTS_FOLDER, anew=not noted, writable=writable
        ):
            identity = config.identify(path)
        return replace(identity, key=with_code(identity.key, config))

    def encoder(self, config: EncoderConfig) -> Path:
        """The encoder's folder or file; AssetMissing with what would get it.

        A length variant (`bert-base:64`) reads the files of its base.
        """
        source, base = config.source, base_name(config.name)
        if isinstance(source, Trained):
            folder, get = self.trained(source), f"harness train family {source.family}"
            if (folder / "config.json").exists():
                return folder
            why = "is trained here, seed by seed, and seeds of it are missing"
            raise AssetMissing(f"{source.family} {why}; get them: {get}", get)
        plugins = plugins_of(getattr(config, "function", None)).values()
        path = self.encoders.get(base) or next(
            (plugin.file for plugin in plugins), None
        )
        path = path or packaged(config) or self._downloaded(source)
        if path is None and (self.unpacked(base) / "config.json").exists():
            path = self.unpacked(base)
        if path is not None:
            return path
        hub = source if isinstance(source, Hub) else None
        asset, download_size = (hub.asset, hub.download_size) if hub else ("", 0)
        fetch = get = f"harness fetch {asset or base}"
        if (
            isinstance(source, Hub) and source.package
        ):  # no hub, but a package registry is needed
            get = f"pip install {source.package.partition('/')[0].replace('_', '-')}"
            fetch = f"{get}, or {fetch}"
        size = f", about {sized(download_size)}" if download_size else ""
        copy = f"name a local copy: --encoder {base}=PATH"
        why = f"{base} ({source}{size}) is not on this machine"
        snapshot = self._snapshot(source) if isinstance(source, Hub) else None
        if snapshot is not None and snapshot.folder.exists():
            why += f" as a whole ({snapshot.folder} is no finished `harness fetch`)"
        raise AssetMissing(f"{why}; get it: {fetch}, or {copy}", get)

    def trained(self, source: Trained) -> Path:
        """The folder for a member of a family: under one given by hand, or under the cache."""
        given = self.encoders.get(source.family)
        return (
            given or self.cache / TRAINED_FOLDER / source.folder
        ) / f"seed-{source.seed}"

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether the encoder's files are on this machine; of a family, those of its first seed."""
        try:
            self.encoder(config.member(0))
        except AssetMissing:
            return False
        return True

    def unpacked(self, encoder: str) -> Path:
        """Where an encoder that wheels carry is or will be unpacked."""
        return self.cache / WHEELS_FOLDER / encoder

    def _snapshot(self, source: Hub) -> Snapshot | None:
        """The snapshot of the pinned commit, else of the first download, else of `main`."""
        repository = repository_folder(source.repo)
        commit = source.revision or self.encoder_pins.pin_of(source.repo).get(
            "revision"
        )
        commit = commit or commit_of_main(repository)
        return (
            Snapshot(repository, commit)
            if commit and COMMIT.fullmatch(commit)
            else None
        )

    def _downloaded(self, source: Source) -> Path | None:
        """The complete snapshot of a repository, or the file of vectors in the data folder."""
        if isinstance(source, Hub):
            snapshot = self._snapshot(source)
            return (
                snapshot.folder if snapshot is not None and snapshot.complete else None
            )
        if isinstance(source, VectorFile) and self.data_dir:
            path = self.data_dir / source.file
            companion = self.data_dir / (source.companion or source.file)
            return path if path.exists() and companion.exists() else None
        return None


def assets_of(config: EncoderConfig) -> tuple[Asset, ...]:
    """The assets that hold what an encoder reads under the data folder."""
    source = config.source
    files = (source.file, source.companion) if isinstance(source, VectorFile) else ()
    return tuple(
        asset for file in files for asset in every_asset() if file in asset.probe
    )


def pinned_by(config: EncoderConfig) -> str:
    """By what an encoder's files are fixed, as `Asset.pinned` has it."""
    source = config.source
    if isinstance(source, VectorFile):
        pinned = (
            asset.pinned for asset in assets_of(config) if source.file in asset.probe
        )
        return next(pinned, fixed_by(sha256=source.sha256))
    # What is trained has none of these: another machine trains other weights.
    pins = ("sha256", "revision", "package")
    return fixed_by(**{pin: getattr(source, pin, None) for pin in pins})


def revision_of(path: Path) -> str | None:
    """The commit that a hub snapshot folder is named by, so that an unpinned one is recorded."""
    return path.name if path.parent.name == "snapshots" else None


def packaged(config: EncoderConfig) -> Path | None:
    """The folder, or file of vectors, inside an installed package; its code is not imported."""
    source = config.source
    if not isinstance(source, Hub | Packaged) or source.package is None:
        return None
    file = source.file if isinstance(source, Packaged) else None
    package, _, inner = source.package.partition("/")
    spec = find_spec(package)
    for root in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(root) / inner
        if (folder / (file or "config.json")).exists():
            return folder / file if file else folder
    return None


@dataclass(frozen=True)
class PinFile:
    """What a file of pins holds: by name, the digests of files and the commit of a repository.

    It may be copied from another machine, and the files that it names are read: they
    must be below the folder.
    """

    schema: int
    pins: Mapping[str, Pin]

    def __post_init__(self) -> None:
        if self.schema != PINS_SCHEMA:
            raise ValueError(f"wanted schema {PINS_SCHEMA}, found {self.schema}")
        for what, digest in chain.from_iterable(
            pin.items() for pin in self.pins.values()
        ):
            safe(what)
            if not DIGEST_PATTERN.fullmatch(digest):
                raise ValueError(
                    f"{what!r} is pinned to {digest!r}, which is no digest"
                )


@dataclass(frozen=True)
class Pins:
    """A file of pins: what each asset or repository was when first seen, by name."""

    path: Path

    def read(self) -> Mapping[str, Pin]:
        """Every pin; none where there is no file. Raises DataError for a file of anything else."""
        if not self.path.exists():
            return {}
        try:
            return read_typed(PinFile, self.path).pins
        except DataError as error:
            raise DataError(
                f"{error}; remove {self.path} to trust the next download"
            ) from None

    def pin_of(self, name: str) -> Pin:
        """The pin of that name; empty if it was never seen."""
        return self.read().get(name, {})

    def check(self, name: str, pin: Pin) -> None:
        """Raise DataError, naming both digests, if this is not what was seen first."""
        for what, first in self.pin_of(name).items():
            if pin.get(what, first) != first:
                raise DataError(
                    f"{name}: {what} is not what was first downloaded: wanted {first}, found "
                    f"{pin[what]}; if that is meant, remove {name!r} from {self.path}"
                )

    def record(self, name: str, pin: Pin) -> None:
        """Add a pin to those that are known. Raises DataError if they differ."""
        self.check(name, pin)
        if pin.items() <= self.pin_of(name).items():
            return

        def content() -> bytes:
            pins = self.read()  # what others record meanwhile stays
            pins = {**pins, name: {**pins.get(name, {}), **pin}}
            text = json.dumps(
                {"schema": PINS_SCHEMA, "pins": pins}, indent=1, sort_keys=True
            )
            return f"{text}\n".encode()

        rewrite(self.path, content)


def first_seen(seen: Pin) -> str:
    """The remark on an unpinned download: the digests that its first copy had."""
    digests = [digest[:12] for what, digest in seen.items() if what != "revision"]
    return f"unpinned, first seen {' '.join(digests)}"
