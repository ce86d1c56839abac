"""A study in, a consensus out: `raters.fuse`, its folder, and its notes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"consensus": ["Consensus", "fuse"]}
)
