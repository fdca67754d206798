"""A kernel: IPython with results that programs can read, and what it does in each copy of a sandbox."""

import io
import json
import os
import random
import sys

sys.modules["sandbox_kernel"] = sys.modules[__name__]
# No debugger: it takes memory in each kernel.
sys.modules["debugpy"] = None

from IPython import get_ipython  # noqa: E402
from IPython.core.formatters import BaseFormatter, JSONFormatter  # noqa: E402
from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from traitlets.config import Config  # noqa: E402
from traitlets.traitlets import ObjectName, Unicode  # noqa: E402

import charts  # noqa: E402

MAX_CELLS = 100_000
MAX_JSON_CHARS = 1_000_000

_saved = []


def begin(env, environment=None):
    """Before a cell. `environment`: it is the first one of a copy, which has variables of its own, and no past."""
    if environment is not None:
        os.environ.update(environment)
        _reseed()
    _saved.append({name: os.environ.get(name) for name in env})
    os.environ.update(env)


def end():
    """After a cell with variables of its own."""
    for name, value in (_saved.pop() if _saved else {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _reseed():
    """Generators that all copies would continue alike. Those that a program made itself are its own."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(48), 48.0)


def warm():
    """Loads what most cells use, so that copies have it in memory."""
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd

    format = get_ipython().display_formatter.format
    figure, axes = plt.subplots()
    axes.plot(np.arange(3), label="x")
    axes.set_title("title")
    format(figure)
    plt.close(figure)
    format(pd.DataFrame({"a": [1, 2]}))
    format([1])
    plt.plot([1, 2])
    plt.savefig(io.BytesIO())
    plt.close("all")


def _loaded(module, name):
    found = sys.modules.get(module)
    return getattr(found, name, None) if found is not None else None


class DataFormatter(BaseFormatter):
    """The columns of a data frame."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, str)

    def __call__(self, obj):
        frame = _loaded("pandas", "DataFrame")
        if frame is None or not isinstance(obj, frame):
            return super().__call__(obj)
        if obj.size > MAX_CELLS:
            return None
        return {str(name): [to_plain(value) for value in obj.iloc[:, at]] for at, name in enumerate(obj.columns)}


def to_plain(value):
    """A value of JSON."""
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class ChartFormatter(BaseFormatter):
    """What a figure of matplotlib shows."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, str)

    def __call__(self, obj):
        figure = _loaded("matplotlib.figure", "Figure")
        if figure is None or not isinstance(obj, figure):
            return super().__call__(obj)
        try:
            return charts.to_chart(obj)
        except Exception:
            # A figure that it does not understand is an image all the same.
            return None


class PlainJsonFormatter(JSONFormatter):
    """Lists and dictionaries, where they are JSON."""

    def __call__(self, obj):
        if not isinstance(obj, (dict, list)):
            return super().__call__(obj)
        try:
            text = json.dumps(obj, default=to_plain, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return None
        return json.loads(text) if len(text) <= MAX_JSON_CHARS else None


def show_saved_images():
    """An image that is saved, or shown where there is no display, is a result."""
    from IPython.display import display
    from PIL import Image, ImageShow

    save = Image.Image.save

    def save_and_show(self, fp, format=None, **options):
        save(self, fp, format, **options)
        if isinstance(fp, (str, os.PathLike)):
            display(self)

    Image.Image.save = save_and_show
    ImageShow.UnixViewer.show_file = lambda self, path, **options: 0
    Image.Image.show = lambda self, *args, **options: display(self)


def main():
    # Users' modules, not these, are found first.
    sys.path[0] = ""
    config = Config()
    config.InteractiveShell.colors = "NoColor"
    config.HistoryManager.enabled = False
    app = IPKernelApp.instance(config=config)
    app.initialize(sys.argv[1:])
    formatters = app.shell.display_formatter.formatters
    for kind, formatter in {
        "e2b/data": DataFormatter,
        "e2b/chart": ChartFormatter,
        "application/json": PlainJsonFormatter,
    }.items():
        formatters[kind] = formatter(parent=app.shell.display_formatter)
    show_saved_images()
    app.start()


if __name__ == "__main__":
    main()
