"""`agg-net`: an aggregation layer of counted matrices, in turns with the network's steps."""

from __future__ import annotations

import torch
from torch import Tensor

from raters.methods.base import Batch, Step, cross_entropy, mean_step
from raters.methods.counting import CountingMethod
from raters.methods.crowd_options import AggNetOptions
from raters.rater_models import posterior
from raters.study.classes import MISSING


class AggNet(CountingMethod):
    r"""The network learns, batch by batch, what its aggregation layer makes of it and the labels.

    .. math::
        q(t) &\propto p(t \mid x) \prod_r C_r[t, o_r] \\
        \text{loss} &= -\sum_t q(t) \log p(t \mid x) \\
        n_r[t, o] &\leftarrow (1 - 1/S) \, n_r[t, o] + \sum_{x \in \text{batch}} q(t) \, 1[o_r = o]

    q is a target without a gradient, from the network and the counts as they are at this step; S
    is the number of batches of an epoch. Of two classes, C holds each rater's sensitivity and
    specificity.

    Albarqouni et al., AggNet: deep learning from crowds for mitosis detection in breast cancer
    histology images, IEEE TMI 35, 2016.
    """

    options: AggNetOptions

    def start_counts(self, batch: Batch) -> Tensor:
        """Return the posterior under the matrices at their start."""
        return self._aggregated(self._look_at(batch), batch)

    def _look_at(self, batch: Batch) -> Tensor:
        logits: Tensor = self.network(batch["image"])[1]
        return logits.log_softmax(1)

    @torch.no_grad()
    def _aggregated(self, log_truth: Tensor, batch: Batch) -> Tensor:
        """Return q; zero for all classes where nobody labelled."""
        labels = batch["labels"]
        column = self.raters(log_truth).see(labels, batch.get("raters")).log_column
        known = (labels != MISSING).any(1, keepdim=True)
        return posterior(log_truth.detach(), column) * known

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the aggregated labels, and count them."""
        if self.raters.held:
            return super().step(batch)
        log_truth = self._look_at(batch)
        target = self._aggregated(log_truth, batch)
        self.count_batch(batch, target)
        return mean_step(*cross_entropy(log_truth, target, self.class_weights))
