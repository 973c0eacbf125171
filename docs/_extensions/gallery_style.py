"""Style of the gallery's figures."""

from typing import Any

STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.constrained_layout.use": True,
    "savefig.bbox": "tight",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Set the style before each script."""
    import matplotlib as mpl

    mpl.rcParams.update(STYLE)
