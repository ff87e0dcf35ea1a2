"""The places of data and encoders on this machine. `Places` finds them; it downloads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.core.errors import AssetMissing, UsageError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import (
    EncoderConfig,
    Hub,
    Identity,
    MavenPackage,
    Packaged,
    Source,
    Trained,
    VectorFile,
)
from harness.core.provenance import plugins_of, with_code
from harness.data.catalogue import DATA_ASSETS, Asset, fixed_by
from harness.data.download import is_complete, snapshot_of

DEFAULT_CACHE = "~/.cache/sentence-embedding-harness"
EMBEDDED_DATA = Path(__file__).parent / "embedded" / "mini"
# Data with licences of their own, laid out as a data folder: in the repository, in no wheel.
INCLUDED_DATA = Path(__file__).parents[2] / "included"
TRAINED_FOLDER = "trained"  # under the cache: what `harness train family` makes
FETCHED_FOLDER = "fetched"  # under the cache: what `harness fetch` makes of packages

PLUGIN_ASSETS: dict[str, Asset] = {}  # assets of loaded plug-ins, by name


def every_asset() -> tuple[Asset, ...]:
    """Every asset of the catalogue and of loaded plug-ins."""
    return (*DATA_ASSETS, *PLUGIN_ASSETS.values())


def asset_named(name: str) -> Asset:
    """The data asset of that name. Raises UsageError if the catalogue holds none."""
    for asset in every_asset():
        if asset.name == name:
            return asset
    raise UsageError(f"no asset {name!r}: add it to harness/data/catalogue.toml")


@dataclass(frozen=True)
class Places:
    """The folders that are searched for data and encoders; nothing is downloaded for that.

    Attributes:
        cache: Holds cached encodings, trained encoders, and checkpoints that were converted.
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
        return cls(cache=cache.expanduser(), data_dir=data_dir)

    # Data

    @property
    def _data_folders(self) -> tuple[Path, ...]:
        """The folders in which data are looked for: the data folder, and the included data."""
        folders = () if self.data_dir is None else (self.data_dir,)
        return (*folders, INCLUDED_DATA) if self.included else folders

    def _find(self, asset: Asset) -> tuple[Path, Path] | None:
        """The data folder that holds an asset, and its file or folder there; None without one."""
        if asset.embedded:
            return EMBEDDED_DATA, EMBEDDED_DATA
        for folder in self._data_folders:
            for place in asset.probe:
                if (folder / place).exists():
                    return folder, folder / place
        return None

    def require_data(self, name: str) -> Path:
        """The folder that holds the asset of this name: the data folder, or data included here.

        Raises AssetMissing with the command that gets it.
        """
        asset = asset_named(name)
        folder_and_place = self._find(asset)
        if folder_and_place is not None:
            return folder_and_place[0]
        description = asset.what
        if asset.download_size:
            description += f", about {sized(asset.download_size)}"
        if self.data_dir is None:
            reason = (
                "no data folder is set; give --data-dir DIR or set HARNESS_DATA_DIR, or"
            )
        else:
            reason = f"{self.data_dir} holds no {asset.probe[0]};"
        raise AssetMissing(
            f"{name} ({description}): {reason} get it: {asset.get}", asset.get
        )

    def data(self, asset: Asset) -> Path | None:
        """The file or folder of an asset: the first of its places that exists; None without one."""
        folder_and_place = self._find(asset)
        return None if folder_and_place is None else folder_and_place[1]

    def has_data(self, asset: str) -> bool:
        """Whether the asset is on this machine."""
        return self._find(asset_named(asset)) is not None

    # Encoders

    def identify(self, config: EncoderConfig, path: Path) -> Identity:
        """The identity of an encoder's files and of the plug-in code that reads them."""
        identity = config.identify(path)
        return replace(identity, key=with_code(identity.key, config))

    def encoder(self, config: EncoderConfig) -> Path:
        """The folder or file of an encoder: the first of its places that exists.

        An encoder that is trained here has one place. Any other is looked for where the
        user said it is, in a loaded plug-in, in an installed package, and among
        downloads. A length variant (`bert-base:64`) has the files of
        its base. Raises AssetMissing with the command that would get them.
        """
        source, base = config.source, base_name(config.name)
        if isinstance(source, Trained):
            if not (self.trained(source) / "config.json").exists():
                command = f"harness train family {source.family}"
                raise AssetMissing(
                    f"{source.family} is trained here, seed by seed, and seeds of it are "
                    f"missing; get them: {command}",
                    command,
                )
            return self.trained(source)
        if base in self.encoders:
            return self.encoders[base]
        for plugin in plugins_of(getattr(config, "function", None)).values():
            return plugin.file
        path = packaged(config)
        if path is not None:
            return path
        if isinstance(source, VectorFile):
            for folder in self._data_folders:
                if all((folder / file).exists() for file in source.files):
                    return folder / source.file
        if isinstance(source, Hub):
            snapshot = snapshot_of(source)
            if snapshot is not None and is_complete(snapshot):
                return snapshot
            if source.maven is not None and self.fetched(source.maven).is_dir():
                return self.fetched(source.maven)
        raise _missing_encoder(base, source)

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether the files of an encoder are on this machine; of a family, its first seed."""
        try:
            self.encoder(config.member(0))
        except AssetMissing:
            return False
        return True

    def fetched(self, package: MavenPackage) -> Path:
        """The checkpoint folder that `harness fetch` makes of a package, whole or not at all."""
        return self.cache / FETCHED_FOLDER / package.title

    def trained(self, source: Trained) -> Path:
        """The folder of an encoder of a family, by its seed.

        It is below the folder that the user gave for the family, or below the cache.
        """
        family_folder = self.encoders.get(source.family)
        if family_folder is None:
            family_folder = self.cache / TRAINED_FOLDER / source.folder
        return family_folder / f"seed-{source.seed}"


def _missing_encoder(name: str, source: Source) -> AssetMissing:
    """The error for an encoder that is in none of its places."""
    if isinstance(source, Packaged):
        step = (
            f"--encoder {name}=PATH with a copy of {source.package} of the repository"
        )
        return AssetMissing(
            f"{name} is in the repository, and not in a wheel: {step}", step
        )
    description = str(source)
    commands = [f"harness fetch {name}"]  # the first is the one to try first
    if isinstance(source, Hub):
        if source.download_size:
            description += f", about {sized(source.download_size)}"
        if source.asset:
            commands = [f"harness fetch {source.asset}"]
        if source.package:  # needs no hub, but a package registry
            package = source.package.partition("/")[0].replace("_", "-")
            commands.insert(0, f"pip install {package}")
        snapshot = snapshot_of(source)
        if snapshot is not None and snapshot.exists():
            description += f"; {snapshot} is no finished `harness fetch`"
    return AssetMissing(
        f"{name} ({description}) is not on this machine; get it: {', or '.join(commands)}, "
        f"or name a local copy: --encoder {name}=PATH",
        commands[0],
    )


def packaged(config: EncoderConfig) -> Path | None:
    """The folder or file of an encoder in an installed package, whose code is not imported."""
    source = config.source
    if not isinstance(source, Hub | Packaged) or source.package is None:
        return None
    package, _, inner_folder = source.package.partition("/")
    spec = find_spec(package)
    file = source.file if isinstance(source, Packaged) else None
    for package_folder in (spec and spec.submodule_search_locations) or ():
        folder = Path(package_folder) / inner_folder
        if (folder / (file or "config.json")).exists():
            return folder if file is None else folder / file
    return None


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
    source: Any = config.source
    for asset in assets_of(config):
        if source.file in asset.probe:
            return asset.pinned
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
