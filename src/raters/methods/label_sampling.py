"""`label-sampling`: a network that learns from one random rater of each case at a time."""

from __future__ import annotations

from torch import Tensor

from raters.methods.base import Batch, HeldOut, NetworkMethod, Step, mean_step
from raters.methods.draws import drawn_answers, drawn_masks
from raters.methods.targets import cross_entropy
from raters.study.classes import MISSING


class LabelSampling(NetworkMethod):
    r"""Trains the network on the labels of one rater, drawn anew for each case and epoch.

    .. math:: -\mathrm{E}_r \log p(o_r \mid x)

    with r uniform over the raters who labelled the case: in the mean over epochs it is the cross
    entropy with the mean label, along a noisier way.

    M. H. Jensen, D. R. Jørgensen, R. Jalaboi, M. E. Hansen and M. A. Olsen, Improving uncertainty
    estimation in convolutional neural networks using inter-rater agreement, MICCAI 2019.
    """

    def step(self, batch: Batch) -> Step:
        """Return the cross entropy with the labels of one rater of each case."""
        labels = batch["labels"]
        chosen = drawn_answers(batch, len(self.task.raters), self.seed, self.epoch)
        if "raters" in batch:
            labels = labels.masked_fill(~chosen, MISSING)
        else:
            labels = drawn_masks(labels, chosen).unsqueeze(1)
        log_truth = self.network(batch["image"])[1].log_softmax(1)
        return mean_step(*of_each(log_truth, labels, self.class_weights))

    def held_out(self, batch: Batch) -> HeldOut:
        """Return the cross entropy with all labels."""
        log_truth = self.network(batch["image"])[1].log_softmax(1)
        even = self.class_weights.new_ones(self.task.num_classes)
        return HeldOut(*of_each(log_truth, batch["labels"], even), log_truth.exp())


def of_each(log_truth: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross entropy with labels `(batch, answers, *space)`, and how many there are."""
    log_truth = log_truth.unsqueeze(2)
    every = log_truth.expand(-1, -1, labels.shape[1], *log_truth.shape[3:])
    return cross_entropy(every, labels, weights)
