"""The content of a matplotlib figure as data: lines, points, bars, wedges and boxes."""

import re

MAX_POINTS = 100_000


def to_chart(figure):
    """None for an empty figure."""
    axes = figure.get_axes()
    if not any(each.has_data() or _shapes(each) for each in axes):
        return None
    if len(axes) == 1:
        return _of_axes(axes[0])
    title = figure._suptitle.get_text() if figure._suptitle is not None else None
    return {"type": "superchart", "title": title or None, "elements": [_of_axes(each) for each in axes]}


def _of_axes(axes):
    kind, read = _kind(axes)
    about = {"type": kind, "title": axes.get_title() or None, "elements": read(axes)}
    if kind in ("pie", "unknown"):
        return about
    about.update(_labels(axes, "x"), **_labels(axes, "y"))
    if kind in ("line", "scatter"):
        about.update(_ticks(axes, "x"), **_ticks(axes, "y"))
    elif not _is_upright(axes, kind):
        for name in ("label", "unit"):
            about[f"x_{name}"], about[f"y_{name}"] = about[f"y_{name}"], about[f"x_{name}"]
    return about


def _shapes(axes):
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    children = [child for child in axes._children if not isinstance(child, Text)]
    return [child for child in children if not (isinstance(child, Line2D) and _is_rule(child))]


def _is_rule(line):
    """A horizontal or vertical line, such as axhline draws; no data."""
    x, y = list(line.get_xdata()), list(line.get_ydata())
    return len(x) == 2 and len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def _kind(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge

    shapes = _shapes(axes)

    def are(*kinds):
        return bool(shapes) and all(isinstance(shape, kinds) for shape in shapes)

    if are(Wedge):
        return "pie", _wedges
    if are(Rectangle) and any(isinstance(each, BarContainer) for each in axes.containers):
        return "bar", _bars
    if are(PathCollection):
        return "scatter", _points
    if any(isinstance(shape, PathPatch) for shape in shapes) and are(PathPatch, Line2D):
        return "box_and_whisker", _boxes
    if are(Line2D):
        return "line", _lines
    return "unknown", lambda _: []


def _labels(axes, axis):
    label = getattr(axes, f"get_{axis}label")() or None
    found = re.search(r"\s\(([^()]*)\)|\[([^\[\]]*)\]", label or "")
    unit = (found.group(1) or found.group(2) or None) if found else None
    return {f"{axis}_label": label, f"{axis}_unit": unit}


def _ticks(axes, name):
    from matplotlib.category import StrCategoryConverter
    from matplotlib.dates import num2date

    axis = getattr(axes, f"{name}axis")
    converter = axis.converter
    ticks = [float(tick) for tick in axis.get_ticklocs()]
    if "Date" in type(converter).__name__:
        scale, values = "datetime", [num2date(tick).isoformat() for tick in ticks]
    elif isinstance(converter, StrCategoryConverter):
        scale, values = "categorical", ticks
    else:
        scale, values = axis.get_scale(), ticks
    labels = [label.get_text() for label in axis.get_ticklabels()]
    return {f"{name}_ticks": values, f"{name}_tick_labels": labels, f"{name}_scale": scale}


def _value(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    return value if isinstance(value, str) else _number(value)


def _number(value):
    value = float(f"{float(value):.12g}")
    return value if value - value == 0 else None


def _pairs(xs, ys):
    pairs = ([_value(x), _value(y)] for x, y in zip(xs, ys))
    return [pair for pair in pairs if None not in pair][:MAX_POINTS]


def _label(artist, kind):
    label = str(artist.get_label())
    found = re.fullmatch(r"_(?:child|container)(\d+)", label)
    return f"{kind} {found.group(1)}" if found else label


def _lines(axes):
    lines = [shape for shape in _shapes(axes)]
    return [
        {"label": _label(line, "Line"), "points": _pairs(line.get_xdata(), line.get_ydata())} for line in lines
    ]


def _points(axes):
    return [
        {"label": _label(each, "Points"), "points": _pairs(*each.get_offsets().T)} for each in _shapes(axes)
    ]


def _wedges(axes):
    return [
        {
            "label": str(wedge.get_label()),
            "angle": round(abs(float(wedge.theta2) - float(wedge.theta1)), 4),
            "radius": _number(wedge.r),
        }
        for wedge in _shapes(axes)
    ]


def _tick_names(axis):
    return {round(float(at), 6): label.get_text() for at, label in zip(axis.get_ticklocs(), axis.get_ticklabels())}


def _is_upright(axes, kind):
    if kind == "bar":
        return all(getattr(each, "orientation", "vertical") != "horizontal" for each in axes.containers)
    # The ticks of a box plot are where the boxes are.
    names = _tick_names(axes.xaxis)
    return all(round(_box_center(box, 0), 6) in names for box in _box_patches(axes))


def _bars(axes):
    elements = []
    for container in axes.containers:
        is_upright = getattr(container, "orientation", "vertical") != "horizontal"
        names = _tick_names(axes.xaxis if is_upright else axes.yaxis)
        group = _label(container, "Group")
        for bar in container:
            center = bar.get_x() + bar.get_width() / 2 if is_upright else bar.get_y() + bar.get_height() / 2
            value = bar.get_height() if is_upright else bar.get_width()
            label = names.get(round(float(center), 6)) or f"{_number(center):g}"
            elements.append({"label": label, "group": group, "value": _number(value)})
    return elements


def _box_patches(axes):
    from matplotlib.patches import PathPatch

    return [shape for shape in axes._children if isinstance(shape, PathPatch)]


def _box_center(box, axis):
    values = box.get_path().vertices[:, axis]
    return (float(min(values)) + float(max(values))) / 2


def _boxes(axes):
    """Of boxes that are filled (patch_artist); the lines belong to the box at whose place they are."""
    along, across = (0, 1) if _is_upright(axes, "box_and_whisker") else (1, 0)
    names = _tick_names(axes.xaxis if along == 0 else axes.yaxis)
    elements = []
    for box in _box_patches(axes):
        center = _box_center(box, along)
        values = [_number(value) for value in box.get_path().vertices[:, across]]
        places = [float(value) for value in box.get_path().vertices[:, along]]
        low, high, half = min(values), max(values), (max(places) - min(places)) / 2
        element = {
            "label": names.get(round(center, 6)) or f"{_number(center):g}",
            **{"min": low, "first_quartile": low, "median": low, "third_quartile": high, "max": high},
            "outliers": [],
        }
        for line in axes.get_lines():
            data = (list(line.get_xdata()), list(line.get_ydata()))
            at, of = [float(value) for value in data[along]], [_number(value) for value in data[across]]
            if not at or any(abs(place - center) > half + 1e-9 for place in at):
                continue
            if line.get_marker() not in ("None", None, "", " ") and line.get_linestyle() in ("None", " ", ""):
                element["outliers"].extend(of)
            elif len(of) == 2 and of[0] == of[1] and low <= of[0] <= high and at[1] - at[0] > half:
                element["median"] = of[0]
            elif len(of) == 2 and at[0] == at[1]:
                element["min"], element["max"] = min(element["min"], *of), max(element["max"], *of)
        elements.append(element)
    return elements
