"""Scores: scipy's on any input, no number where there is none, and alike however they were made."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import TOY, FakeConfig, FakeEncoder, Told, library, method, ticks
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import roc_auc_score

from harness.core.metrics.auc import auc
from harness.core.metrics.correlation import pearson, spearman
from harness.evaluation.runner import execute
from harness.registry import load_registry
from harness.results.planned import planned_cells
from harness.results.records import Store

ATTACK = "number"
DIGITS = 1e-12  # of a correlation between -1 and 1
