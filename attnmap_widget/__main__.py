"""A map from the shell: `python -m attnmap_widget --help`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import AttentionMap, __version__
from .files.read import read_weights

if TYPE_CHECKING:
    from .exploring.explorer import AttentionExplorer

_ABOUT = """\
Draw attention maps without a notebook: rows are queries (who looks), columns are keys (who is
looked at), stronger in colour where the weight is higher."""
_EXAMPLES = """\
examples:
  python -m attnmap_widget grid weights.csv
      print the grid with two decimals, and what looks wrong with it
  python -m attnmap_widget grid weights.npy --tokens "the cat sat" --causal -o map.svg
      one grid (queries, keys) as a picture
  python -m attnmap_widget grid heads.npy --axes "layer head query key" -o heads.html
      a stack of grids as one page with menus
  python -m attnmap_widget model path/to/model "The cat sat on the mat" -o heads.html
      all heads of a model in a folder, as one page that needs no network
  python -m attnmap_widget model path/to/model "The cat sat" --layer 3 --head 5 -o head.png
      one head as a picture

-o goes by its suffix: .html .svg .png .pdf .csv .txt. Without -o the grid is printed.
Exit status: 0 done, 1 could not be read or drawn (the reason is on stderr), 2 wrong usage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except OSError as failure:
        where = f"{failure.filename}: " if failure.filename and failure.strerror else ""
        return _failed(f"{where}{failure.strerror or failure}")
    except (ValueError, TypeError, ImportError, RuntimeError) as failure:
        return _failed(str(failure))
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attnmap_widget",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="grid | model")

    grid = commands.add_parser("grid", help="weights from a .npy, .csv or .tsv file")
    grid.add_argument("file", type=Path, help="(queries, keys), or a stack of them in a .npy")
    grid.add_argument(
        "--tokens", help='the keys: "the cat sat", split at spaces, or @FILE with one a line'
    )
    grid.add_argument("--queries", help="the rows, likewise; the same as the keys if left out")
    grid.add_argument("--axes", help='of a stack: "layer head query key", "batch head query key"')
    grid.add_argument(
        "--labels", choices=("yes", "no"), help="whether a table's first line and column are labels"
    )
    grid.set_defaults(run=_grid)

    model = commands.add_parser("model", help="a text through a transformers model")
    model.add_argument(
        "folder", type=Path, help="a saved model with its tokenizer, or a .gguf file"
    )
    model.add_argument("text", help="what the model reads")
    model.add_argument("--target", help="what the decoder of an encoder-decoder model reads")
    model.set_defaults(run=_model)

    for command in (grid, model):
        command.add_argument("-o", "--out", type=Path, help="file to write, by its suffix")
        command.add_argument("--layer", type=int, help="this layer alone")
        command.add_argument("--head", type=_head, help='this head alone; "mean" or "max" over all')
        command.add_argument("--kind", help='"self", "cross", "encoder", "decoder" or a tower')
        command.add_argument("--title", default="", help="caption")
        command.add_argument("--scheme", help="colour scheme, such as Blues, Viridis, RdBu")
        command.add_argument("--color-scale", help="linear, log, row or symmetric")
        command.add_argument(
            "--causal", action="store_true", help="cells above the diagonal cannot be looked at"
        )
        command.add_argument(
            "--theme",
            choices=("light", "dark", "auto"),
            default="light",
            help="light or dark; auto for a page",
        )
        command.add_argument(
            "--quiet", action="store_true", help="say nothing on stderr but errors"
        )
    return parser


def _head(text: str) -> int | str:
    return text if text in ("mean", "max") else int(text)


# -- the two commands -------------------------------------------------------------------------


def _grid(options: argparse.Namespace) -> None:
    read = read_weights(options.file, {"yes": True, "no": False, None: None}[options.labels])
    tokens, queries = _tokens("--tokens", options.tokens), _tokens("--queries", options.queries)
    if queries is None and (tokens is None or read.queries != read.tokens):
        queries = read.queries
    tokens = read.tokens if tokens is None else tokens
    if queries == tokens:
        queries = None
    if read.weights.ndim == 2:
        for name in ("layer", "head", "kind", "axes"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name}: {options.file.name} holds one grid, not a stack of them"
                )
        count = read.weights.shape[1]
        tokens = tokens or [str(position) for position in range(count)]
        if queries is None and read.weights.shape[0] != count:
            queries = [str(position) for position in range(read.weights.shape[0])]
        _write_map(AttentionMap(tokens, read.weights, queries, **_style(options)), options)
        return
    from .exploring.explorer import AttentionExplorer

    explorer = AttentionExplorer(
        read.weights, tokens, queries, axes=options.axes, **_shown(options), **_style(options)
    )
    _write_heads(explorer, options)


def _model(options: argparse.Namespace) -> None:
    say = _Progress(options.quiet)
    say("loading torch and transformers")
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    from .exploring.running import explore

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    where: dict[str, Any] = {"local_files_only": True}
    folder = options.folder
    if folder.suffix == ".gguf":
        where, folder = {**where, "gguf_file": folder.name}, folder.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; give one with a saved model")
    if "gguf_file" not in where and not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json; give a folder with a saved model")
    say(f"loading the model in {folder.name}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
        model, found = AutoModel.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **where
        )
    except Exception as failure:  # each kind of file fails in its own way
        raise ValueError(f"{options.folder} cannot be loaded: {failure}") from failure
    # A pooler comes after all attention; it is missing where a model was trained without.
    if missing := sorted(name for name in found["missing_keys"] if "pooler" not in name):
        raise ValueError(
            f"{options.folder}: {len(missing)} of the model's weights are not there and would be "
            f"random, the first is {missing[0]}"
        )
    decodes = bool(getattr(model.config, "is_encoder_decoder", False))
    if decodes != (options.target is not None):
        raise ValueError(
            "--target: this model has a decoder; say what that reads"
            if decodes
            else "--target: this model has no decoder of its own that could read it"
        )
    say("running the model")
    inputs = dict(_ids(tokenizer(options.text, return_tensors="pt"), "text"))
    if decodes:
        target = tokenizer(text_target=options.target, return_tensors="pt")
        inputs["decoder_input_ids"] = _ids(target, "--target")["input_ids"]
    explorer = explore(model, inputs, tokenizer=tokenizer, **_shown(options), **_style(options))
    say("reading the heads")
    _write_heads(explorer, options)


def _ids(encoding: Any, name: str) -> Any:
    """The same; ValueError where there is not one token in it."""
    if not encoding["input_ids"].numel():
        raise ValueError(f"{name}: the tokenizer in that folder makes no tokens of it")
    return encoding


def _write_heads(explorer: AttentionExplorer, options: argparse.Namespace) -> None:
    if options.out is None or options.out.suffix.lower() not in (".html", ".htm"):
        _write_map(explorer.map, options)
        return
    layers = None if options.layer is None else [options.layer]
    heads = None if options.head is None else [options.head]
    _done(explorer.save(options.out, layers=layers, heads=heads, theme=options.theme), options)


def _write_map(drawn: AttentionMap, options: argparse.Namespace) -> None:
    if options.out is None:
        print(drawn.to_text())  # noqa: T201
    else:
        text = options.out.suffix.lower() in (".csv", ".txt")
        _done(drawn.save(options.out, **({} if text else {"theme": options.theme})), options)
    if not options.quiet:
        for check in drawn.checks:
            print(f"note: {check}", file=sys.stderr)  # noqa: T201


# -- small things -----------------------------------------------------------------------------


def _shown(options: argparse.Namespace) -> dict[str, Any]:
    """What an explorer shows first."""
    chosen = {"layer": options.layer, "head": options.head, "kind": options.kind}
    return {name: value for name, value in chosen.items() if value is not None}


def _style(options: argparse.Namespace) -> dict[str, Any]:
    """Options of the map, where they were given."""
    style = {
        "title": options.title,
        "scheme": options.scheme,
        "color_scale": options.color_scale,
        "causal": options.causal,
    }
    return {name: value for name, value in style.items() if value}


def _tokens(option: str, given: str | None) -> list[str] | None:
    if given is None:
        return None
    if not given.startswith("@"):
        found = given.split()
    else:
        try:  # a line ends where an editor ends it; other separators may be tokens
            text = Path(given[1:]).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{option}: {given[1:]} is not UTF-8") from None
        found = text.removesuffix("\n").split("\n") if text else []
    if not found:
        raise ValueError(f"{option}: there are no tokens in {given!r}")
    return found


class _Progress:
    """What goes on, on stderr, with the seconds that went by."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._began = quiet, time.monotonic()

    def __call__(self, doing: str) -> None:
        if not self._quiet:
            print(f"{time.monotonic() - self._began:5.1f} s  {doing}", file=sys.stderr)  # noqa: T201


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)  # noqa: T201
    return 1


def _done(path: Path, options: argparse.Namespace) -> None:
    if not options.quiet:
        size = np.ceil(path.stat().st_size / 1000)
        print(f"wrote {path} ({size:.0f} kB)", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
