"""Learning methods: how a truth network learns from raters who disagree."""

from raters.methods.entry import MethodEntry as MethodEntry
from raters.methods.options import AggNetOptions as AggNetOptions
from raters.methods.options import CrowdLayerOptions as CrowdLayerOptions
from raters.methods.options import FusedOptions as FusedOptions
from raters.methods.options import GlobalOptions as GlobalOptions
from raters.methods.options import LowRankOptions as LowRankOptions
from raters.methods.options import MaxMigOptions as MaxMigOptions
from raters.methods.options import MethodOptions as MethodOptions
from raters.methods.options import OracleOptions as OracleOptions
from raters.methods.options import PixelOptions as PixelOptions
from raters.methods.options import SingleOptions as SingleOptions
from raters.methods.options import WdnOptions as WdnOptions
from raters.methods.registry import METHODS as METHODS
from raters.methods.registry import learning_method as learning_method
