"""Which method for one's own study, and the resumable runner of many trainings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"own": ["compare_study"], "own_table": ["StudyComparison"]}
)
